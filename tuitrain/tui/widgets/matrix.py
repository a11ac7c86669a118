"""The confusion matrix as a heat map: what the network took each class for, in percent of the class."""

from __future__ import annotations

import math

import msgspec
from rich.cells import cell_len
from rich.style import Style
from textual.events import Click
from textual.strip import Strip

from tuitrain.tui.browse.pictures import Ink, ink_of
from tuitrain.tui.browse.results import Cell, Results
from tuitrain.tui.browse.shades import ground
from tuitrain.tui.row_list import first_in_view
from tuitrain.tui.strips import Row, bar, fit
from tuitrain.tui.widgets.cell_pane import WORDS_ROWS, CellPane

_LEAST_CELL = 5
_TALLEST_CELL = 5
_MARK = 2
_LEAST_NAME = 10
_HEADER_ROWS = 2
_RECALL = 9
_BAR = 12
_WIDE = 100
_DENSITIES = "░▒▓█"
_FAINTEST = 0.05


class _Grid(msgspec.Struct, frozen=True):
    """Columns of the names and of a cell, rows of a cell, and how many classes one sees down and across."""

    names: int
    cell: int
    tall: int
    rows: int
    columns: int
    bars: bool
    """Whether the recall has a bar."""
    numbered: bool
    """Whether the classes are told by their numbers, because names that are cut look the same."""


