"""The standard streams, and what becomes of the program when one is closed or standard output cannot be written to."""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tuitrain.files import to_nowhere

if TYPE_CHECKING:
    from tuitrain.console.printers import Printer


class _Descriptor(io.RawIOBase):
    """A file descriptor that remembers why it could not be written to: by that its `OSError` is told from every other one."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.failure: OSError | None = None

    def fileno(self) -> int:
        return self.number

    def isatty(self) -> bool:
        return os.isatty(self.number)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        while True:
            try:
                return os.write(self.number, data)
            except BlockingIOError:
                # Another program that has the same terminal told it not to block.
                select.select([], [self.number], [])
            except OSError as error:
                self.failure = error
                raise


def open_closed_streams() -> None:
    """A standard input and a standard error that are closed lead nowhere from now on.

    Python has `None` there, for which `print` takes standard output; and the next file that is opened would get the closed number.
    """
    for name, number, mode in (("stdin", 0, "r"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            to_nowhere(number)
            stream = open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


@contextlib.contextmanager
def standard_output() -> Iterator[None]:
    """While entered, a standard output that is full or closed ends the program with a sentence on stderr and exit code 1.

    A pipe that nobody reads any more ends it without a word.
    """
    before = sys.__stdout__
    if sys.stdout is not before:
        # Somebody else's, as in a test.
        yield
        return
    # Python has nothing there for a closed one; what is printed would vanish. This is a descriptor that refuses it.
    descriptor = _Descriptor(os.open(os.devnull, os.O_RDONLY) if before is None else before.fileno())
    unbuffered = getattr(before, "write_through", False)
    buffer: Any = descriptor if unbuffered else io.BufferedWriter(descriptor)
    sys.stdout = own = io.TextIOWrapper(
        buffer,
        encoding=getattr(before, "encoding", None),
        # A locale that has no "°" or "–" gets "?" for them, and not a traceback.
        errors="replace",
        line_buffering=getattr(before, "line_buffering", False),
        write_through=unbuffered,
    )
    try:
        try:
            yield
        finally:
            own.flush()
    except OSError as error:
        if error is not descriptor.failure:
            raise
        # What is still in the buffers goes nowhere, at the interpreter's end too.
        to_nowhere(descriptor.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"tuitrain: standard output: {'it is closed' if before is None else error.strerror}.", file=sys.stderr)
        sys.exit(1)


def terminal_width() -> int | None:
    """The columns of the terminal that standard output leads to; `None` where it leads elsewhere: a script that cuts columns out of a pipe
    finds whole lines."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size  # a list in a pipe does without

    return get_terminal_size().columns


def write_utf8() -> None:
    """Standard output is for a program from now on, which reads UTF-8 whatever a terminal here would show."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


@contextlib.contextmanager
def printer(*, as_json: bool) -> Iterator[Printer]:
    """What shows a run. As JSON it has standard output to itself: while entered, what anybody else prints, C code too, goes to stderr."""
    from tuitrain.console.printers import printer_for

    shows, out = printer_for(json=as_json), sys.stdout
    descriptor = getattr(out.buffer, "raw", out.buffer)
    if not as_json or not isinstance(descriptor, _Descriptor) or sys.__stderr__ is None:
        yield shows
        return
    before = descriptor.number
    out.flush()
    descriptor.number = os.dup(before)
    os.dup2(sys.__stderr__.fileno(), before)
    sys.stdout = sys.stderr
    try:
        yield shows
        out.flush()
    finally:
        apart, descriptor.number = descriptor.number, before
        os.dup2(apart, before)
        os.close(apart)
        sys.stdout = out
