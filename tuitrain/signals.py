"""What several rooms know of signals."""

from __future__ import annotations

import signal
import time

ECHO_SECONDS = 0.5


class Echo:
    """Tells a second signal to end from an echo of the first: `timeout` and some launchers tell a process, and then its whole group."""

    def __init__(self) -> None:
        self._first: float | None = None

    def heard(self) -> bool:
        """A signal has come; whether it is an echo."""
        now = time.monotonic()
        if self._first is None:
            self._first = now
            return False
        return now - self._first < ECHO_SECONDS


def signal_name(number: int) -> str:
    """ "SIGKILL", or "signal 99" for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
