"""The numbers that stand on curves, so that they are told apart without colours."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tuitrain.tui.curve.axes import Axis, dot_cell, dots_in, step_at
from tuitrain.tui.curve.chart import Picture
from tuitrain.tui.strips import patched

_TRIES = 24
_APART = 2


class Callout(msgspec.Struct, frozen=True):
    """A number at a cell of the canvas, counted from its upper left."""

    number: int
    column: int
    row: int


class Course(msgspec.Struct, frozen=True):
    """The way of curve `number` over the chart: points (x, value) by x, none of them outside of its axes."""

    number: int
    points: Sequence[tuple[float, float]]


def call_out(
    courses: Sequence[Course], x: Axis, values: Axis, columns: int, rows: int, *, every: int, braille: bool = True
) -> list[Callout]:
    """Where the numbers stand: at the end of each curve and, where there is room, about each `every` columns before.

    Curves that lie on each other get their numbers side by side, because no cell holds two of them.
    """
    taken: set[tuple[int, int]] = set()
    found: list[Callout] = []
    ways = [_Way(course, x, values, columns, rows, dots_in(braille)) for course in courses if course.points]
    for way in ways:
        if place := way.free(way.last, taken) or way.beside(taken):
            found.append(_take(way, place, taken))
    for index, way in enumerate(ways):
        # Each begins elsewhere, so that those of curves that run together do not crowd.
        column = way.last - every // 2 - index * every // len(ways)
        while column > way.first + 1:
            if place := way.free(column, taken):
                found.append(_take(way, place, taken))
            column -= every
    return found


def with_callouts(picture: Picture, callouts: Sequence[Callout], styles: Sequence[Style]) -> Picture:
    """The chart with the numbers on it; curve 1 has the first style."""
    lines = list(picture.lines)
    for callout in callouts:
        line, at = lines[callout.row], picture.left + callout.column
        mark = Strip([Segment(str(callout.number), styles[callout.number - 1] + Style(bold=True))], 1)
        lines[callout.row] = patched(line, at, mark)
    return msgspec.structs.replace(picture, lines=lines)


def _take(way: _Way, place: tuple[int, int], taken: set[tuple[int, int]]) -> Callout:
    taken.add(place)
    return Callout(way.number, *place)


class _Way:
    """A course in cells."""

    def __init__(self, course: Course, x: Axis, values: Axis, columns: int, rows: int, dots: tuple[int, int]) -> None:
        self.number = course.number
        self._xs = [point[0] for point in course.points]
        self._heights = [values.position(point[1]) for point in course.points]
        self._x, self._values, self._columns, self._rows = x, values, columns, rows
        self._wide, self._high = dots
        self.first, self.last = self._column(self._xs[0]), self._column(self._xs[-1])

    def _column(self, x: float) -> int:
        return min(max(dot_cell(x, self._x, self._columns, self._wide), 0), self._columns - 1)

    def _row(self, column: int) -> int:
        """The row of the curve in a column."""
        at = min(max(step_at(column, self._x, self._columns), self._xs[0]), self._xs[-1])
        right = min(bisect_left(self._xs, at), len(self._xs) - 1)
        left = max(right - 1, 0)
        span = self._xs[right] - self._xs[left]
        share = (at - self._xs[left]) / span if span > 0 else 1.0
        height = self._heights[left] + (self._heights[right] - self._heights[left]) * share
        return self._rows - 1 - dot_cell(height, self._values, self._rows, self._high)

    def free(self, column: int, taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        """The first cell of the curve from a column to the left that no number is near."""
        for candidate in range(column, max(column - _TRIES, self.first - 1), -1):
            row = self._row(candidate)
            if not any((near, row) in taken for near in range(candidate - _APART + 1, candidate + _APART)):
                return candidate, row
        return None

    def beside(self, taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        """A cell next to the curve's end, for a curve that is too short for its number."""
        row = self._row(self.last)
        return next(((column, row) for column in range(self.last, self._columns) if (column, row) not in taken), None)
