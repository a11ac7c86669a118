"""Rows as one looks at them: searched, sorted, with a selection that stays with its row while the list changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar


class Listed(Protocol):
    """A row that is known again in another list, and can be searched for."""

    @property
    def key(self) -> object:
        """Equal for the same thing in every list."""

    @property
    def text(self) -> str:
        """What the filter searches, casefolded."""


RowT = TypeVar("RowT", bound=Listed)


def holding(rows: Iterable[RowT], sought: str, beside: Callable[[RowT, str], bool] | None = None) -> list[RowT]:
    """The rows that hold every word of `sought`, in any case of letters; `beside` says so of words not in a row's text."""
    words = sought.casefold().split()
    return [row for row in rows if _holds(row, words, beside)] if words else list(rows)


def _holds(row: RowT, words: Sequence[str], beside: Callable[[RowT, str], bool] | None) -> bool:
    text = row.text
    return all(word in text or (beside is not None and beside(row, word)) for word in words)


def first_in_view(first: int, cursor: int, room: int, count: int) -> int:
    """The first of `room` rows that show of `count`, moved from `first` as little as the cursor needs."""
    return min(max(min(first, cursor), cursor - room + 1), max(count - room, 0))


class RowList(Generic[RowT]):
    """`rows` are those that are left by the filter, in order; `cursor` and `top` are places in them.

    Args:
        sorts: the names of the orders; it begins with the first.
    """

    def __init__(self, sorts: Iterable[str]) -> None:
        self.all: list[RowT] | None = None
        """Every row, in the order in which it came; `None` before the first reading."""
        self.rows: list[RowT] = []
        self.cursor = 0
        self.top = 0
        """The first row in view."""
        self.page = 1
        """How many rows are in view."""
        self.sought = ""
        self._sorts = tuple(sorts)
        self.sort = self._sorts[0]
        self.reverse = False
        self._selected: object = None

    @property
    def selected(self) -> RowT | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.rows else None

    @property
    def in_view(self) -> list[RowT]:
        """The rows to draw."""
        return self.rows[self.top : self.top + self.page]

    def begin_anew(self) -> None:
        """As before the first reading, at the first row; the order and what is sought stay."""
        self.all, self.rows, self.cursor, self.top, self._selected = None, [], 0, 0, None

    def arranged(self) -> list[RowT]:
        """The rows of `all` that the filter leaves, in order."""
        raise NotImplementedError

    def show(self, rows: Sequence[RowT]) -> None:
        """Another list; the selected row stays selected, or the one that takes its place."""
        self.all = list(rows)
        self.arrange()

    def arrange(self) -> None:
        """Search and sort again."""
        self.rows = self.arranged()
        place = next((index for index, row in enumerate(self.rows) if row.key == self._selected), self.cursor)
        self.go_to(place)

    def next_sort(self) -> None:
        """The next order, its usual way round."""
        self.reverse = False
        self.sort = self._sorts[(self._sorts.index(self.sort) + 1) % len(self._sorts)]
        self.arrange()

    def turn(self) -> None:
        """The other way round."""
        self.reverse = not self.reverse
        self.arrange()

    def go_to(self, index: int) -> None:
        """Select another row, and bring it into view."""
        self.cursor = min(max(index, 0), max(len(self.rows) - 1, 0))
        if self.selected is not None:
            self._selected = self.selected.key
        self.top = first_in_view(self.top, self.cursor, self.page, len(self.rows))

    def scroll(self, by: int) -> None:
        """Move the view, and the cursor where it would leave it."""
        self.top = min(max(self.top + by, 0), max(len(self.rows) - self.page, 0))
        self.go_to(min(max(self.cursor, self.top), self.top + self.page - 1))
