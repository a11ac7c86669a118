"""An app that outlasts its terminal: one that stalls holds nothing up, and one that goes away ends the screen and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from textual import constants

from tuitrain.tui.terminal.thrift import ThriftyApp

if TYPE_CHECKING:
    from textual.driver import Driver

Result = TypeVar("Result")


class LastingApp(ThriftyApp[Result]):
    """An app that is told what becomes of its terminal."""

    def __init__(self) -> None:
        self._early: list[Callable[[], object]] | None = []
        super().__init__()

    def get_driver_class(self) -> type[Driver]:
        """Ours on a terminal of Linux and its relatives; Textual's own elsewhere."""
        if constants.DRIVER or sys.platform == "win32":
            return super().get_driver_class()
        from tuitrain.tui.terminal.driver import LastingDriver

        return LastingDriver

    def on_mount(self) -> None:
        """Do what was asked for before the event loop ran."""
        early, self._early = self._early or [], None
        for call in early:
            call()

    def from_outside(self, call: Callable[[], object]) -> None:
        """Have the event loop call `call`; from a signal handler or another thread. Once the loop has ended nothing is called."""
        early, loop = self._early, self._loop
        if early is not None:
            early.append(call)
        elif loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(partial(self.call_later, call))

    def terminal_gone(self) -> None:
        """From the driver's threads: the terminal has gone away."""
        self.from_outside(self.hang_up)

    def terminal_caught_up(self) -> None:
        """From the driver's thread: the terminal takes output again, after some was dropped."""
        self.from_outside(self.action_repaint)

    def before_standing_still(self) -> str:
        """What the shell's screen is to say while the process stands still."""
        return ""

    def if_killed(self) -> str:
        """What it is to say should the process be killed, or crash."""
        return "The program was killed, or it crashed."

    def fate_changed(self) -> None:
        """What `if_killed` says is another sentence now."""
        if self._driver is not None and hasattr(self._driver, "remember"):
            self._driver.remember(self.if_killed())

    def action_suspend_process(self) -> None:
        """Stand still until the shell lets the app go on; without one that can, say so."""
        # A shell gives each job a process group of its own; only a program that is alone on its terminal is in the session's first.
        if self._driver is None or not hasattr(self._driver, "stand_still") or os.getpgrp() == os.getsid(0):
            self.notify("No shell started tuitrain on this terminal that could let it go on again.", severity="warning")
        else:
            self._driver.stand_still(0)

    def hang_up(self) -> None:
        """Nobody sees the screen any more."""
        self.exit()
