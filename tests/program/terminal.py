"""A program in a real pseudo-terminal, and what a person would see on it."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pexpect
import pyte

TUITRAIN = str(Path(sys.executable).with_name("tuitrain"))
KEYS = {"Enter": "\r", "Esc": "\x1b", "Tab": "\t", "Space": " ", "Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D"}


def _hear() -> None:
    """Also where the tests themselves run under `nohup`, or in a shell's background, which hears no Ctrl+C."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


class Terminal:
    """Runs `argv` in a terminal of `columns` × `rows`; every byte it writes is kept in `raw`."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], columns: int = 120, rows: int = 40) -> None:
        self.raw = b""
        self._ended = False
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        full = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **env}
        size = (rows, columns)
        self._child = pexpect.spawn(argv[0], list(argv[1:]), dimensions=size, env=full, timeout=5, preexec_fn=_hear)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._child.closed:
            self._child.close(force=True)
        elif self.running:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    @property
    def text(self) -> str:
        """The screen's lines, without trailing spaces."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def pid(self) -> int:
        """The program's process."""
        return int(self._child.pid)

    def hang_up(self) -> None:
        """Close the terminal under the program, as a lost connection does."""
        self._child.ptyproc.fileobj.close()
        self._child.ptyproc.closed = self._child.closed = True

    @property
    def running(self) -> bool:
        """Whether a program whose terminal was hung up still runs."""
        if not self._ended:
            try:
                self._ended = os.waitpid(self.pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                self._ended = True
        return not self._ended

    def press(self, *keys: str) -> None:
        """Send keys: single characters or names from `KEYS`."""
        for key in keys:
            self._child.send(KEYS.get(key, key))

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size, as a window manager would."""
        self._screen.resize(rows, columns)
        self._child.setwinsize(rows, columns)

    def read(self, seconds: float) -> bool:
        """Take in what comes within `seconds`; `False` once the program has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                data = self._child.read_nonblocking(65536, timeout=min(left, 0.05))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                return False
            self.raw += data
            self._stream.feed(data)
        return True

    def wait(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        """Read until the screen shows `pattern`.

        Raises:
            AssertionError: it did not come in time; the text is the screen.
        """
        end, ended = time.monotonic() + seconds, False
        while (match := re.search(pattern, self.text)) is None:
            assert not ended, f"the program ended without {pattern!r}:\n{self.text}"
            assert time.monotonic() < end, f"{pattern!r} did not come in {seconds} s:\n{self.text}"
            ended = not self.read(0.05)
        return match

    def exit_code(self, seconds: float = 30) -> int:
        """Read until the program ends.

        Raises:
            AssertionError: it did not in time.
        """
        end = time.monotonic() + seconds
        while self.read(0.1):
            assert time.monotonic() < end, f"still running after {seconds} s:\n{self.text}"
        self._child.wait()
        status = self._child.exitstatus
        return int(status) if status is not None else -int(self._child.signalstatus)
