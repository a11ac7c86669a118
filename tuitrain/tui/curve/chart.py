"""A chart as lines of text: axes, lines and dots drawn by plotext.

plotext takes tens of milliseconds for a whole chart. While the axes hold still only the newest columns can change, so `extend` has it draw
just those and puts them in place; cell for cell the result is what `draw` would give.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tuitrain.tui.curve.axes import Axis, cell, dot_cell, dots_in
from tuitrain.tui.curve.band import band_cells
from tuitrain.tui.look import Palette
from tuitrain.tui.strips import PLAIN, patched

Points = Sequence[tuple[float, float]]

# A label that gets a digit more must not move the whole chart sideways.
_LABEL_WIDTH = 5
# Colours are carried through plotext as marks (number, 0, 0) and replaced by styles afterwards; lines and dots count on from these.
_AXES, _RAW, _FIRST = 1, 2, 3
_INKED = re.compile("[^ ]+")


class Line(msgspec.Struct, frozen=True):
    """A curve through points (step, value), by step; at a point whose value is NaN it is interrupted."""

    points: Points
    style: Style


class Dots(msgspec.Struct, frozen=True):
    """Single points (step, value), or several as (step, least, greatest), by step, each with the character `mark`."""

    points: Sequence[tuple[float, ...]]
    style: Style
    mark: str = "●"


class Drawing(msgspec.Struct, frozen=True):
    """What a chart shows. `band` holds raw values as (step, least, greatest) and lies under the lines; dots lie over them, later ones
    over earlier ones.
    """

    width: int
    height: int
    steps: Axis
    values: Axis
    band: Sequence[tuple[float, float, float]] = ()
    lines: Sequence[Line] = ()
    dots: Sequence[Dots] = ()
    braille: bool = True

    @property
    def curves(self) -> list[Line | Dots]:
        """Everything that has points, in the order of drawing."""
        return [*self.lines, *self.dots]


class Picture(msgspec.Struct, frozen=True):
    """A finished chart: its lines, and where in them the canvas is (columns from `left` on, the first `rows` lines)."""

    lines: list[Strip]
    left: int
    rows: int

    @property
    def columns(self) -> int:
        """Cells of the canvas from left to right."""
        return self.lines[0].cell_length - self.left


def load() -> None:
    """Import plotext, which the first frame does without."""
    import textual_plotext.plot  # noqa: F401


def draw(drawing: Drawing, palette: Palette) -> Picture:
    """The whole chart, `height` lines of `width` cells."""
    plot = _new_plot(drawing.width, drawing.height)
    steps, values = drawing.steps, drawing.values
    plot.xlim(steps.low, steps.high)
    plot.ylim(values.low, values.high)
    plot.xticks([position for position, _ in steps.ticks], [label for _, label in steps.ticks])
    plot.yticks([position for position, _ in values.ticks], [label.rjust(_LABEL_WIDTH) for _, label in values.ticks])
    plot.xaxes(True, False)
    plot.yaxes(True, False)
    _add_lines(plot, drawing)
    matrix = _matrix(plot)
    left, rows = matrix.Cols_canvas.start, len(matrix.Rows_canvas)
    columns, corner = len(matrix.Cols_canvas), (left, matrix.Rows_canvas.start)
    _add_band(matrix, drawing, columns, rows, corner)
    _add_dots(matrix, drawing, columns, rows, corner)
    return Picture(_to_strips(matrix, drawing, palette), left=left, rows=rows)


def extend(picture: Picture, drawing: Drawing, palette: Palette, since: float) -> Picture:
    """The chart after more points with the same axes; everything up to step `since` was drawn before.

    Args:
        picture: the chart as it was.
        drawing: all that it shows now.
        palette: the theme's styles.
        since: the last step that `picture` shows; what lies one column before it may change too.
    """
    columns = drawing.width - picture.left
    first = max(cell(since, drawing.steps, columns) - 2, 0)
    newest = max([point[0] for curve in drawing.curves for point in curve.points[-1:]], default=since)
    last = min(cell(newest, drawing.steps, columns) + 2, columns - 1)
    begin, window = _window(drawing, columns, first, last)
    plot = _new_plot(last - begin + 1, picture.rows)
    plot.xlim(window.steps.low, window.steps.high)
    plot.ylim(window.values.low, window.values.high)
    plot.xaxes(False, False)
    plot.yaxes(False, False)
    plot.xfrequency(0)
    plot.yfrequency(0)
    _add_lines(plot, window)
    matrix = _matrix(plot)
    _add_band(matrix, drawing, columns, picture.rows, (-begin, 0))
    _add_dots(matrix, drawing, columns, picture.rows, (-begin, 0))
    patches = _to_strips(matrix, drawing, palette, slice(first - begin, last - begin + 1))
    lines = [_patched(line, patch, picture.left + first) for line, patch in zip(picture.lines[: picture.rows], patches, strict=True)]
    return msgspec.structs.replace(picture, lines=[*lines, *picture.lines[picture.rows :]])


def _patched(line: Strip, patch: Strip, start: int) -> Strip:
    """The line with `patch` from cell `start` on; the very same line where it shows that already, as most lines do."""
    if line.crop(start, start + patch.cell_length) == patch:
        return line
    return patched(line, start, patch).simplify()


@functools.cache
def _figure() -> Any:
    """plotext's frame around a plot. Making one takes half a millisecond, for plots within plots, which there are none of."""
    from textual_plotext.plot import Plot

    return Plot()


