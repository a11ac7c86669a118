"""A run that no screen shows: signals end it, and nothing else does."""

from __future__ import annotations

import signal

from tuitrain.session import Session
from tuitrain.signals import Ending


def end_on_signals(session: Session) -> list[int]:
    """From now on the first SIGTERM or SIGINT ends the session's run with a last checkpoint, and a second one the process at once.

    Returns:
        Will hold the number of the first one when it has come.
    """
    ending = Ending(session.interrupt)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ending)
    return ending.received


def go_on_unseen(session: Session) -> int:
    """Let the session's run go on to its end when its terminal has gone; the exit code."""
    received = end_on_signals(session)
    while not session.join(1.0):
        pass
    return 128 + (received[0] if received else signal.SIGHUP)
