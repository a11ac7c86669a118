"""The list of runs for somebody who looks at it for long: a run is read again only when its files are others."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Iterable
from pathlib import Path

from tuitrain.files import stamp
from tuitrain.paths import STATE
from tuitrain.runs.catalogue import folders, is_run, newest_first
from tuitrain.runs.label import LABEL
from tuitrain.runs.summary import RunSummary, summarize


class Shelf:
    """The runs in `runs_dir`. One thread at a time may call `read`."""

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._known: dict[str, tuple[object, RunSummary]] = {}

    def newest(self, count: int) -> tuple[list[RunSummary], int] | None:
        """About `count` runs, the newest first, and how many folders there are beyond them; `None` where there are none beyond.

        An id begins with when its run did.

        Raises:
            RunError: the folder cannot be read.
        """
        found = folders(self._runs_dir)
        if len(found) <= count:
            return None
        return self._read(heapq.nlargest(count, found, key=os.path.basename)), len(found) - count

    def read(self) -> list[RunSummary]:
        """Every run, newest first, as `catalogue.list_runs` gives them; two thousand unchanged ones in some hundredths of a second.

        Raises:
            RunError: the folder cannot be read.
        """
        return self._read(folders(self._runs_dir))

    def _read(self, paths: Iterable[str]) -> list[RunSummary]:
        now = time.time()
        known: dict[str, tuple[object, RunSummary]] = {}
        for folder in paths:
            stamps = (stamp(f"{folder}/{STATE}"), stamp(f"{folder}/{LABEL}"))
            if stamps[0] is None and not is_run(Path(folder)):
                continue
            before = self._known.get(folder)
            # Whether the process of a live run is still there does not show in its files, nor whether what could not be read now can.
            same = before is not None and before[0] == stamps and not before[1].live and not before[1].broken
            known[folder] = before if before is not None and same else (stamps, summarize(Path(folder), now))
        self._known = known
        return sorted((run for _, run in known.values()), key=newest_first, reverse=True)