class Matrix(CellPane):
    """One row for each true class, one column for each class that the network can name, and a cursor on a cell."""

    TITLE = "Confusion"
    LONGEST_END = "rows 000–000, columns 000–000 of 000"

    def __init__(self) -> None:
        super().__init__(id="matrix")
        self._cell: Cell = (0, 0)
        self._top = 0
        self._left = 0
        self._ink: Ink = "truecolor"
        self._grid = _Grid(8, _LEAST_CELL, 1, 1, 1, False, False)

    @property
    def cursor(self) -> Cell:
        """The true and the predicted class of the selected cell."""
        return self._cell

    def show(self, results: Results) -> None:
        """Show an evaluation that has a matrix. The cursor stays; at first it is on the worst confusion."""
        if self._results is None:
            self._cell = next(((one.truth, one.predicted) for one in results.largest), (0, 0))
        self._results = results
        self.move(0, 0)
        self.redraw()

    def move(self, columns: int, rows: int) -> None:
        """Move the cursor; it stays inside."""
        last = self._results.classes - 1 if self._results is not None else 0
        truth, predicted = self.cursor
        cursor = (min(max(truth + rows, 0), last), min(max(predicted + columns, 0), last))
        if cursor != self.cursor:
            self._cell = cursor
            self.moved()

    def page(self, pages: int) -> None:
        """Move the cursor by the rows that one sees."""
        self.move(0, pages * self._grid.rows)

    def jump(self, last: bool) -> None:
        """To the first or the last cell of the diagonal."""
        end = self._results.classes if self._results and last else 0
        self.move(end - self.cursor[1], end - self.cursor[0])

    # -- drawing ------------------------------------------------------------------------------------------------------

    def content(self, width: int, height: int) -> list[Strip]:
        """The frame with the matrix; the cell of the cursor is always in view."""
        self._ink = ink_of(self.app)
        if self._results is not None:
            self._grid = self._arrange(self._results, width - 4, height - 2)
            truth, predicted = self.cursor
            self._top = first_in_view(self._top, truth, self._grid.rows, self._results.classes)
            self._left = first_in_view(self._left, predicted, self._grid.columns, self._results.classes)
        return super().content(width, height)

    def heading(self) -> tuple[Row, Row]:
        """The title, how the network did where there is room, and which classes one sees where not all fit."""
        palette, results, grid = self.palette, self._results, self._grid
        left, right = self.title(), Row()
        if results is None:
            return left, right
        if grid.rows < results.classes or grid.columns < results.classes:
            # Class numbers begin at 0, here as above the columns.
            rows = f"{self._top}–{self._top + grid.rows - 1}"
            columns = f"{self._left}–{self._left + grid.columns - 1}"
            return left, right.add(f"rows {rows}, columns {columns} of {results.classes}", palette.dim)
        return left, right.add("% of each row", palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """Names above, the cells that one sees with names and recall beside them, and the selected cell in words."""
        results = self._results
        if results is None:
            return []
        lines = [*self.summary_lines(results, width), *self._column_names(results, width)]
        for truth in range(self._top, self._top + self._grid.rows):
            lines += self._class_lines(results, truth, width)
        return self.with_words(lines, results, width, height)

    def _arrange(self, results: Results, width: int, height: int) -> _Grid:
        classes = results.classes
        shown = [results.name(number) for number in range(classes)]
        longest = max(map(cell_len, shown))
        names = max(min(longest, max(width // 4, _LEAST_NAME)), _LEAST_NAME) + _MARK + 1
        bars = names + classes * _LEAST_CELL + _RECALL + _BAR + 2 <= width and width >= _WIDE
        across = width - names - _RECALL - (_BAR + 2 if bars else 0)
        down = height - _HEADER_ROWS - WORDS_ROWS - self._lines_above()
        tall = min(max(down // classes, 1), _TALLEST_CELL)
        cell = min(max(across // classes, _LEAST_CELL), max(2 * tall + 4, _LEAST_CELL))
        return _Grid(
            names=names,
            cell=cell,
            tall=tall,
            rows=min(classes, max(down // tall, 1)),
            columns=min(classes, max(across // cell, 1)),
            bars=bars,
            numbered=len({fit(name, 2 * cell - 1) for name in shown}) < classes,
        )

    def _column_names(self, results: Results, width: int) -> list[Strip]:
        """Above each column its name; where columns are narrow, names take turns on two lines and have the room of two columns."""
        grid = self._grid
        shown = range(self._left, self._left + grid.columns)
        names = {number: str(number) if grid.numbered else results.name(number) for number in shown}
        turns = any(cell_len(name) >= grid.cell for name in names.values())
        lines = [Row("predicted →", self.palette.dim).pad_to(grid.names), Row("truth ↓", self.palette.dim).pad_to(grid.names)]
        end = grid.names + grid.columns * grid.cell
        for place, number in enumerate(shown):
            start = grid.names + place * grid.cell
            room = 2 * grid.cell - 1 if turns else grid.cell
            name = fit(names[number], room).rstrip()
            indent = 0 if turns else max(grid.cell - cell_len(name), 0) // 2
            style = self.palette.cursor if number == self.cursor[1] else self.palette.text
            lines[place % 2 if turns else 1].pad_to(start + indent).add(name, style)
        # The last name reaches over the end on its line.
        free = grid.columns % 2 if turns else 1
        lines[free].pad_to(end).right("recall", _RECALL - 1, self.palette.dim)
        return [line.strip(width) for line in lines]

    def _class_lines(self, results: Results, truth: int, width: int) -> list[Strip]:
        """The lines of one true class; numbers and the name are on the middle one."""
        grid, palette = self._grid, self.palette
        here = truth == self.cursor[0]
        name = f"{truth} {results.name(truth)}" if grid.numbered else results.name(truth)
        strips = []
        for line in range(grid.tall):
            middle = line == (grid.tall - 1) // 2
            row = Row()
            if middle:
                row.add("▸ " if here else "  ", palette.cursor).left(name, grid.names - _MARK - 1, palette.cursor if here else palette.text)
            row.pad_to(grid.names)
            for predicted in range(self._left, self._left + grid.columns):
                self._add_cell(row, results, (truth, predicted), middle)
            if middle:
                recall = results.share((truth, truth))
                row.right("n/a" if recall is None else f"{recall * 100:.1f} %", _RECALL - 1, palette.strong)
                if grid.bars:
                    row.add("  ").join(bar(recall, _BAR, palette.good, palette.track))
            strips.append(row.strip(width))
        return strips

    def _add_cell(self, row: Row, results: Results, cell: Cell, middle: bool) -> None:
        share, width = results.share(cell), self._grid.cell
        fill, style = " ", self.palette.text if share else self.palette.dim
        if share and self._ink in ("truecolor", "256"):
            correct = cell[0] == cell[1]
            ink = self.palette.good if correct else self.palette.bad
            style = ground(self.app.current_theme, ink, share, right=correct, palette=self._ink == "256")
        elif share and share >= _FAINTEST:
            fill = _DENSITIES[math.ceil(share * len(_DENSITIES)) - 1]
        if not middle:
            row.add(fill * width, style)
            return
        number, here = _percent(share), cell == self.cursor
        before = (width - 3) // 2
        left, right = fill * before, fill * (width - 4 - before) + " "
        if here:
            left, right, style = f"{left[:-1]}[", f"]{right[1:]}", style + Style(bold=True, reverse=True)
        row.add(f"{left}{number}{right}", style)

    # -- mouse --------------------------------------------------------------------------------------------------------

    def on_click(self, event: Click) -> None:
        """Select the cell that was clicked."""
        grid = self._grid
        line = event.y - 1 - _HEADER_ROWS - self._lines_above()
        column = (event.x - 2 - grid.names) // grid.cell
        row = line // grid.tall
        if self._results is not None and 0 <= column < grid.columns and 0 <= row < grid.rows:
            self.move(self._left + column - self.cursor[1], self._top + row - self.cursor[0])


def _percent(share: float | None) -> str:
    """A part of a row in three cells."""
    if not share:
        return " · "
    return f"{round(share * 100):>3}" if share >= 0.005 else " <1"
