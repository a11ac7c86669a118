"""What several rooms know of signals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


class Terminated(SystemExit):
    """SIGTERM or SIGHUP has come; the code is 128 and its number."""

    code: int


@contextmanager
def raised() -> Iterator[None]:
    """While entered, SIGTERM and SIGHUP are raised as `Terminated`, so that what has been begun is undone. For the main thread.

    A signal that is ignored, as under `nohup`, stays so.
    """

    def leave() -> None:
        raise Terminated(128 + ending.received[0])

    ending = Ending(leave)
    with handled(ending, signal.SIGTERM, signal.SIGHUP):
        yield


@contextmanager
def handled(handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals) -> Iterator[None]:
    """While entered, `handler` gets those of these signals that did what they do to any program. For the main thread."""
    heard = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in heard:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def leave_to_parent() -> None:
    """In a process that was forked from one that handles signals, as a worker of a person's own data is: what asks it to end ends it.

    Its parent waits for that. What a terminal sends to both is the parent's to obey.
    """
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if not callable(handler) or handler is signal.default_int_handler:
            continue
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)
        elif number == signal.SIGINT:
            signal.signal(number, Ending(lambda: None))
        else:
            signal.signal(number, signal.SIG_DFL)


def signal_name(number: int) -> str:
    """ "SIGKILL", or "signal 99" for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
