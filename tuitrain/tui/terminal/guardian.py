"""A small process that gives the terminal back where this one is killed, or crashes, before it can.

A terminal that stays behind in the middle of an app shows nothing of what is typed, and types what the mouse does.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import IO

from tuitrain.python import crashes_to
from tuitrain.text import clean

_PROGRAM = """
trap '' INT QUIT TERM TSTP TTIN TTOU
words=
while IFS= read -r line; do words=$line; done
[ -n "$words" ] || exit
read -r pid name state parent group session terminal foreground rest < /proc/$$/stat
[ "$2" = job ] || [ "$group" != "$foreground" ] || stty sane <&1
printf '%s%s\\n' "$1" "$words"
crash=/proc/self/fd/${3:-none}
[ ! -s "$crash" ] || sed -n '1p; /^Current thread/,/^$/p' "$crash" | head -n 12
"""
_GIVE_BACK = "".join(
    (
        "\x1b\\",  # the end of whatever the terminal has got half of
        "\x1b[?2026l",  # what is drawn is shown
        "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l",  # the mouse
        "\x1b[?1004l\x1b[?2004l\x1b[?2048l",  # the focus, pastes, and sizes, each told of
        "\x1b[<u",  # keys as kitty has them
        "\x1b[0m\x1b[?7h\x1b[?1049l\x1b[?25h",  # colours, long lines, the screen from before, the cursor
    )
)
_LEAVE_SECONDS = 1.0


def _is_a_job() -> bool:
    """Whether a shell has made this process a job of its own. When that is killed, the shell sets the terminal up again, and at once for
    what it reads itself: nobody else may then. A script that goes on after it does not."""
    return os.getpgrp() == os.getpid()


def _file_in_memory() -> IO[bytes] | None:
    """Nothing where the system has no such files."""
    try:
        return open(os.memfd_create("tuitrain-crash"), "wb")
    except (AttributeError, OSError):
        return None


class Guardian:
    """Waits in a process of its own for the end of this one, until it is dismissed. Where none can be started there is none.

    A crash is told of with where it was, unless a run's folder has that.

    Args:
        terminal: its descriptor.
        words: a sentence for the shell's screen, should this process end without dismissing it.
    """

    def __init__(self, terminal: int, words: str) -> None:
        self._words = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._line: IO[bytes] | None = None
        self._crash = _file_in_memory()
        kept = () if self._crash is None else (self._crash.fileno(),)
        with contextlib.suppress(OSError):
            command = ["/bin/sh", "-c", _PROGRAM, "sh", _GIVE_BACK, "job" if _is_a_job() else "part of one", *map(str, kept)]
            nothing = subprocess.DEVNULL
            self._process = subprocess.Popen(
                command, bufsize=0, stdin=subprocess.PIPE, stdout=terminal, stderr=nothing, cwd="/", pass_fds=kept
            )
            self._line = self._process.stdin
            assert self._line is not None
            os.set_blocking(self._line.fileno(), False)
        crashes_to("process", self._crash)
        self.tell(words)

    def tell(self, words: str) -> None:
        """What it is to say instead; nothing: there is nothing to give back."""
        if self._line is None or words == self._words:
            return
        # One that was killed itself is not missed.
        with contextlib.suppress(OSError):
            self._line.write(f"{clean(words)}\n".encode())
            self._words = words

    def dismiss(self) -> None:
        """The terminal has been given back: it ends without a word."""
        self.tell("")
        crashes_to("process", None)
        if self._crash is not None:
            self._crash.close()
            self._crash = None
        if self._process is None or self._line is None:
            return
        self._line.close()
        self._line = None
        try:
            self._process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
