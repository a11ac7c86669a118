"""The files in benchmarks/results: one for each call of the benchmarks, never changed afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.pairs import Figure

RESULTS = Path(__file__).parent / "results"
NO_LONGER_TAKEN = frozenset(
    {
        "terminal output of a run's first steps, against rich's progress bar",
        "memory gained in 1 min of training",
        "memory gained in 3 min of training",
        "memory gained in 3 min of showing 1,000,000 steps and 16 stand-in cards",
        "memory gained in 5 min of training",
        "memory gained in 5 min of showing 1,000,000 steps and 16 stand-in cards",
        "memory gained in 10 min of training",
    }
)
"""Lines that older files have and no command brings any more, or that longer ones have replaced."""


@dataclass(frozen=True)
class Kept:
    """A figure, when it was taken ("20261121-0738", UTC), and the machine."""

    figure: Figure
    stamp: str
    machine: dict[str, Any]


class Keeper:
    """Writes the figures of one call, again after each, so that what was taken is kept whatever comes.

    Args:
        folder: where the file goes, when there is a figure.
        machine: its description.

    Raises:
        FileExistsError: another call began in the same second.
    """

    def __init__(self, folder: Path, machine: dict[str, Any]) -> None:
        self._machine = machine
        self._figures: list[Figure] = []
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        self.path = folder / f"{stamp}.json"
        if self.path.exists():
            raise FileExistsError(self.path)

    def add(self, taken: Iterable[Figure]) -> None:
        """Keep these too."""
        self._figures += taken
        document = {"machine": self._machine, "figures": [asdict(line) for line in self._figures]}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def newest(folder: Path) -> list[Kept]:
    """The newest figure in `folder` of each name that is still taken, whatever it says, in the order in which they were first taken."""
    found: dict[str, Kept] = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        for values in document.get("figures", ()):
            line = Figure(**{field.name: values[field.name] for field in fields(Figure) if field.name in values})
            if line.name not in NO_LONGER_TAKEN:
                found[line.name] = Kept(line, path.stem, document["machine"])
    return list(found.values())
