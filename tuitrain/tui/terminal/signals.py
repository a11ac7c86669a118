"""Signals, handed to the app's event loop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Protocol

from tuitrain.signals import Echo

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


class Signalled(Protocol):
    """An app that is told."""

    def from_outside(self, call: Callable[[], object]) -> None:
        """Have the event loop call `call`."""

    def hang_up(self) -> object:
        """The terminal has gone."""

    def terminate(self, number: int) -> object:
        """The process is to end."""


@contextmanager
def signals_to(app: Signalled) -> Iterator[None]:
    """While entered, SIGHUP, SIGTERM, SIGINT and SIGQUIT are `app`'s. Afterwards SIGHUP does nothing: a shell sends it too when the
    terminal has gone, and a run may go on then. One that was ignored from the first, as under `nohup`, stays so."""
    echo = Echo()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGQUIT:
            # An app that does nothing any more ends by the next one.
            signal.signal(number, signal.SIG_DFL)
        if number == signal.SIGHUP:
            app.from_outside(app.hang_up)
        elif number == signal.SIGQUIT or not echo.heard():
            app.from_outside(partial(app.terminate, number))

    previous = {number: signal.signal(number, on_signal) for number in _ENDING}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, on_signal)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
