"""Textual's driver for Linux with a writer that never waits for the terminal, and a reader that ends when the terminal has gone.

Textual's own writer holds the event loop up once thirty pieces of output wait, and its reader runs in circles on a closed terminal.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Protocol, cast

from textual import constants
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key
from textual.message import Message

from tuitrain.tui.terminal.guardian import Guardian
from tuitrain.tui.terminal.outlet import Outlet
from tuitrain.tui.terminal.paste import PasteGuard

_TICK_SECONDS = 0.1
"""How long Esc may wait for the rest of another key."""
_CHUNK = 4096


class Told(Protocol):
    """The app; all of it may be called in a thread."""

    def terminal_gone(self) -> None:
        """The terminal has gone away; it may be said twice."""

    def terminal_caught_up(self) -> None:
        """The terminal takes output again, after some was dropped."""

    def from_outside(self, call: Callable[[], object]) -> None:
        """Have the event loop call `call`, while there is one."""

    def before_standing_still(self) -> str:
        """What the shell's screen is to say while the process stands still."""

    def if_killed(self) -> str:
        """What it is to say should the process be killed now."""


class LastingDriver(LinuxDriver):
    """The driver of an app that is `Told`."""

    _outlet: Outlet | None = None
    _bell: tuple[int, int] | None = None
    """Both ends of a pipe that wakes the reader."""
    _guardian: Guardian | None = None

    @property
    def _told(self) -> Told:
        return cast(Told, self._app)

    def start_application_mode(self) -> None:
        """Take the terminal."""
        told, terminal = self._told, self._file
        assert terminal is not None
        self._outlet = Outlet(terminal.fileno(), gone=told.terminal_gone, caught_up=told.terminal_caught_up)
        self._bell = os.pipe()
        self._size = self._get_terminal_size()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._guardian = Guardian(terminal.fileno(), told.if_killed())

    def remember(self, words: str) -> None:
        """What the shell's screen is to say should the process be killed; it may have changed."""
        if self._guardian is not None:
            self._guardian.tell(words)

    def _get_terminal_size(self) -> tuple[int, int]:
        """How large the terminal is that is drawn on, whatever standard output is and COLUMNS and LINES say: those that `docker exec` was
        given do not follow the window. They count where the terminal knows no size, and then what is usual."""
        terminal = self._file
        assert terminal is not None
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(terminal.fileno())
            if columns and rows:
                return columns, rows
        return super()._get_terminal_size()

    def write(self, data: str) -> None:
        """Send `data` when the terminal takes it."""
        if self._outlet is not None:
            self._outlet.write(data)

    def disable_input(self) -> None:
        """End the reader, which may be waiting for a key."""
        bell, self._bell = self._bell, None
        if bell is not None:
            os.write(bell[1], b".")
        super().disable_input()
        for end in bell or ():
            os.close(end)

    def stop_application_mode(self) -> None:
        """Give the terminal back."""
        if self._outlet is not None:
            self._outlet.last_words()
        super().stop_application_mode()
        if self._guardian is not None:
            self._guardian.dismiss()
            self._guardian = None

    def close(self) -> None:
        """End the threads."""
        super().close()
        if self._outlet is not None:
            self._outlet.close()
            self._outlet = None

    # Textual obeys these two signals wherever the main thread is, which may be in the middle of taking the terminal.

    def _sigtstp_application(self, *_: object) -> None:
        """The process is to stand still."""
        if self._outlet is None:
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            self._told.from_outside(lambda: self.stand_still(os.getpid()))

    def stand_still(self, pid: int) -> None:
        """Give the terminal back, and have process `pid` stand still; 0 is this one with all that the shell started it with.

        These take their signal only then: once they stand still the shell has the terminal, and nobody else may touch it.
        """
        if self._outlet is not None and self._auto_restart:
            self.stop_application_mode()
            self.write(self._told.before_standing_still())
            self.close()
        os.kill(pid, signal.SIGSTOP)

    def _sigcont_application(self, *_: object) -> None:
        """The process goes on. Slurm and systemd send this also to one that never stood still, and before they end it."""
        if self._auto_restart:
            self._told.from_outside(self._take_again)

    def _take_again(self) -> None:
        """Take the terminal anew, for a shell may have had it meanwhile, and have all of it painted."""
        if self._outlet is not None:
            # Without SIGTSTP before, nothing was given back: what reads and writes now would be left behind, and outlive the app.
            self.suspend_application_mode()
        self._must_signal_resume = True
        self.resume_application_mode()

    def run_input_thread(self) -> None:
        """Turn what is typed into events, until the app or the terminal ends. Sleeps while nothing is typed."""
        parser, decode, guard = XTermParser(self._debug), getincrementaldecoder("utf-8")("replace").decode, PasteGuard()
        assert self._bell is not None
        woken, unfinished = self._bell[0], 0.0
        while not self.exit_event.is_set():
            wait = _TICK_SECONDS if time.monotonic() < unfinished else None
            ready, _, _ = select.select([self.fileno, woken], [], [], wait)
            if woken in ready:
                self.exit_event.wait(_TICK_SECONDS)
            elif ready:
                data = self._read()
                if not data:
                    # A terminal in raw mode has no key for the end of its input: nobody is there any more.
                    self._told.terminal_gone()
                    return
                text = guard.pass_on(decode(data))
                # To the parser an empty text is the end; it is one after a part of a character, or of the mark that ends a paste.
                for event in parser.feed(text) if text else ():
                    self.process_message(_as_pressed(event))
                unfinished = time.monotonic() + constants.ESCAPE_DELAY + 2 * _TICK_SECONDS
            for event in parser.tick():
                self.process_message(event)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, _CHUNK)
        except OSError:
            return b""


def _as_pressed(event: Message) -> Message:
    """Enter that was pressed before the app took the terminal is Enter: the terminal had still made the end of a line of it."""
    return Key("enter", "\r") if isinstance(event, Key) and event.key == "ctrl+j" else event
