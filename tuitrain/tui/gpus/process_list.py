"""The processes as one looks at them: sorted, searched, with a selection that stays with its process while the list changes."""

from __future__ import annotations

from collections.abc import Sequence

from tuitrain.tui.gpus.process_rows import SORTS, ProcessRow, arranged


class ProcessList:
    """`rows` are the processes that are left by the filter, in order; `cursor` and `top` are places in them."""

    def __init__(self) -> None:
        self.all: list[ProcessRow] = []
        self.rows: list[ProcessRow] = []
        self.cursor = 0
        self.top = 0
        """The first process in view."""
        self.page = 1
        """How many processes are in view."""
        self.sort = next(iter(SORTS))
        self.reverse = False
        self.sought = ""
        self.card: str | None = None
        """The key of the only card that is shown, `None` for all."""
        self._selected: object = None

    @property
    def selected(self) -> ProcessRow | None:
        """The process under the cursor."""
        return self.rows[self.cursor] if self.rows else None

    @property
    def in_view(self) -> list[ProcessRow]:
        """The processes to draw."""
        return self.rows[self.top : self.top + self.page]

    def show(self, rows: Sequence[ProcessRow]) -> None:
        """Another list; the selected process stays selected, or the one that takes its place."""
        self.all = list(rows)
        self.arrange()

    def arrange(self) -> None:
        """Search and sort again."""
        self.rows = arranged(self.all, self.sort, reverse=self.reverse, sought=self.sought, card=self.card)
        place = next((index for index, row in enumerate(self.rows) if row.key == self._selected), self.cursor)
        self.go_to(place)

    def next_sort(self) -> None:
        """The next column's order, its usual way round."""
        names = list(SORTS)
        self.sort, self.reverse = names[(names.index(self.sort) + 1) % len(names)], False
        self.arrange()

    def turn(self) -> None:
        """The other way round."""
        self.reverse = not self.reverse
        self.arrange()

    def go_to(self, index: int) -> None:
        """Select another process, and bring it into view."""
        self.cursor = min(max(index, 0), max(len(self.rows) - 1, 0))
        if self.selected is not None:
            self._selected = self.selected.key
        last_top = max(len(self.rows) - self.page, 0)
        self.top = min(max(self.top, self.cursor - self.page + 1, 0), self.cursor, last_top)

    def scroll(self, by: int) -> None:
        """Move the view, and the cursor where it would leave it."""
        self.top = min(max(self.top + by, 0), max(len(self.rows) - self.page, 0))
        self.go_to(min(max(self.cursor, self.top), self.top + self.page - 1))
