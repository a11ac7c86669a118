"""What the matrix and the list of confusions share: a cursor on a cell, which stands below in words, and the summary above."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.events import MouseScrollDown, MouseScrollUp
from textual.strip import Strip

from tuitrain.tui.browse.results import TAKEN_FOR, Cell, Results
from tuitrain.tui.strips import PLAIN, Row, fit
from tuitrain.tui.widgets.lines import Pane

WORDS_ROWS = 2
_HEADING_MARKS = 10  # corners, spaces and a piece of the rule between the two ends of a heading


class CellPane(Pane):
    """Shows one evaluation. A subclass draws cells and moves between them."""

    DEFAULT_CSS = "CellPane { height: 1fr; }"
    TITLE: ClassVar[str]
    LONGEST_END: ClassVar[str]
    """The longest thing that stands at the right end of the heading."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.first = self.last = True
        self._results: Results | None = None

    @property
    def cursor(self) -> Cell:
        """The true and the predicted class of the selected cell."""
        raise NotImplementedError

    @property
    def kept(self) -> bool:
        """Whether a sample of the selected cell is kept to look at."""
        return self._results is not None and bool(self._results.chosen("all", self.cursor))

    def move(self, columns: int, rows: int) -> None:
        """Move the cursor; it stays inside."""
        raise NotImplementedError

    def moved(self) -> None:
        """Another cell is selected."""
        self.redraw()
        # Of some cells there is nothing that Enter could show.
        self.refresh_bindings()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def title(self) -> Row:
        """The left end of the heading: the title, and how the network did where there is room."""
        row = Row(self.TITLE, self.palette.title)
        if self._results is not None and not self._lines_above():
            row.add(f"  {self._results.summary()}", self.palette.dim)
        return row

    def summary_lines(self, results: Results, width: int) -> list[Strip]:
        """How the network did, where the heading has no room for it."""
        return [Row(results.summary(), self.palette.dim).strip(width)] * self._lines_above()

    def with_words(self, lines: list[Strip], results: Results, width: int, height: int) -> list[Strip]:
        """`lines`, and in the last ones of `height` what the selected cell means, its share of the class, and what there is to look at."""
        cell, palette = self.cursor, self.palette
        count, samples = results.count(cell), results.in_class(cell[0])
        part = f": {count:,} of {samples:,} ({count / samples * 100:.1f} %)" if samples else f": {count:,} of 0 (n/a)"
        verdict, room = results.verdict(cell), width - len(part)
        if cell_len(verdict) > room and cell[0] != cell[1]:
            verdict = TAKEN_FOR.join(both_names(results, cell, room - len(TAKEN_FOR)))
        first = Row(fit(verdict, min(cell_len(verdict), room)), palette.strong).add(part, palette.text)
        hint = _kept_in_words(len(results.chosen("all", cell)), count)
        blank = [Strip.blank(width, PLAIN)] * (height - WORDS_ROWS - len(lines))
        return [*lines, *blank, first.strip(width), Row(hint, palette.dim).strip(width)]

    def _lines_above(self) -> int:
        """1 where the summary has a line of its own, because the heading does not hold it beside the longest thing at its right end."""
        summary = self._results.summary() if self._results is not None else ""
        return int(len(self.TITLE) + 2 + len(summary) + len(self.LONGEST_END) + _HEADING_MARKS > self.size.width)

    # -- mouse --------------------------------------------------------------------------------------------------------

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """One down."""
        self.move(0, 1)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """One up."""
        self.move(0, -1)


def both_names(results: Results, cell: Cell, width: int) -> tuple[str, str]:
    """The names of the true and the predicted class; where they are too long for `width` cells, they are cut evenly."""
    truth, predicted = map(results.name, cell)
    left = min(cell_len(truth), max(width - cell_len(predicted), width // 2))
    return fit(truth, left), fit(predicted, min(cell_len(predicted), width - left))


def _kept_in_words(kept: int, count: int) -> str:
    """What there is to look at of a cell's `count` samples."""
    if not count:
        return "there is no such sample"
    if not kept:
        return "none of them was kept to look at"
    return f"Enter shows {kept:,} of them" if kept < count else "Enter shows all of them" if count > 1 else "Enter shows it"
