"""The past of the selected card in graphs."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from tuitrain import words
from tuitrain.devices import Choice, DeviceSnapshot, HistoryPoint
from tuitrain.tui.gpus import cards
from tuitrain.tui.gpus.history import Graph, Grid, Span, filled, grid, means
from tuitrain.tui.sampler import SamplerLike
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.lines import Pane

_SCALE = 5
"""Cells for the numbers at the left of a graph and the line beside them."""
_GAP = 2
_NOW = "now"
_LEAST_SECONDS = 4.0


class GpuHistory(Pane):
    """Graphs of `subjects`, `across` of them beside each other."""

    def __init__(self, sampler: SamplerLike, span: Span) -> None:
        super().__init__(id="gpu-history")
        self.subjects: tuple[Choice, ...] = ()
        self.across = 4
        self._sampler = sampler
        self._span = span
        self._snapshot: DeviceSnapshot | None = None
        self._drawn: tuple[object, list[Strip]] | None = None

    def show(self, snapshot: DeviceSnapshot, subjects: Sequence[Choice]) -> None:
        """Another sample, or other devices."""
        self._snapshot, self.subjects = snapshot, tuple(subjects)
        self.redraw()

    def heading(self) -> tuple[Row, Row]:
        """Whose past it is, and how far back it goes."""
        left = Row("History", self.title_style())
        if len(self.subjects) == 1:
            left.add(f" {self.subjects[0].name}", self.palette.dim)
        return left, Row("[ ] ", self.palette.key).add(self._span.name, self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The graphs, and the axis of time under all of them."""
        snapshot = self._snapshot
        if snapshot is None or not self.subjects:
            return []
        plots = [(choice, graph) for choice in self.subjects for graph in cards.graphs_of(choice, snapshot)]
        across = min(self.across, len(plots))
        down = -(-len(plots) // across)
        rows = (height - 1) // down - 1
        cells = (width - _GAP * (across - 1)) // across - _SCALE
        if rows < 1 or cells < 4:
            return []
        where = grid(self._span.seconds, cells, snapshot.time)
        # The newest column grows in eighths of its time at most: an hour's points are not read again for less.
        grown = int(snapshot.time // max(where.step / 8, _LEAST_SECONDS))
        drawn_from = (
            width,
            rows,
            across,
            where,
            grown,
            self.palette,
            [(cards.key_of(choice), choice.name, graph.top) for choice, graph in plots],
        )
        if self._drawn is None or self._drawn[0] != drawn_from:
            self._drawn = drawn_from, self._draw(plots, where, across, rows, width)
        return self._drawn[1]

    def _draw(self, plots: Sequence[tuple[Choice, Graph]], where: Grid, across: int, rows: int, width: int) -> list[Strip]:
        assert self._snapshot is not None
        reach = self._snapshot.time - where.oldest_seconds + 1
        past = {choice.name: self._sampler.history(cards.key_of(choice), reach) for choice in self.subjects}
        lines: list[Strip] = []
        for first in range(0, len(plots), across):
            group = [self._graph(choice, graph, past[choice.name], where, rows) for choice, graph in plots[first : first + across]]
            lines += [_beside(pieces, width) for pieces in zip(*group, strict=True)]
        return [*lines, _beside([self._axis(where)] * across, width)]

    def _graph(self, choice: Choice, graph: Graph, past: Sequence[HistoryPoint], where: Grid, rows: int) -> list[Row]:
        """A title and `rows` lines, each of them `cells` and the scale wide."""
        palette = self.palette
        values = means(past, graph.value, where)
        known = [value for value in values if value is not None]
        top = graph.top or max(known, default=0.0) or 1.0
        whose = f"{choice.name} " if len(self.subjects) > 1 else ""
        room = where.cells - len(whose)
        name = graph.name if len(graph.name) + 1 + len(graph.unit) <= room else graph.short
        what = f"{name} {graph.unit}" if known else f"{name} {words.NONE}"
        lines = [Row(" " * _SCALE).add(whose, palette.text).left(what, room, palette.dim)]
        for number, text in enumerate(filled(values, top, rows)):
            label = "" if not known else f"{top:.0f}" if number == 0 else "0" if number == rows - 1 and rows > 1 else ""
            line = Row().right(label, _SCALE - 1, palette.dim).add("┤" if label else "│", palette.frame)
            lines.append(line.add(text, palette.dim if graph.quiet else palette.primary))
        return lines

    def _axis(self, where: Grid) -> Row:
        """How long ago the left edge is, and where now is."""
        palette = self.palette
        row = Row(" " * (_SCALE - 1)).add("└", palette.frame)
        start = self._span.name if where.cells >= len(self._span.name) + len(_NOW) + 2 else ""
        now = max(where.cell_of_newest() + 1 - len(_NOW), len(start) + 1)
        row.add(start, palette.dim).add("─" * (now - len(start)), palette.frame).add(_NOW, palette.dim)
        return row.pad_to(_SCALE + where.cells)


def _beside(pieces: Sequence[Row], width: int) -> Strip:
    row = Row()
    for number, piece in enumerate(pieces):
        row.add(" " * _GAP if number else "").join(piece)
    return row.strip(width)
