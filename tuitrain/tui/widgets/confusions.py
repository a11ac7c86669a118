"""The largest confusions as a list: what one looks for in a matrix, and all there is where that would have too many classes."""

from __future__ import annotations

from rich.cells import cell_len
from textual.events import Click
from textual.strip import Strip

from tuitrain.events import Confusion
from tuitrain.tui.browse.results import Cell, Results
from tuitrain.tui.row_list import first_in_view
from tuitrain.tui.strips import Row, bar
from tuitrain.tui.widgets.cell_pane import WORDS_ROWS, CellPane
from tuitrain.tui.wrap import wrap

_MARK = 2
_GAP = 2
_LEAST_NAME = 10
_SHARE = 10
_BAR = 20
_NONE = "The network takes no class for another."
_NOT_KEPT = "Of these {:,} classes nobody could read a confusion matrix, and their largest confusions were not kept. m shows the pictures."


class Confusions(CellPane):
    """A line for each, the largest first, and a cursor on one."""

    TITLE = "Largest confusions"
    LONGEST_END = "000–000 of 000"

    def __init__(self) -> None:
        super().__init__(id="confusions")
        self._place = 0
        self._top = 0

    @property
    def cursor(self) -> Cell:
        """The true and the predicted class of the selected line."""
        rows = self._rows
        return (rows[self._place].truth, rows[self._place].predicted) if rows else (0, 0)

    def show(self, results: Results) -> None:
        """Show an evaluation. The cursor stays on what it was on, where that is still there."""
        before = self.cursor
        self._results = results
        places = (place for place, one in enumerate(results.largest) if (one.truth, one.predicted) == before)
        self._place = next(places, min(self._place, max(len(results.largest) - 1, 0)))
        self.redraw()

    def move(self, columns: int, rows: int) -> None:
        """Move the cursor by rows; it stays inside."""
        place = min(max(self._place + rows, 0), max(len(self._rows) - 1, 0))
        if place != self._place:
            self._place = place
            self.moved()

    def page(self, pages: int) -> None:
        """Move the cursor by the rows that one sees."""
        self.move(0, pages * self._room)

    def jump(self, last: bool) -> None:
        """To the first or the last line."""
        self.move(0, len(self._rows) if last else -len(self._rows))

    # -- drawing ------------------------------------------------------------------------------------------------------

    def content(self, width: int, height: int) -> list[Strip]:
        """The frame with the list; the line of the cursor is always in view."""
        self._top = first_in_view(self._top, self._place, self._room, len(self._rows))
        return super().content(width, height)

    def heading(self) -> tuple[Row, Row]:
        """The title, how the network did where there is room, and what one sees of how many."""
        left, right = self.title(), Row()
        if self._rows:
            seen = min(self._top + self._room, len(self._rows))
            right.add(f"{self._top + 1}–{seen} of {len(self._rows)}", self.palette.dim)
        return left, right

    def body(self, width: int, height: int) -> list[Strip]:
        """A heading and the lines that one sees, and the selected one in words."""
        results = self._results
        if results is None:
            return []
        lines = self.summary_lines(results, width)
        if not results.largest:
            sentence = _NONE if results.counted or results.accuracy == 1 else _NOT_KEPT.format(results.classes)
            return lines + [Row(line, self.palette.text).strip(width) for line in wrap(sentence, width)]
        return self.with_words([*lines, *self._table(results, width)], results, width, height)

    def _table(self, results: Results, width: int) -> list[Strip]:
        palette = self.palette
        counts = [f"{one.count:,} of {one.samples:,}" for one in results.largest]
        number = max(len("samples"), *map(len, counts))
        longest = max(cell_len(results.name(label)) for one in results.largest for label in (one.truth, one.predicted))
        name = max(min(longest, (width - _MARK - 2 * _GAP - number - _SHARE) // 2), _LEAST_NAME)
        bars = _MARK + 2 * (name + _GAP) + number + _SHARE + _GAP + _BAR <= width
        head = Row("  ").left("truth", name + _GAP, palette.dim).left("taken for", name + _GAP, palette.dim)
        lines = [head.right("samples", number, palette.dim).right("of class", _SHARE, palette.dim).strip(width)]
        for place in range(self._top, min(self._top + self._room, len(results.largest))):
            one, here = results.largest[place], place == self._place
            style = palette.strong if here else palette.text
            row = Row("▸ " if here else "  ", palette.cursor).left(results.name(one.truth), name, style).pad_to(_MARK + name + _GAP)
            row.left(results.name(one.predicted), name, style).pad_to(_MARK + 2 * (name + _GAP))
            row.right(counts[place], number, style).right(f"{one.count / one.samples * 100:.1f} %", _SHARE, style)
            if bars:
                row.add(" " * _GAP).join(bar(one.count / one.samples, _BAR, palette.bad, palette.track))
            lines.append(row.strip(width))
        return lines

    @property
    def _rows(self) -> tuple[Confusion, ...]:
        return self._results.largest if self._results is not None else ()

    @property
    def _above(self) -> int:
        """Lines of the body above the first confusion."""
        return 1 + self._lines_above()

    @property
    def _room(self) -> int:
        """How many confusions one sees."""
        return max(self.body_height() - self._above - WORDS_ROWS, 1)

    # -- mouse --------------------------------------------------------------------------------------------------------

    def on_click(self, event: Click) -> None:
        """Select the line that was clicked."""
        line = event.y - 1 - self._above
        if 0 <= line < self._room and self._top + line < len(self._rows):
            self.move(0, self._top + line - self._place)
