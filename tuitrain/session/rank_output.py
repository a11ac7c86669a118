"""What the ranks of a group print: a file for each of them, and their last words."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tuitrain.runs.crash import FATAL, crash_in
from tuitrain.text import clean

LOGS = "ranks"
"""Their folder in the run folder."""
_MOST_LINES = 1_000
"""Of a crash, with the stacks of all threads."""
_PREFIX = re.compile(r"rank (\d+): ")


class RankOutput:
    """The lines of the launcher, which begin with `rank N:` where they are a rank's."""

    def __init__(self) -> None:
        self._unkept: list[str] = []
        self._last_words: dict[int, str] = {}
        self._crashes: dict[int, list[str]] = {}

    @property
    def unkept(self) -> Sequence[str]:
        """The lines that are in no file yet."""
        return self._unkept

    def last_words(self, rank: int) -> str:
        """The newest line of a rank; empty where it said nothing."""
        return self._last_words.get(rank, "")

    def crash(self, rank: int) -> str | None:
        """How and where a rank has crashed, see `crash_in`."""
        return crash_in("\n".join(self._crashes.get(rank, ())))

    def take(self, lines: Sequence[str]) -> None:
        """Take in what was printed."""
        for line in lines:
            if rank := _PREFIX.match(line):
                number, said = int(rank[1]), line[rank.end() :]
                self._last_words[number] = clean(said.strip())
                if said.startswith(FATAL):
                    self._crashes[number] = []
                if (crash := self._crashes.get(number)) is not None and len(crash) < _MOST_LINES:
                    crash.append(said)
        self._unkept += lines

    def keep(self, folder: Path) -> None:
        """Append what was taken in to `rank-N.log` and `launcher.log` in `folder`, which is made; on a full disk they lack it."""
        if not self._unkept:
            return
        lines, self._unkept = self._unkept, []
        said = defaultdict[str, list[str]](list)
        for line in lines:
            rank = _PREFIX.match(line)
            said[f"rank-{rank[1]}.log" if rank else "launcher.log"].append(clean(line[rank.end() :] if rank else line) + "\n")
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            for name, own in said.items():
                with (folder / name).open("a", encoding="utf-8") as file:
                    file.writelines(own)
