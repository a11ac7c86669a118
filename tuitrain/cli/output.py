"""Standard output, and what becomes of the program when it cannot be written to."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any


class _Descriptor(io.FileIO):
    """A file descriptor that remembers why it could not be written to: by that its `OSError` is told from every other one."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


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
    descriptor = _Descriptor(os.open(os.devnull, os.O_RDONLY) if before is None else before.fileno(), "wb", closefd=False)
    unbuffered = getattr(before, "write_through", False)
    sys.stdout = own = io.TextIOWrapper(
        descriptor if unbuffered else io.BufferedWriter(descriptor),
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
        from tuitrain.console.terminal import to_nowhere

        # What is still in the buffers goes nowhere, at the interpreter's end too.
        to_nowhere(descriptor.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"tuitrain: standard output: {'it is closed' if before is None else error.strerror}.", file=sys.stderr)
        sys.exit(1)
