"""How the processes of a group ended, in words."""

from __future__ import annotations

from tuitrain.runs.gone import memory_kills, more_kills
from tuitrain.signals import signal_name
from tuitrain.wire import LOST_PEER


class Deaths:
    """Tells it by their exit codes, and whether memory may have run out since the last one."""

    def __init__(self) -> None:
        self._kills = memory_kills()

    def how(self, exitcode: int) -> str:
        """How the process ended that has just ended with `exitcode`, which is negative for a signal."""
        if exitcode == LOST_PEER:
            return "it lost its connection to the others"
        if exitcode >= 0:
            return f"exit code {exitcode}"
        before, self._kills = self._kills, memory_kills()
        name = signal_name(-exitcode)
        return f"{name}, perhaps for want of memory" if name == "SIGKILL" and more_kills(before, self._kills) else name
