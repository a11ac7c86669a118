"""The terminal that `tuitrain run` prints to: it may go at any moment, and signals come from it."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from tuitrain.console.printers import Printer, to_stderr
from tuitrain.events import Event
from tuitrain.files import to_nowhere
from tuitrain.session import Session
from tuitrain.signals import Ending, handled

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord


class Terminal:
    """The terminal that a run is shown on, which counts as a screen as long as it is there.

    Args:
        session: trains the run.
        out: what is printed to, a terminal or not.
    """

    def __init__(self, session: Session, out: TextIO) -> None:
        self._session = session
        self._out, self._prints_here = out, out.isatty()
        self._descriptors = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]
        session.screen_attached = self._prints_here or bool({1, 2} & set(self._descriptors))
        self.hung_up = False

    @property
    def shows(self) -> bool:
        """Whether there is something to print to."""
        return not (self.hung_up and self._prints_here)

    def hang_up(self) -> None:
        """It has gone: what was read from it or printed to it is nothing any more."""
        self.hung_up = True
        self._session.screen_attached = False
        for descriptor in self._descriptors:
            to_nowhere(descriptor)
        if self._prints_here:
            to_nowhere(self._out.fileno())


def show(printer: Printer, batch: Sequence[Event], record: RunRecord | None, terminal: Terminal) -> None:
    """Print a batch of the run of `record`, or leave the terminal alone when it has gone; a full disk does not end a run either.

    Raises:
        BrokenPipeError: nobody reads a pipe any more, and not because a terminal went and everything on it.
    """
    if terminal.shows:
        try:
            printer.show(batch, record)
            return
        except OSError as error:
            # A terminal that has gone without a signal, as under `nohup`, is an error of input and output.
            if error.errno == errno.EIO:
                terminal.hang_up()
            elif isinstance(error, BrokenPipeError) and not terminal.hung_up:
                raise
            else:
                to_nowhere(printer.out.fileno())
                if not terminal.hung_up:
                    to_stderr(f"standard output: {error.strerror}; the run goes on without it.")
    printer.close()


@contextmanager
def signals_interrupt(session: Session, terminal: Terminal) -> Iterator[list[int]]:
    """The first SIGINT or SIGTERM asks the run to end at a step boundary; a second one ends the process at once, and so does SIGQUIT
    (Ctrl+\\). SIGHUP ends nothing."""

    def obey() -> None:
        what = {"ended": "on_end", "preparing": "before the next step"}.get(session.state, "after this step, with a checkpoint")
        # Before it is said: on a terminal that somebody has stopped that takes until it goes on.
        session.interrupt()
        # The signal may have come in the midst of a write to the same stream.
        with suppress(RuntimeError):
            to_stderr(f"ending {what}; once more ends at once")

    ending = Ending(obey, _show_cursor)
    previous = {number: signal.signal(number, ending) for number in (signal.SIGINT, signal.SIGTERM)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        previous[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda number, frame: terminal.hang_up())
    try:
        with cursor_for_the_shell():
            yield ending.received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def cursor_for_the_shell() -> AbstractContextManager[None]:
    """While entered, SIGQUIT (Ctrl+\\) and SIGTSTP (Ctrl+Z) show the cursor that a bar hid before they do what they do to any program."""
    return handled(_obey_as_ever, signal.SIGQUIT, signal.SIGTSTP)


def _obey_as_ever(number: int, frame: FrameType | None) -> None:
    _show_cursor()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    # The shell's `fg` and `bg` lead here.
    signal.signal(number, _obey_as_ever)


def _show_cursor() -> None:
    """Past all buffers and locks, and only where the terminal takes it at once: the process is about to end, or to stand still."""
    with suppress(OSError, ValueError):
        descriptor = sys.stderr.fileno()
        if os.isatty(descriptor) and select.select([], [descriptor], [], 0)[1]:
            os.write(descriptor, b"\x1b[?25h")
