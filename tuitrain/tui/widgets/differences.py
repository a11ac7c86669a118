"""How several runs went, and what their configurations differ in: one column for each run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from tuitrain import words
from tuitrain.text import plural
from tuitrain.tui.curve.compare import Entrant
from tuitrain.tui.differing import compare
from tuitrain.tui.look import state_look
from tuitrain.tui.strips import PLAIN, Row
from tuitrain.tui.widgets.scrolling import ScrollingPane
from tuitrain.tui.wrap import wrap, wrap_into

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord

_GAP = 2
_NARROWEST, _WIDEST = 13, 40
_LABEL_NARROW, _LABEL_WIDE = 15, 24
_WIDE = 100
_MOST_LINES = 4
_BOLD = Style(bold=True)


class _Entry(msgspec.Struct, frozen=True):
    """A row of the table: a label and, for each run, a text and its style."""

    label: str
    texts: tuple[str, ...]
    styles: tuple[Style, ...]


class _Layout(msgspec.Struct, frozen=True):
    """The table at one width: cells of the labels, of each run's column that fits, and the lines under the names."""

    label: int
    columns: list[int]
    lines: list[Strip]


class Differences(ScrollingPane):
    """Scrolls down by rows and sideways by runs.

    Args:
        count: how many runs are read.
    """

    class Moved(Message):
        """What can be scrolled to is another now."""

    def __init__(self, count: int) -> None:
        super().__init__(id="differences")
        self.last = True
        self._count = count
        self._read = False
        self._entrants: list[Entrant] = []
        self._comparison = compare([])
        self._arrivals = 0
        self._layout: tuple[object, _Layout] = (None, _Layout(0, [], []))
        self._left = 0

    def show(self, entrants: Sequence[Entrant]) -> None:
        """Show the runs that could be read."""
        self._read = True
        self._arrivals += 1
        self._entrants = [entrant for entrant in entrants if entrant.record is not None]
        self._comparison = compare([record.config for record in self._records()])
        self.stay_inside()
        self.redraw()

    # -- scrolling ----------------------------------------------------------------------------------------------------

    def rows_wanted(self, width: int) -> int:
        """Rows of the whole pane that show everything, in a terminal of `width` cells."""
        return len(self._laid_out(width - 4).lines) + 3

    def line_count(self) -> int:
        """Rows under the names."""
        return len(self._laid_out().lines)

    def room(self) -> int:
        """The names take a row."""
        return max(self.body_height() - 1, 0)

    def page_rows(self) -> int:
        """All that one sees."""
        return max(self.room(), 1)

    @property
    def shifts(self) -> bool:
        """Whether there are runs out of sight."""
        return len(self._laid_out().columns) < len(self._entrants)

    def shift(self, by: int) -> None:
        """Show the runs further right (positive) or left."""
        self._left += by
        self.stay_inside()
        self.redraw()
        self.post_message(self.Moved())

    def on_resize(self, event: events.Resize) -> None:
        """Another size scrolls less far."""
        self.stay_inside()
        self.post_message(self.Moved())

    # -- drawing ------------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """The title, and where one is."""
        palette, right = self.palette, Row()
        if self._entrants and self.is_mounted:
            shown = len(self._laid_out().columns)
            if shown < len(self._entrants):
                right.add("← → ", palette.key).add(f"runs {self._left + 1}–{self._left + shown} of {len(self._entrants)}", palette.dim)
            if self.scrolls:
                below = self.line_count() - self.room() - self._top
                right.add("  " if right.width else "", palette.dim).add("↑ ↓ ", palette.key)
                right.add(f"{below} {plural('row', below)} below", palette.dim)
        return Row("Runs and their differences", self.title_style()), right

    def body(self, width: int, height: int) -> list[Strip]:
        """The runs' names, which stay, over the rows in view."""
        if not self._entrants:
            sentence = "none of these runs could be read" if self._read else f"reading {self._count} runs…"
            return [Row(sentence, self.palette.dim).strip(width)]
        layout = self._laid_out(width)
        head = Row().left("", layout.label)
        for entrant, column in zip(self._entrants[self._left :], layout.columns, strict=False):
            style = self.palette.series[entrant.number - 1] + _BOLD
            head.add(" " * _GAP).add(f"{entrant.number} ", style).left(entrant.label, column - 2, self.palette.strong)
        return [head.strip(width), *layout.lines[self._top : self._top + height - 1]]

    def _laid_out(self, width: int | None = None) -> _Layout:
        """The table at a width, else at the one that it has; made once, because the footer asks for each key whether it can scroll."""
        width = max(self.size.width - 4, 0) if width is None else width
        look = (self._arrivals, width, self.app.theme)
        if (look, self._left) != self._layout[0]:
            label, columns = self._widths(width)
            self._left = min(max(self._left, 0), max(len(self._entrants) - len(columns), 0))
            self._layout = ((look, self._left), _Layout(label, columns, self._lines_below(label, columns, width)))
        return self._layout[1]

    def _lines_below(self, label: int, columns: Sequence[int], width: int) -> list[Strip]:
        """Everything under the names: what came of the runs, what may be why, and the rest, which fewer ask for."""
        if not self._entrants or width < _NARROWEST:
            return []
        palette, alone = self.palette, len(self._entrants) == 1
        differing = [_Entry(_name(field), values, (palette.text,) * len(values)) for field, values in self._comparison.differing]
        lines = [strip for entry in (*self._results(), *differing) for strip in self._drawn(entry, label, columns, width)]
        if not alone and self._comparison.equal:
            lines.append(Row("the configurations are equal", palette.dim).strip(width))
        lines += [strip for entry in self._extents() for strip in self._drawn(entry, label, columns, width)]
        if alone:
            return lines
        same = ", ".join(f"{_name(field)} {value}" for field, value in self._comparison.same if value != "none")
        return [*lines, *(Row(line, palette.dim).strip(width) for line in wrap(f"same in all: {same}", width))]

    def _drawn(self, entry: _Entry, label: int, columns: Sequence[int], width: int) -> list[Strip]:
        """One row of the table, in as many lines as its longest text takes."""
        seen = slice(self._left, self._left + len(columns))
        cells = [wrap_into(text, column, _MOST_LINES) for text, column in zip(entry.texts[seen], columns, strict=True)]
        names = wrap_into(entry.label, label, _MOST_LINES)
        lines = []
        for index in range(max(map(len, [names, *cells]))):
            row = Row().left(names[index] if index < len(names) else "", label, self.palette.dim)
            for cell, column, style in zip(cells, columns, entry.styles[seen], strict=True):
                row.add(" " * _GAP, PLAIN).left(cell[index] if index < len(cell) else "", column, style)
            lines.append(row.strip(width))
        return lines

    def _widths(self, width: int) -> tuple[int, list[int]]:
        """Cells of the labels, and of as many runs' columns as fit; narrower than their texts where that lets all of them fit."""
        if not self._entrants:
            return 0, []
        entries, differing = [*self._results(), *self._extents()], self._comparison.differing
        most = _LABEL_WIDE if width >= _WIDE else _LABEL_NARROW
        label = min(max(map(cell_len, [*(entry.label for entry in entries), *(_name(field) for field, _ in differing)])), most)
        rows = [*(entry.texts for entry in entries), *(values for _, values in differing)]
        natural = [
            min(max(_NARROWEST, cell_len(entrant.label) + 2, *(cell_len(texts[index]) for texts in rows)), _WIDEST)
            for index, entrant in enumerate(self._entrants)
        ]
        room = width - label
        for cap in range(_WIDEST, _NARROWEST - 1, -1):
            columns = [min(cells, cap) for cells in natural]
            if sum(columns) + _GAP * len(columns) <= room:
                return label, columns
        fitting = max(room // (_NARROWEST + _GAP), 1)
        return label, [max(room // fitting - _GAP, 1)] * fitting

    # -- what is said -------------------------------------------------------------------------------------------------

    def _records(self) -> list[RunRecord]:
        return [entrant.record for entrant in self._entrants if entrant.record is not None]

    def _results(self) -> list[_Entry]:
        """What came of the runs; the best of a row is strong."""
        palette, records = self.palette, self._records()
        looks = [state_look(record.state, palette) for record in records]
        words_ = (entrant.state or record.state for entrant, record in zip(self._entrants, records, strict=True))
        states = tuple(f"{glyph} {state}" for (glyph, _), state in zip(looks, words_, strict=True))
        accuracies = [record.best_accuracy for record in records]
        tests = [None if (least := record.evaluations.losses.least) is None else least[1] for record in records]
        losses = [record.last_loss if record.last_loss is not None and math.isfinite(record.last_loss) else None for record in records]
        results = []
        if any(record.has_accuracy for record in records):
            results.append(_Entry("best accuracy", tuple(map(_accuracy, records)), self._best(accuracies, greatest=True)))
        if not all(record.has_accuracy for record in records):
            results.append(_Entry("best test loss", tuple(map(words.number, tests)), self._best(tests, greatest=False)))
        return [
            _Entry("state", states, tuple(style for _, style in looks)),
            *results,
            _Entry("last loss", tuple(map(_last_loss, records)), self._best(losses, greatest=False)),
        ]

    def _extents(self) -> list[_Entry]:
        """How far the runs went, and what they are called on disk."""
        palette, records = self.palette, self._records()
        return [
            _Entry("steps", tuple(map(_steps, records)), (palette.text,) * len(records)),
            _Entry("running time", tuple(words.clock(record.running_seconds) for record in records), (palette.text,) * len(records)),
            _Entry("run", tuple(record.run for record in records), (palette.dim,) * len(records)),
        ]

    def _best(self, values: Sequence[float | None], *, greatest: bool) -> tuple[Style, ...]:
        known = [value for value in values if value is not None]
        best = (max(known) if greatest else min(known)) if len(known) > 1 else None
        return tuple(self.palette.strong if value is not None and value == best else self.palette.text for value in values)


def _accuracy(record: RunRecord) -> str:
    if record.best_accuracy is not None:
        return f"{100 * record.best_accuracy:.1f} %"
    if not record.has_accuracy:
        return "targets are numbers"
    return "no test data" if record.plan is not None and not record.plan.test_samples else words.NONE


def _last_loss(record: RunRecord) -> str:
    """What is kept of a loss that is no finite number does not say which."""
    return words.number(record.last_loss) if record.last_loss is None or math.isfinite(record.last_loss) else "not finite"


def _steps(record: RunRecord) -> str:
    """As wide from the first step to the last."""
    if record.plan is None:
        return f"{record.step:,}"
    total = f"{record.plan.total_steps:,}"
    return f"{f'{record.step:,}':>{len(total)}}/{total}"


def _name(field: str) -> str:
    return field.replace("_", " ")
