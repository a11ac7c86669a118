"""The loss over the steps, drawn at its own pace: axes that hold still, and a new picture only when a cell could look different."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.strip import Strip

from tuitrain.tui.axes import step_axis, value_axis
from tuitrain.tui.chart import Dots, Drawing, Line, Picture, draw, extend
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord
    from tuitrain.runs.series import Bin

WEIGHTS = (0.0, 0.6, 0.9, 0.97, 0.99)
_SPIKE = 1.5
_LONGEST_WAIT = 2.0
_AXIS_WIDTH = 6
_LEAST = (20, 4)


class Curve(Pane, can_focus=True):
    """Training loss, raw faintly and smoothed, and the test loss after each evaluation."""

    def __init__(self, view: RunLike, *, braille: bool) -> None:
        super().__init__(id="curve")
        self._view = view
        self._braille = braille
        self.log_scale = False
        self.smoothing = 2
        self._look: object = None
        self._picture: Picture | None = None
        self._drawing_before: Drawing | None = None
        self._shows = (0, 0)
        self._drawn_step = 0
        self._drawn_at = 0.0
        self._keeps_picture = False

    def heading(self) -> tuple[Row, Row]:
        """The title with the legend, and what the keys change."""
        palette = self.palette
        left = Row("Loss ", self.title_style()).add("⠒⠒" if self._braille else "--", palette.train).add(" train  ", palette.dim)
        left.add("●", palette.test).add(" test", palette.dim)
        weight = WEIGHTS[self.smoothing]
        right = Row("l ", palette.key).add("log" if self.log_scale else "linear", palette.dim)
        right.add("  +/- ", palette.key).add(f"smoothing {weight:g}" if weight else "no smoothing", palette.dim)
        return left, right

    def toggle_log(self) -> None:
        """Between a linear and a logarithmic loss axis."""
        self.log_scale = not self.log_scale
        self._answer_key()

    def smooth(self, by: int) -> bool:
        """Smoother or rougher; whether there was anything to change."""
        wanted = min(max(self.smoothing + by, 0), len(WEIGHTS) - 1)
        changed, self.smoothing = wanted != self.smoothing, wanted
        if changed:
            self._answer_key()
        return changed

    def _answer_key(self) -> None:
        """The heading answers at once; the curve follows in the next frame, because a whole new one takes some hundredths of a second."""
        self._keeps_picture = True
        self.redraw()
        self._keeps_picture = False
        self.call_after_refresh(self.redraw)

    def due(self) -> bool:
        """Whether new points could change the picture by now."""
        record = self._view.record
        if record is None or not self.size:
            return False
        if len(record.evals) != self._shows[1]:
            return True
        new = record.step - self._drawn_step
        if new == 0:
            return False
        limit = step_axis(record.step, _total(record), 80).high
        return new >= limit / self.size.width / 2 or time.monotonic() - self._drawn_at >= _LONGEST_WAIT

    def body(self, width: int, height: int) -> list[Strip]:
        """The chart; the old one where nothing changed."""
        record = self._view.record
        if record is None or len(record.loss) == 0:
            return [Row("the curve begins with the first step", self.palette.dim).strip(width)]
        if self._keeps_picture and self._picture is not None:
            return self._picture.lines
        if width < _LEAST[0] or height < _LEAST[1]:
            return [Row("too small for a curve", self.palette.dim).strip(width)]
        look = (id(record), width, height, self.log_scale, self.smoothing, self.app.theme)
        if look != self._look:
            self._look, self._picture = look, None
        shows = (len(record.loss), len(record.evals))
        if self._picture is None or shows != self._shows:
            self._picture = self._draw(record, width, height, shows)
        return self._picture.lines

    def _draw(self, record: RunRecord, width: int, height: int, shows: tuple[int, int]) -> Picture:
        """The whole chart, or only its newest columns while the axes hold still."""
        columns = max(width - _AXIS_WIDTH, 1)
        drawing = self._drawing(record, width, height, columns)
        before, since = self._drawing_before, float(self._drawn_step)
        # Up to as many points as columns each point is a one of its own; beyond that, bins are.
        same_bins = (shows[0] > columns) == (self._shows[0] > columns)
        newer = record.evals[self._shows[1] : shows[1]]
        held = before is not None and (before.steps, before.values) == (drawing.steps, drawing.values)
        if self._picture is not None and held and same_bins and drawing.lines[0].points:
            picture = extend(self._picture, drawing, self.palette, min([since, *(float(event.step) for event in newer)]))
        else:
            picture = draw(drawing, self.palette)
        self._drawing_before, self._shows = drawing, shows
        self._drawn_step, self._drawn_at = record.step, time.monotonic()
        return picture

    def _drawing(self, record: RunRecord, width: int, height: int, columns: int) -> Drawing:
        steps = step_axis(record.step, _total(record), width)
        weight = WEIGHTS[self.smoothing]
        raw = record.loss.thin(steps.low, steps.high, columns)
        smooth = record.loss.smoothed(weight).thin(steps.low, steps.high, columns) if weight else raw
        tests = [(float(event.step), event.loss) for event in record.evals if math.isfinite(event.loss)]
        held = self._drawing_before.values if self._picture is not None and self._drawing_before is not None else None
        least = sys.float_info.min if self.log_scale else -math.inf
        return Drawing(
            width=width,
            height=height,
            steps=steps,
            values=value_axis(_telling(raw, smooth, tests), height, log=self.log_scale, held=held),
            band=[(one.x, max(one.min, least), one.max) for one in raw if one.max >= least] if weight else (),
            lines=[Line([(one.x, one.mean) for one in smooth if one.mean >= least], self.palette.train)],
            dots=[Dots([point for point in tests if point[1] >= least], self.palette.test)],
            braille=self._braille,
        )


def _total(record: RunRecord) -> int:
    return record.started.total_steps if record.started else record.step


def _telling(raw: Sequence[Bin], smooth: Sequence[Bin], tests: Sequence[tuple[float, float]]) -> list[float]:
    """The values that the axis has to hold. A spike far above everything smooth is cut at the edge instead of flattening the curve."""
    values = [one.mean for one in smooth] + [loss for _, loss in tests]
    if not values or not raw:
        return values
    top = max(values)
    ceiling = top * _SPIKE if top > 0 else math.inf
    return [*values, min(max(one.max for one in raw), ceiling), min(one.min for one in raw)]