def _new_plot(width: int, height: int) -> Any:
    plot = copy.copy(_figure())
    plot.monitor = type(plot.monitor)()
    plot.monitor.matrix.set_matrices = functools.partial(_set_matrices, plot.monitor.matrix)
    plot.monitor.set_date(plot.date)
    plot.monitor.set_size((width, height))  # whatever plotext believes the terminal's to be
    plot.axes_color("default")
    plot.canvas_color("default")
    plot.ticks_color(_mark(_AXES))
    return plot


def _set_matrices(matrix: Any) -> None:
    """A blank matrix. plotext's own asks of each cell whether it lies on the canvas, for a background that all of them share here."""
    matrix.marker = [[" "] * matrix.cols for _ in matrix.Rows]
    matrix.fullground, matrix.background, matrix.style = ([[matrix.canvas_color] * matrix.cols for _ in matrix.Rows] for _ in range(3))


def _matrix(plot: Any) -> Any:
    """What it has drawn. Its own `build` would write all cells as text besides, which takes almost half as long again."""
    plot.monitor.build_plot()
    return plot.monitor.matrix


def _window(drawing: Drawing, columns: int, first: int, last: int) -> tuple[int, Drawing]:
    """The drawing seen through columns `first` to `last`, and the column where it really begins: further left, with two points of each
    line before, because plotext rounds what lies left of the canvas another way.
    """
    steps = drawing.steps
    dots, _ = dots_in(drawing.braille)
    per_dot = (steps.high - steps.low) / max(columns * dots - 1, 1)
    edge = steps.low + first * dots * per_dot
    lines = [msgspec.structs.replace(line, points=line.points[_two_before(line.points, edge) :]) for line in drawing.lines]
    begin = min([first, *(cell(points[0][0], steps, columns) - 1 for points in (line.points for line in lines) if points)])
    begin = max(begin, 0)
    low, high = steps.low + begin * dots * per_dot, steps.low + (last * dots + dots - 1) * per_dot
    return begin, msgspec.structs.replace(drawing, steps=Axis(low, high, ()), lines=lines)


def _two_before(points: Sequence[tuple[float, ...]], edge: float) -> int:
    index = len(points)
    while index > 0 and points[index - 1][0] >= edge:
        index -= 1
    return max(index - 2, 0)


def _add_lines(plot: Any, drawing: Drawing) -> None:
    place = drawing.values.position
    for number, line in enumerate(drawing.lines, _FIRST):
        if line.points:
            xs, ys = [step for step, _ in line.points], [place(value) for _, value in line.points]
            plot.plot(xs, ys, marker="braille" if drawing.braille else "*", color=_mark(number))
    if not any(line.points for line in drawing.lines):
        # plotext draws no axes without a signal; this one lies outside of them.
        plot.scatter([drawing.steps.low - 1], [drawing.values.low - 1], color=_mark(_AXES))


def _add_band(matrix: Any, drawing: Drawing, columns: int, rows: int, corner: tuple[int, int]) -> None:
    """Put the band into the cells of the matrix that are blank; `corner` is where the canvas begins in it."""
    raw = _mark(_RAW)
    for (column, row), marker in band_cells(drawing.band, drawing.steps, drawing.values, columns, rows, braille=drawing.braille).items():
        x, y = column + corner[0], row + corner[1]
        if 0 <= x < matrix.cols and matrix.marker[y][x] == " ":
            matrix.marker[y][x], matrix.fullground[y][x] = marker, raw


def _add_dots(matrix: Any, drawing: Drawing, columns: int, rows: int, corner: tuple[int, int]) -> None:
    """Put the marks of single points into the cells that the lines' own dots are in, where plotext would put some one cell beside."""
    values, (wide, high) = drawing.values, dots_in(drawing.braille)
    for number, marks in enumerate(drawing.dots, _FIRST + len(drawing.lines)):
        for step, *ends in marks.points:
            column = dot_cell(step, drawing.steps, columns, wide)
            x, (first, last) = column + corner[0], (dot_cell(values.position(end), values, rows, high) for end in (ends[0], ends[-1]))
            if 0 <= column < columns and 0 <= x < matrix.cols:
                for y in range(first + corner[1], last + corner[1] + 1):
                    matrix.marker[y][x], matrix.fullground[y][x] = marks.mark, _mark(number)


def _mark(number: int) -> tuple[int, int, int]:
    return (number, 0, 0)


def _to_strips(matrix: Any, drawing: Drawing, palette: Palette, columns: slice = slice(None)) -> list[Strip]:
    """The lines of a matrix, or only some `columns` of it. plotext keeps rows from the bottom up, with a colour for each cell."""
    inks = [palette.dim, palette.raw, *(curve.style for curve in drawing.curves)]
    styles: dict[object, Style] = {_mark(number): style for number, style in enumerate(inks, _AXES)}
    rows = zip(reversed(matrix.marker), reversed(matrix.fullground), strict=True)
    lines = [("".join(markers[columns]), colours[columns]) for markers, colours in rows]
    return [Strip(_segments(line, colours, styles), len(line)) for line, colours in lines]


def _segments(line: str, colours: Sequence[object], styles: Mapping[object, Style]) -> list[Segment]:
    """A line by the style of its cells. Most of them are blank, and those have none."""
    segments: list[Segment] = []
    shown = 0
    for inked in _INKED.finditer(line):
        begin, style = inked.start(), styles.get(colours[inked.start()], PLAIN)
        if begin > shown:
            segments.append(Segment(line[shown:begin], PLAIN))
        for end in range(begin + 1, inked.end()):
            another = styles.get(colours[end], PLAIN)
            if another is not style:
                segments.append(Segment(line[begin:end], style))
                begin, style = end, another
        shown = inked.end()
        segments.append(Segment(line[begin:shown], style))
    if shown < len(line):
        segments.append(Segment(line[shown:], PLAIN))
    return segments
