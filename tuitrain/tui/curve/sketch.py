"""From the points of a run to the drawing of a chart: gaps, axes, and which dot is the best one."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tuitrain.runs.evaluations import Point
from tuitrain.tui.curve.axes import Axis, percent_axis, value_axis
from tuitrain.tui.curve.chart import Dots, Drawing, Line
from tuitrain.tui.curve.metrics import Metric
from tuitrain.tui.look import Palette

if TYPE_CHECKING:
    from tuitrain.runs.pyramid import Bin

P = TypeVar("P", bound=tuple[float, ...])

_SPIKE = 1.5
_AXIS_WIDTH = 6
# Between the middles of neighbouring columns lies less than this times a column's steps, across an empty column more.
_GAP = 1.5


class Marks(msgspec.Struct, frozen=True):
    """The characters of an evaluation and of the best one, all of them different from the lines' own."""

    test: str
    best: str


BRAILLE_MARKS, PLAIN_MARKS = Marks("●", "◆"), Marks("o", "@")


class Material(msgspec.Struct, frozen=True):
    """What there is to draw: bins of the raw points, those of the smoothed ones where there are any, and of the evaluations.

    `course` is the line through evaluations where nothing else has one, cut at the ends of the axis.
    """

    metric: Metric
    raw: Sequence[Bin]
    smooth: Sequence[Bin] | None
    tests: Sequence[Bin]
    best: Point | None
    course: Sequence[Point] = ()

    @property
    def line(self) -> Sequence[Bin]:
        """What the line goes through."""
        return self.raw if self.smooth is None else self.smooth

    @property
    def hides(self) -> bool:
        """Whether raw values of a noisy curve stand where the line does not: it is smoothed, or goes through means of several."""
        return self.smooth is not None or (self.metric.smooths and any(one.count > 1 for one in self.raw))

    def empty(self, log: bool) -> bool:
        """Whether nothing of it can be shown."""
        least = _least(log)
        return not (any(one.max >= least for one in (*self.raw, *self.tests)) or any(value >= least for _, value in self.course))


def sketch(
    material: Material, steps: Axis, size: tuple[int, int], palette: Palette, *, log: bool, held: Axis | None, braille: bool
) -> Drawing:
    """The drawing of a chart of `size` (width, height).

    Args:
        material: the points.
        steps: the horizontal axis.
        size: in cells.
        palette: the theme's styles.
        log: a logarithmic axis of values.
        held: the axis of values that was shown before, kept while it suits.
        braille: whether the terminal shows it.
    """
    width, height = size
    least, marks = _least(log), BRAILLE_MARKS if braille else PLAIN_MARKS
    tests = [(one.x, max(one.min, least), one.max) for one in material.tests if one.max >= least]
    best = [point for point in [material.best] if point and steps.low <= point[0] <= steps.high and point[1] >= least]
    told = [end for one in material.tests for end in (one.min, one.max)] + [value for _, value in material.course]
    values = _telling(material.line, material.raw, told)
    curve = material.metric.curve
    line = Line(material.course, palette.test) if curve is None else Line(_points(material, steps, width, least), palette.train)
    return Drawing(
        width=width,
        height=height,
        steps=steps,
        values=value_axis(values, height, log=log, held=held) if material.metric.scales else percent_axis(values, height, held=held),
        band=_band(material, steps, width, least) if material.hides else (),
        lines=[line],
        dots=[
            Dots(tests, palette.test, marks.test),
            Dots(best, palette.test, marks.best),
        ],
        braille=braille,
    )


def bin_columns(width: int) -> int:
    """Into how many bins the points of a chart go that is `width` cells wide; a run's labels may change, and its bins should not."""
    return max(width - _AXIS_WIDTH, 1)


def _points(material: Material, steps: Axis, width: int, least: float) -> list[Point]:
    points = [(one.x, one.mean) for one in material.line if one.mean >= least]
    return _with_gaps(points, _spacing(material, steps, width), lambda x: (x, math.nan))


def _band(material: Material, steps: Axis, width: int, least: float) -> list[tuple[float, float, float]]:
    points = [(one.x, max(one.min, least), one.max) for one in material.raw if one.max >= least]
    return _with_gaps(points, _spacing(material, steps, width), lambda x: (x, math.nan, math.nan))


def _spacing(material: Material, steps: Axis, width: int) -> float:
    """Steps between two points that something is missing between."""
    return _GAP * max((steps.high - steps.low) / bin_columns(width), 1.0) if material.metric.every_step else math.inf


def changed_since(before: Drawing, now: Drawing) -> float | None:
    """The last step up to which two drawings with equal axes look the same; infinite where they are equal, `None` where nothing is or
    where the newer one ends earlier, as after a run has gone on from a checkpoint."""
    since = math.inf
    for old, new in ((before.band, now.band), *((a.points, b.points) for a, b in zip(before.lines, now.lines, strict=True))):
        same = _common(old, new)
        if same == len(old) == len(new):
            continue
        if same == 0 or new[-1][0] < old[-1][0]:
            return None
        since = min(since, new[same - 1][0])
    for a, b in zip(before.dots, now.dots, strict=True):
        same = _common(a.points, b.points)
        since = min([since, *(points[same][0] for points in (a.points, b.points) if same < len(points))])
    return since


def _common(old: Sequence[tuple[float, ...]], new: Sequence[tuple[float, ...]]) -> int:
    """How many points at the beginning are equal."""
    shorter = min(len(old), len(new))
    return next((index for index in range(shorter) if old[index] != new[index]), shorter)


def _with_gaps(points: list[P], spacing: float, missing: Callable[[float], P]) -> list[P]:
    """The points with a missing one wherever two are further apart than `spacing`."""
    found = points[:1]
    for before, point in itertools.pairwise(points):
        if point[0] - before[0] > spacing:
            found.append(missing(before[0]))
        found.append(point)
    return found


def _telling(line: Sequence[Bin], raw: Sequence[Bin], tests: Sequence[float]) -> list[float]:
    """The values that the axis has to hold. A spike far above everything smooth is cut at the edge instead of flattening the curve."""
    values = [*(one.mean for one in line), *tests]
    if not values or not raw:
        return values
    top = max(values)
    ceiling = top * _SPIKE if top > 0 else math.inf
    return [*values, min(max(one.max for one in raw), ceiling), min(one.min for one in raw)]


def _least(log: bool) -> float:
    return sys.float_info.min if log else -math.inf
