"""The list of runs as one looks at it, with marks that stay with their runs while the list changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tuitrain.runs.settings import Settings
from tuitrain.tui.browse.run_rows import SORTS, RunRow, arranged
from tuitrain.tui.row_list import RowList


class RunList(RowList[RunRow]):
    """The runs, newest first where no other order is chosen."""

    def __init__(self) -> None:
        super().__init__(SORTS)
        self.marked: set[str] = set()
        self.detached = False
        """Whether some run trains and nobody looks at it."""
        self.longest_id = 0
        """In characters."""
        self.most_steps = 0
        self.settings: Mapping[str, Settings] | None = None
        """Those of each run by its key; `None` until a filter names one."""

    @property
    def chosen(self) -> list[RunRow]:
        """The marked runs in the order of the list; those that the filter hides come last."""
        shown = [row for row in self.rows if row.key in self.marked]
        keys = {row.key for row in shown}
        return shown + [row for row in self.all or () if row.key in self.marked and row.key not in keys]

    def arranged(self) -> list[RunRow]:
        """The runs that the filter leaves, in order."""
        return arranged(self.all or [], self.sort, self.sought, reverse=self.reverse, settings=self.settings)

    def show(self, rows: Sequence[RunRow]) -> None:
        """Another list, newest first; the selected run stays selected, or the one that takes its place."""
        self.marked &= {row.key for row in rows}
        self.detached = any(row.detached for row in rows)
        self.longest_id = max((len(row.summary.run) for row in rows), default=0)
        self.most_steps = max((row.step for row in rows), default=0)
        super().show(rows)

    def know(self, settings: Mapping[str, Settings]) -> None:
        """What the runs are set to, for a filter that names a setting."""
        self.settings = settings
        self.arrange()

    def update_own(self, current: Callable[[RunRow], RunRow]) -> None:
        """Other numbers for the run of this app."""
        for rows in (self.all or [], self.rows):
            for index, row in enumerate(rows):
                if row.own:
                    rows[index] = current(row)

    def mark(self) -> None:
        """Mark the selected run, or take its mark away."""
        if self.selected is not None:
            self.marked ^= {self.selected.key}
