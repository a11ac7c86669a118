"""The picture of a run's curve, kept while nothing that it shows has changed, and drawn again as cheaply as possible."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from typing import TYPE_CHECKING

import msgspec

from tuitrain.tui.curve.axes import Axis, in_epochs, span_axis, step_axis
from tuitrain.tui.curve.chart import Drawing, Picture, draw, extend
from tuitrain.tui.curve.later import Ahead, Later, Source
from tuitrain.tui.curve.metrics import Metric, why_empty
from tuitrain.tui.curve.sketch import Material, bin_columns, changed_since, sketch
from tuitrain.tui.curve.straight import clip
from tuitrain.tui.curve.zoom import Span
from tuitrain.tui.look import Palette

if TYPE_CHECKING:
    from tuitrain.runs.pyramid import Bin
    from tuitrain.runs.record import RunRecord
    from tuitrain.runs.series import Curve

READING = "reading the curve…"
LONGEST_WAIT = 2.0
FOLLOW_WAIT = 4.0
"""A view that moves on with the newest step sends the whole chart each time."""
_QUICK = 20_000
"""So many points are smoothed in some hundredths of a second."""


class Wish(msgspec.Struct, frozen=True):
    """What to show of a run."""

    metric: Metric
    log: bool
    weight: float
    span: Span | None
    epochs: bool
    """Whether epochs are counted under the chart, and not steps."""
    width: int
    height: int
    braille: bool
    theme: str


class Plot:
    """Pictures of one run at a time.

    Args:
        later: computes what would keep the keys waiting.
        least_wait: seconds between two drawings of new points.
    """

    def __init__(self, later: Later, least_wait: float = 0.0) -> None:
        self._later = later
        self._least_wait = least_wait
        self._look: object = None
        self._shows: object = None
        self._picture: Picture | None = None
        self._last: Picture | None = None
        self._last_frame: object = None
        self._drawing: Drawing | None = None
        self._smoothed: Curve | None = None
        self._smoothed_of: object = None
        self._evals = 0
        self._step = 0
        self._drawn_at = 0.0
        self.until = 0
        """The newest step when a picture was last due. What is not in memory is asked for up to there: an answer is drawn at once, and must
        not ask for what has come meanwhile."""

    @property
    def steps(self) -> Axis | None:
        """The horizontal axis of the newest picture."""
        return None if self._drawing is None else self._drawing.steps

    @property
    def columns(self) -> int:
        """Cells of the newest picture's canvas; 0 without one."""
        return 0 if self._last is None else self._last.columns

    def forget(self) -> None:
        """Begin anew, for another run."""
        self._look = self._shows = self._picture = self._last = self._drawing = self._smoothed_of = None
        self._evals = self._step = 0

    def due(self, record: RunRecord, wish: Wish) -> bool:
        """Whether what the run has gained, or lost by going on from a checkpoint, could change the picture by now."""
        evaluated = len(record.evals) != self._evals
        if (evaluated and not record.epochs_fly) or record.step < self._step:
            return True
        axis, waited = axis_of(record, wish), time.monotonic() - self._drawn_at
        if wish.span is not None and record.step > wish.span.high:
            return waited >= FOLLOW_WAIT if wish.span.follows else self._step < wish.span.high
        if waited < self._least_wait:
            return False
        new = record.step - self._step
        if wish.metric.curve is None:
            return self.steps != axis or (evaluated and waited >= LONGEST_WAIT)
        return (new > 0 or evaluated) and (new >= (axis.high - axis.low) / max(wish.width, 1) / 2 or waited >= LONGEST_WAIT)

    def ahead(self, record: RunRecord, wish: Wish) -> Ahead | None:
        """What the next picture will show, where one is due after another; for the thread that has read `record` from its folder. Asked
        for piece by piece, it would be drawn piece by piece too."""
        if self._picture is None or not self.due(record, wish):
            return None
        values = Ahead()
        self._material(record, wish, axis_of(record, wish), values, record.step)
        return values

    def picture(self, record: RunRecord, wish: Wish, palette: Palette, *, ended: bool) -> Picture | str:
        """The chart, or a sentence where there is none."""
        look = (key_of(record), wish)
        if look != self._look:
            self._look, self._shows, self._picture = look, None, None
            self.until = record.step
        elif ended or self.due(record, wish):
            self.until = record.step
        frame = (look[0], wish.width, wish.height)
        evals, shows = len(record.evals), (record.step, len(record.evals), self._later.arrivals, ended)
        if self._picture is not None and shows == self._shows:
            return self._picture
        steps = axis_of(record, wish)
        material = self._material(record, wish, steps, self._later, self.until)
        if material is None:
            if trouble := self._later.trouble("raw"):
                return trouble
            return self._last if self._last is not None and self._last_frame == frame else READING
        if material.empty(wish.log):
            return _why_empty(material, record, wish, ended=ended)
        held = self._drawing.values if self._picture is not None and self._drawing is not None else None
        size = (wish.width, wish.height)
        drawing = sketch(material, steps, size, palette, log=wish.log, held=held, braille=wish.braille)
        self._picture = self._last = self._drawn(drawing, palette)
        self._last_frame = frame
        self._drawing, self._shows, self._evals = drawing, shows, evals
        self._step, self._drawn_at = record.step, time.monotonic()
        return self._picture

    def _drawn(self, drawing: Drawing, palette: Palette) -> Picture:
        """The whole chart, or only its newest columns while the axes hold still."""
        before = self._drawing
        if self._picture is None or before is None or (before.steps, before.values) != (drawing.steps, drawing.values):
            return draw(drawing, palette)
        since = changed_since(before, drawing)
        if since is None:
            return draw(drawing, palette)
        return self._picture if math.isinf(since) else extend(self._picture, drawing, palette, since)

    def _material(self, record: RunRecord, wish: Wish, steps: Axis, source: Source, until: int) -> Material | None:
        """What there is to draw; `None` while nothing of it has been read."""
        metric = wish.metric
        tests = metric.tests(record)
        within = (steps.low, steps.high, bin_columns(wish.width))
        shown, best = tests.points.thin(*within), metric.best_of(tests)
        if metric.curve is None:
            return Material(metric, (), None, shown, best, clip(tests.around(*within), steps.low, steps.high))
        curve, key = metric.curve(record), (key_of(record), metric.name)
        raw = _bins(source, "raw", key, until, curve, steps, wish.width)
        if raw is None:
            return None
        smoothed = self._averaged(record, metric, wish.weight, source, until)
        smooth = None
        if smoothed is not None:
            smooth = _bins(source, "smooth", (*key, wish.weight), until, smoothed, steps, wish.width)
        return Material(metric, raw, smooth, shown, best)

    def smoothed(self, record: RunRecord, metric: Metric, weight: float) -> Curve | None:
        """The smoothed curve, `None` where nothing is smoothed and while that is being computed."""
        return self._averaged(record, metric, weight, self._later, self.until)

    def _averaged(self, record: RunRecord, metric: Metric, weight: float, source: Source, until: int) -> Curve | None:
        if not (weight and metric.smooths and metric.curve):
            return None
        curve, identity = metric.curve(record), (key_of(record), metric.name, weight)
        before = self._smoothed if self._smoothed_of == identity else None
        if not curve.in_memory:
            found = source.get("smoothed", identity, until, lambda: curve.smoothed(weight), at_once=False)
            return before if found is None else found
        if len(curve) - len(before or ()) > _QUICK:
            version = len(curve) // _QUICK
            before = self._later.get("smoothed", identity, version, lambda: curve.smoothed(weight), at_once=False)
            if before is None or len(curve) - len(before) > _QUICK:
                return before
        self._smoothed, self._smoothed_of = curve.smoothed(weight), identity
        return self._smoothed


