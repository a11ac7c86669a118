"""Names of the processes that NVML lists by number."""

from __future__ import annotations

from typing import TypedDict

from tuitrain.text import clean


class Named(TypedDict):
    """What is known of a process; both `None` where this machine, or this container, does not see it."""

    name: str | None
    user: str | None


class ProcessNames:
    """Looks processes up, each once for as long as it stays on a card."""

    def __init__(self) -> None:
        self._known: dict[int, Named] = {}

    def look_up(self, pid: int) -> Named:
        """Name and user of `pid`."""
        if pid not in self._known:
            self._known[pid] = _ask_system(pid)
        return self._known[pid]

    def forget_others(self, pids: set[int]) -> None:
        """Drop all but `pids`: the system gives old numbers to new processes."""
        self._known = {pid: named for pid, named in self._known.items() if pid in pids}


def _ask_system(pid: int) -> Named:
    # psutil takes longer to import than the first frame may wait for it.
    import psutil

    try:
        process = psutil.Process(pid)
        return {"name": clean(process.name()), "user": clean(process.username())}
    except (psutil.Error, OSError, ValueError, OverflowError):
        return {"name": None, "user": None}
