"""What anything in the process writes to stdout or stderr, as lines; the terminal is left to the screens.

File descriptors 1 and 2 become a pipe, so that C libraries (CUDA, NCCL) cannot tear the screen. Textual goes on drawing on the terminal
through a duplicate that takes the place of `sys.__stderr__`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from tuitrain.files import to_nowhere
from tuitrain.python import crashes_to
from tuitrain.text import clean

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")
_LONGEST = 4096
_PIPE_SIZE = 1 << 20
_JOIN_SECONDS = 1.0

Sink = Callable[[str], object]


class Capture:
    """While entered, printed lines go to the sink, called from a thread of its own; what comes before a sink is there waits for it."""

    def __init__(self) -> None:
        self._sink: Sink | None = None
        self._waiting: list[str] = []
        self._lock = threading.Lock()
        self._rest = b""

    def __enter__(self) -> Capture:
        sys.stdout.flush()
        sys.stderr.flush()
        self._python = (sys.stdout, sys.stderr, sys.__stderr__)
        self._saved = (os.dup(1), os.dup(2))
        # Whoever keeps one of them in a file or a pipe has the screens on the other.
        self.terminal = _text(os.dup(self._saved[1 if os.isatty(2) or not os.isatty(1) else 0]))
        """The terminal, for what must be seen after the app has gone, or when it crashes."""
        crashes_to("process", self.terminal)
        self._read, write = os.pipe()
        # Something that prints much while it holds Python's lock would wait for the reader, which waits for the lock.
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        os.dup2(write, 1)
        os.dup2(write, 2)
        os.close(write)
        self._end_read, self._end_write = os.pipe()
        self._prints = (_text(os.dup(1), line_buffering=True), _text(os.dup(2), line_buffering=True))
        setattr(sys, "__stderr__", self.terminal)  # noqa: B010 - typed as final
        sys.stdout, sys.stderr = self._prints
        self._thread = threading.Thread(target=self._follow, name="tuitrain-capture", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for stream in (sys.stdout, sys.stderr, *self._prints):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        for saved, target in zip(self._saved, (1, 2), strict=True):
            os.dup2(saved, target)
            os.close(saved)
        sys.stdout, sys.stderr = self._python[:2]
        setattr(sys, "__stderr__", self._python[2])  # noqa: B010
        crashes_to("process", sys.stderr)
        for stream in self._prints:
            stream.close()
        # A child process may hold the pipe open for longer than we live, so its end is not waited for.
        os.close(self._end_write)
        self._thread.join(_JOIN_SECONDS)
        self.terminal.close()

    def send_to(self, sink: Sink) -> None:
        """Give each line, clean and without escapes, to `sink`; also those that came before."""
        with self._lock:
            for line in self._waiting:
                sink(line)
            self._waiting.clear()
            self._sink = sink

    def take_prints(self) -> None:
        """Have Python's prints go to the pipe too, in place of Textual's own capture, whose fileno() is -1."""
        sys.stdout, sys.stderr = self._prints

    def leave_terminal(self) -> None:
        """The terminal has gone: keep nothing of it open. What is printed goes to the sink as before."""
        for descriptor in (0, *self._saved, self.terminal.fileno()):
            to_nowhere(descriptor)

    def _follow(self) -> None:
        try:
            ending = False
            while True:
                ready, _, _ = select.select([self._read] if ending else [self._read, self._end_read], [], [], 0 if ending else None)
                if self._end_read in ready:
                    ending = True
                if self._read in ready:
                    data = os.read(self._read, 65536)
                    if not data:
                        break
                    self._take(data)
                elif ending:
                    break
            if self._rest:
                self._emit(self._rest)
        finally:
            os.close(self._read)
            os.close(self._end_read)

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._emit(line)
        if len(self._rest) > _LONGEST:
            # A progress bar draws over itself and never ends its line: only its newest state counts.
            self._rest = self._rest.rpartition(b"\r")[2]
        if len(self._rest) > _LONGEST:
            self._emit(self._rest)
            self._rest = b""

    def _emit(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
        text = clean(_ESCAPES.sub("", text).replace("\t", "    "))
        if not text.strip():
            return
        with self._lock:
            if self._sink is None:
                self._waiting.append(text)
            else:
                self._sink(text)


def _text(descriptor: int, *, line_buffering: bool = False) -> TextIO:
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1 if line_buffering else -1)
