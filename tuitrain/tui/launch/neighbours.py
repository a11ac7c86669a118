"""The runs that other processes train on this machine: a start would train beside those on its devices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tuitrain.config import ConfigError
from tuitrain.device_names import in_words
from tuitrain.tui.hosts.in_thread import in_thread

if TYPE_CHECKING:
    from tuitrain.runs.summary import RunSummary

_LEAST_SECONDS = 5.0
_SHARE = 0.005
"""The part of a core that looking takes at most: a folder may hold thousands of runs."""


class Neighbours:
    """What was seen of them at the last look.

    Args:
        runs_dir: where the runs are kept.
    """

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._runs: list[RunSummary] = []
        self._looking = False
        self._next = 0.0

    @property
    def due(self) -> bool:
        """Whether it is time to look again; not before the disk has answered."""
        return not self._looking and time.monotonic() >= self._next

    def expire(self) -> None:
        """Look again as soon as may be: a run was started."""
        self._next = 0.0

    async def look(self) -> None:
        """Look at the disk, in a thread."""
        self._looking, begin = True, time.monotonic()
        self._next = begin + _LEAST_SECONDS
        try:
            self._runs = await in_thread(partial(_others, self._runs_dir))
        finally:
            self._looking = False
        if self._next:  # else it has expired meanwhile
            self._next = max(self._next, begin + (time.monotonic() - begin) / _SHARE)

    def words(self, devices: Sequence[str]) -> str:
        """Whom a start on these devices would join, for the middle of a sentence; empty where that is nobody."""
        shared = [(run, there) for run in self._runs if (there := [name for name in dict.fromkeys(devices) if name in run.device])]
        if not shared:
            return ""
        (run, there), *others = shared
        does, where = "is paused" if run.state == "paused" else "trains", "there" if {*there} == {*devices} else f"on {in_words(there)}"
        return f", beside {run.run}, which {does} {where}{f', and {len(others)} more' if others else ''},"


def _others(runs_dir: Path) -> list[RunSummary]:
    from tuitrain.runs import queue  # the first frame does without

    with suppress(ConfigError):
        others = [run for run in queue.live_here(runs_dir) if not run.waits and not run.of_this_process]
        return sorted(others, key=lambda run: run.run)
    return []
