"""Writing to a terminal that may stall or go away."""

from __future__ import annotations

import os
import select
import termios
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

_MOST = 1 << 18
"""Bytes that wait for a terminal; a screen of 200 × 60 in full colour is a fifth of it."""
_JOIN_SECONDS = 1.0
_HURRIED_SECONDS = 0.5
_LOOK_SECONDS = 0.1
_END_OF_ANY_SEQUENCE = b"\x1b\\"
"""Whatever the terminal has got half of, it is over with this."""


class Outlet:
    """Writes in a thread of its own: `write` never waits for the terminal.

    A terminal that takes nothing loses what waits for it once that is too much, and all that comes until it takes something again; then
    `caught_up` is called, for it shows nobody knows what. One that has gone loses everything, and `gone` is called once. Both are called
    in the thread.

    Args:
        descriptor: the terminal.
        gone: writing has failed.
        caught_up: something was dropped, and the terminal takes output again.
    """

    def __init__(self, descriptor: int, *, gone: Callable[[], None], caught_up: Callable[[], None]) -> None:
        self._descriptor = _opened_anew(descriptor)
        self._gone = gone
        self._caught_up = caught_up
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._last_words = b""
        self._behind = self._leaving = self._closing = self._hurried = self._broken = False
        self._changed = threading.Condition()
        # A write to a stalled terminal returns when it likes: nobody waits for this thread longer than `close` does.
        self._thread = threading.Thread(target=self._run, name="tuitrain-terminal", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Send `text` when the terminal takes it."""
        data = text.encode("utf-8", "backslashreplace")
        with self._changed:
            if self._broken or self._behind:
                return
            self._waiting.append(data)
            self._size += len(data)
            if self._leaving:
                self._last_words += data
            if self._size > _MOST and not self._leaving:
                self._behind = True
                self._waiting.clear()
                self._size = 0
            self._changed.notify()

    def last_words(self) -> None:
        """What comes from now on gives the terminal back: none of it is dropped."""
        with self._changed:
            self._leaving, self._behind = True, False

    def close(self) -> None:
        """Send what waits, as far as the terminal takes it within a second, and end the thread.

        Where it takes less, what it has not got is dropped, but for the last words: they wait in their place for when it does.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_JOIN_SECONDS)
        self._hurried = True
        self._thread.join(_HURRIED_SECONDS)

    def _run(self) -> None:
        try:
            while (data := self._next()) is not None:
                self._send(data)
                with self._changed:
                    late, self._behind = self._behind, False
                if late:
                    self._caught_up()
        except OSError:
            with self._changed:
                self._broken = True
                self._waiting.clear()
            self._gone()
        finally:
            os.close(self._descriptor)

    def _send(self, data: bytes) -> None:
        """Raises: OSError: the terminal has gone."""
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                if self._hurried:
                    self._leave_last_words()
                    return
                select.select([], [self._descriptor], [], _LOOK_SECONDS)

    def _leave_last_words(self) -> None:
        """In the place of all that the terminal has not taken: whoever writes to it next, as a shell its prompt, comes after them."""
        with self._changed:
            self._waiting.clear()
        if not _in_background(self._descriptor):
            with suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCOFLUSH)
        with suppress(BlockingIOError):
            os.write(self._descriptor, _END_OF_ANY_SEQUENCE + self._last_words)

    def _next(self) -> bytes | None:
        """All that waits, nothing where it was dropped; `None` at the end."""
        with self._changed:
            while not (self._waiting or self._behind):
                if self._closing:
                    return None
                self._changed.wait()
            data = b"".join(self._waiting)
            self._waiting.clear()
            self._size = 0
            return data


def _in_background(descriptor: int) -> bool:
    """Whether the shell has the terminal now: whoever gives it orders then is stopped."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:  # it is no terminal of this process's session
        return False


def _opened_anew(descriptor: int) -> int:
    """The terminal for one who does not wait for it, which concerns nobody else who has it open; where it cannot be opened, as another
    user's after `su`, one waits."""
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return os.dup(descriptor)
