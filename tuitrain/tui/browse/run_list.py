"""A list of runs as one looks at it: searched, sorted, with a selection and marks that stay with their runs while the list changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tuitrain.tui.browse.run_rows import SORTS, RunRow, arranged


class RunList:
    """`rows` are the runs that are left by the filter, in order; `cursor` and `top` are places in them."""

    def __init__(self) -> None:
        self.all: list[RunRow] | None = None
        """Every run, newest first; `None` before the first reading."""
        self.rows: list[RunRow] = []
        self.cursor = 0
        self.top = 0
        """The first run in view."""
        self.page = 1
        """How many runs are in view."""
        self.marked: set[str] = set()
        self.detached = False
        """Whether some run trains and nobody looks at it."""
        self.sort = next(iter(SORTS))
        self.sought = ""
        self._selected: str | None = None

    @property
    def selected(self) -> RunRow | None:
        """The run under the cursor."""
        return self.rows[self.cursor] if self.rows else None

    @property
    def in_view(self) -> list[RunRow]:
        """The runs to draw."""
        return self.rows[self.top : self.top + self.page]

    @property
    def chosen(self) -> list[RunRow]:
        """The marked runs in the order of the list; those that the filter hides come last."""
        shown = [row for row in self.rows if row.key in self.marked]
        keys = {row.key for row in shown}
        return shown + [row for row in self.all or () if row.key in self.marked and row.key not in keys]

    def show(self, rows: Sequence[RunRow]) -> None:
        """Another list, newest first; the selected run stays selected, or the one that takes its place."""
        self.all = list(rows)
        self.marked &= {row.key for row in rows}
        self.detached = any(row.detached for row in rows)
        self.arrange()

    def update_own(self, current: Callable[[RunRow], RunRow]) -> None:
        """Other numbers for the run of this app."""
        for rows in (self.all or [], self.rows):
            for index, row in enumerate(rows):
                if row.own:
                    rows[index] = current(row)

    def arrange(self) -> None:
        """Search and sort again."""
        self.rows = arranged(self.all or [], self.sort, self.sought)
        place = next((index for index, row in enumerate(self.rows) if row.key == self._selected), self.cursor)
        self.go_to(place)

    def next_sort(self) -> None:
        """The next order."""
        names = list(SORTS)
        self.sort = names[(names.index(self.sort) + 1) % len(names)]
        self.arrange()

    def mark(self) -> None:
        """Mark the selected run, or take its mark away."""
        if self.selected is not None:
            self.marked ^= {self.selected.key}

    def go_to(self, index: int) -> None:
        """Select another run, and bring it into view."""
        self.cursor = min(max(index, 0), max(len(self.rows) - 1, 0))
        if self.selected is not None:
            self._selected = self.selected.key
        last_top = max(len(self.rows) - self.page, 0)
        self.top = min(max(self.top, self.cursor - self.page + 1, 0), self.cursor, last_top)

    def scroll(self, by: int) -> None:
        """Move the view, and the cursor where it would leave it."""
        self.top = min(max(self.top + by, 0), max(len(self.rows) - self.page, 0))
        self.go_to(min(max(self.cursor, self.top), self.top + self.page - 1))
