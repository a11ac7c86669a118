"""Text that the mouse was drawn over, in one widget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.geometry import Offset
from textual.strip import Strip


@dataclass(frozen=True)
class Selected:
    """What stood between two cells when it was selected, and what is copied, whatever stands there by now.

    Attributes:
        first: column and line of the first cell, as one reads.
        last: the same of the last one, which belongs to it.
        lines: their texts, from `first.y` on.
    """

    first: Offset
    last: Offset
    lines: tuple[str, ...]

    @classmethod
    def between(cls, cell: Offset, other: Offset, shown: Sequence[Strip], selectable: Callable[[int], range]) -> Selected:
        """What the lines `shown` hold between two cells of them; `selectable` says in which columns of a line there is text."""
        first, last = sorted((cell, other), key=lambda offset: (offset.y, offset.x))
        place = cls(first, last, ())
        texts = (text_in(shown[y], place.columns(y, selectable(y))) for y in range(first.y, last.y + 1))
        return cls(first, last, tuple(texts))

    @property
    def text(self) -> str:
        """All of it, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self.lines)

    def columns(self, y: int, selectable: range) -> range:
        """Which of the columns of line `y` it has."""
        if not self.first.y <= y <= self.last.y:
            return range(0)
        start = self.first.x if y == self.first.y else selectable.start
        stop = self.last.x + 1 if y == self.last.y else selectable.stop
        return range(max(start, selectable.start), min(stop, selectable.stop))

    def still_at(self, y: int, line: Strip, selectable: range) -> range:
        """The columns of line `y`, where `line` has still the same text in them."""
        columns = self.columns(y, selectable)
        return columns if columns and text_in(line, columns) == self.lines[y - self.first.y] else range(0)


def text_in(line: Strip, columns: range) -> str:
    """The text in some columns of a line."""
    return line.crop(columns.start, columns.stop).text if columns else ""
