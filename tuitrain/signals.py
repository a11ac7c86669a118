"""What several rooms know of signals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import FrameType

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


class Ending:
    """The handler of the signals that ask a process to end: the first is obeyed, a second one, which is no echo, ends it at once.

    Args:
        obey: called once.
        last: called before the process ends at once.

    Attributes:
        received: the number of the first signal, when it has come.
    """

    def __init__(self, obey: Callable[[], object], last: Callable[[], object] = lambda: None) -> None:
        self.received: list[int] = []
        self._obey, self._last, self._echo = obey, last, Echo()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._echo.heard():
            return
        if self.received:
            self._last()
            os._exit(128 + number)
        self.received.append(number)
        self._obey()


def signal_name(number: int) -> str:
    """ "SIGKILL", or "signal 99" for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