def _bins(source: Source, name: str, key: Hashable, until: int, curve: Curve, steps: Axis, width: int) -> list[Bin] | None:
    low, high, columns = steps.low, steps.high, bin_columns(width)
    identity = (key, low, high, columns)
    if curve.in_memory:
        return source.get(name, identity, len(curve), lambda: curve.thin(low, high, columns), at_once=True)
    return source.get(name, identity, until, lambda: curve.thin(low, high, columns), at_once=False)


def key_of(record: RunRecord) -> Hashable:
    """What stays the same while a record of a run takes the place of an older one."""
    return record.run or id(record)


def shows_best(record: RunRecord, wish: Wish) -> bool:
    """Whether the best evaluation is one of those that are shown."""
    best, span = wish.metric.best_of(wish.metric.tests(record)), wish.span
    return best is not None and (span is None or span.low <= best[0] <= span.high)


def axis_of(record: RunRecord, wish: Wish) -> Axis:
    """The horizontal axis of what is shown; it is one of steps, whatever its marks count."""
    span, width, plan = wish.span, wish.width, record.plan
    if span is not None:
        axis = span_axis(span.low, span.high, width)
    else:
        axis = step_axis(record.step, plan.total_steps if plan else record.step, width)
    return in_epochs(axis, plan.steps_per_epoch, width) if wish.epochs and plan is not None else axis


def _why_empty(material: Material, record: RunRecord, wish: Wish, *, ended: bool) -> str:
    metric, span = wish.metric, wish.span
    if wish.log and not material.empty(log=False):
        return f"no {metric.name} shown here is above 0, as a logarithmic axis needs: l goes back"
    if span is not None and (metric.curve is not None or metric.tests(record)):
        return f"no {metric.name} between steps {span.low:,} and {span.high:,}: Z shows everything"
    return why_empty(metric, record, ended=ended)
