"""A run's curve over its steps, with a cursor, a zoom and other metrics; drawn only when a cell could look different."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.strip import Strip

from tuitrain.tui.curve.axes import cell, step_at
from tuitrain.tui.curve.chart import Picture
from tuitrain.tui.curve.crosshair import epoch_columns, with_cursor, with_epochs
from tuitrain.tui.curve.foot import Foot, Place
from tuitrain.tui.curve.head import Showing
from tuitrain.tui.curve.later import Ahead, Arrived, Later
from tuitrain.tui.curve.metrics import METRICS, WEIGHTS, Metric
from tuitrain.tui.curve.plot import Plot, Wish, shows_best
from tuitrain.tui.curve.readout import Plan
from tuitrain.tui.curve.viewport import Viewport
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.lines import Pane

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord

_LEAST = (20, 4)
_EDGE = 2
"""Cells of the frame at each side."""


class Curve(Pane, can_focus=True):
    """What training and evaluations say, raw faintly and smoothed.

    Args:
        view: the run.
        braille: whether the terminal shows it.
        least_wait: seconds between two drawings of new points; evaluations and keys show at once.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "metric", "Metric"),
        Binding("left", "move(-1)", "Read", key_display="← →"),
        Binding("right", "move(1)", show=False),
        Binding("shift+left,pageup", "move_far(-1)", show=False),
        Binding("shift+right,pagedown", "move_far(1)", show=False),
        Binding("home", "go(0)", show=False),
        Binding("end", "go(1)", show=False),
        Binding("escape", "put_away", show=False),
        Binding("z", "zoom", "Zoom"),
        Binding("Z", "zoom_out", show=False),
        Binding("left_square_bracket", "pan(-1)", show=False),
        Binding("right_square_bracket", "pan(1)", show=False),
        Binding("l", "log_scale", show=False),
        Binding("a", "across", show=False),
        Binding("plus", "smooth(1)", show=False),
        Binding("minus", "smooth(-1)", show=False),
    ]
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("m", "loss, accuracy, learning rate, samples/s"),
        ("← → Home End", "read a step (PgUp PgDn go far, Esc ends it)"),
        ("z  Z  [  ]", "zoom in, show everything, before, after"),
        ("l  a  +  -", "log scale, over epochs, smoother, rougher"),
    )
    """Lines for the `?` of a screen with a curve."""

    def __init__(self, view: RunLike, *, braille: bool, least_wait: float = 0.0) -> None:
        super().__init__(id="curve")
        self._view = view
        self._braille = braille
        self.metric: Metric = METRICS[0]
        self.log_scale = False
        self.smoothing = 2
        self.epochs = False
        self.viewport = Viewport()
        self._record: RunRecord | None = None
        self._later = Later(self)
        self._plot = Plot(self._later, least_wait)
        self._foot = Foot(self._later)
        self._marked: tuple[Picture, Picture] | None = None
        self._lines_before: list[Strip] | None = None
        self._keeps_picture = self._readable = False

    # -- what is shown ------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """The title with the legend, and what the keys change."""
        record, wish = self._view.record, self._wish(0, 0)
        showing = Showing(
            metric=wish.metric,
            log=wish.log,
            weight=wish.weight,
            span=wish.span,
            epochs=wish.epochs,
            best=record is not None and shows_best(record, wish),
            reads=self.viewport.cursor is not None,
            braille=self._braille,
        )
        return showing.heading(self.palette, self.title_style(), self.size.width)

    def due(self) -> bool:
        """Whether new points could change the picture by now."""
        record = self._view.record
        if record is None or not self.size:
            return False
        if not self._shows(record):
            return True
        return self._plot.due(record, self._wish(self.size.width - 2 * _EDGE, self.body_height()))

    def ahead(self) -> Callable[[RunRecord], Ahead | None]:
        """What reads, of a newer record and in another thread, all that the next picture needs; `take_over` gets what it gives."""
        wish = self._wish(self.size.width - 2 * _EDGE, self.body_height())
        return lambda record: self._plot.ahead(record, wish)

    def take_over(self, ahead: Ahead) -> None:
        """Keep what was read for the next picture."""
        self._later.take_over(ahead)

    def content(self, width: int, height: int) -> list[Strip]:
        """The frame with the chart in it; the view is brought up to date first, because the heading tells it too."""
        record = self._view.record
        self._notice_run(record)
        if self._readable != (self._newest > 0):
            self._readable = not self._readable
            self.call_later(self.refresh_bindings)
        self.viewport = self.viewport.following(self._newest)
        return super().content(width, height)

    def body(self, width: int, height: int) -> list[Strip]:
        """The chart and, under it, what the cursor reads; or a sentence."""
        record = self._view.record
        if record is None:
            return [Row("the curve begins with the first step", self.palette.dim).strip(width)]
        if self._keeps_picture and self._lines_before is not None:
            return self._lines_before
        if width < _LEAST[0] or height < _LEAST[1]:
            return [Row("too small for a curve", self.palette.dim).strip(width)]
        plan = None if self.viewport.cursor is None else self._foot.plan(record, height)
        if plan is not None and height - plan.rows < _LEAST[1]:
            plan = None
        picture = self._plot.picture(record, self._wish(width, height - (plan.rows if plan else 0)), self.palette, ended=self._view.ended)
        if isinstance(picture, str):
            self._lines_before = None
            return [Row(picture, self.palette.dim).strip(width)]
        picture = self._with_epochs(picture, record)
        self._lines_before = picture.lines if plan is None else self._with_reading(picture, record, plan, width)
        return self._lines_before

    def on_arrived(self, message: Arrived) -> None:
        """Something that took a while is there."""
        self._later.take(message)
        self.redraw()

    def _wish(self, width: int, height: int) -> Wish:
        metric = self.metric
        return Wish(
            metric=metric,
            log=self.log_scale and metric.scales,
            weight=WEIGHTS[self.smoothing] if metric.smooths else 0.0,
            span=self.viewport.span,
            epochs=self.epochs,
            width=width,
            height=height,
            braille=self._braille,
            theme=self.app.theme,
        )

    def _with_epochs(self, picture: Picture, record: RunRecord) -> Picture:
        """The picture with the ends of epochs on its axis; made once for each picture."""
        if self._marked is None or self._marked[0] is not picture:
            columns: list[int] = []
            if record.plan is not None and self._plot.steps is not None:
                columns = epoch_columns(self._plot.steps, picture.columns, record.plan.steps_per_epoch)
            self._marked = (picture, with_epochs(picture, columns, self.palette.dim))
        return self._marked[1]

    def _with_reading(self, picture: Picture, record: RunRecord, plan: Plan, width: int) -> list[Strip]:
        """The chart with the cursor in it, and the lines under it."""
        steps, cursor, palette = self._plot.steps, self.viewport.cursor, self.palette
        if steps is None or cursor is None:
            return picture.lines
        place = Place(cursor, steps, picture.left, picture.columns, self._plot.until)
        smoothed = self._plot.smoothed(record, self.metric, WEIGHTS[self.smoothing])
        readout = self._foot.readout(record, self.metric, smoothed, place, plan)
        lines = with_cursor(picture, cell(place.step, steps, place.columns), palette.dim, palette.key)
        below = [Row("reading…", palette.dim).strip(width)] if readout is None else readout.lines(plan, width, palette)
        return [*lines, *below]

    def _shows(self, record: RunRecord | None) -> bool:
        """Whether the view is of this run; one that was read again from its folder is still the same."""
        shown = self._record
        return record is shown or (record is not None and shown is not None and bool(record.run) and record.run == shown.run)

    def _notice_run(self, record: RunRecord | None) -> None:
        """Another run begins with a view of everything."""
        same, self._record = self._shows(record), record
        if same:
            return
        self.viewport, self._lines_before = Viewport(), None
        self._plot.forget()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys mean something now."""
        works = {
            **dict.fromkeys(("move", "move_far", "go", "zoom"), self._newest > 0),
            "put_away": self.viewport.cursor is not None,
            "zoom_out": self.viewport.span is not None,
            "pan": self.viewport.span is not None,
            "log_scale": self.metric.scales,
            "smooth": self.metric.smooths,
        }
        return works.get(action, True)

    def action_metric(self) -> None:
        """The next metric."""
        self.metric = METRICS[(METRICS.index(self.metric) + 1) % len(METRICS)]
        self._answer_key()

    def action_log_scale(self) -> None:
        """Between a linear and a logarithmic axis."""
        if self.metric.scales:
            self.log_scale = not self.log_scale
            self._answer_key()

    def action_smooth(self, by: int) -> None:
        """Smoother or rougher."""
        wanted = min(max(self.smoothing + by, 0), len(WEIGHTS) - 1)
        if self.metric.smooths and wanted != self.smoothing:
            self.smoothing = wanted
            self._answer_key()

    def action_across(self) -> None:
        """Between steps and epochs under the curve."""
        self.epochs = not self.epochs
        self._answer_key()

    def action_move(self, by: int) -> None:
        """The cursor by columns."""
        if self._newest:
            self._show(self.viewport.moved(by, self._newest, self._plot.steps, self._plot.columns))

    def action_move_far(self, by: int) -> None:
        """The cursor by a tenth of the chart."""
        self.action_move(by * max(self._plot.columns // 10, 1))

    def action_go(self, end: int) -> None:
        """The cursor to the first step or to the newest one."""
        if self._newest:
            self._show(self.viewport.reading(self._newest if end else 1, self._newest))

    def action_put_away(self) -> None:
        """No cursor."""
        self._show(self.viewport.put_away())

    def action_zoom(self) -> None:
        """Closer by two, around the cursor or at the newest end."""
        self._show(self.viewport.zoomed(self._newest))

    def action_zoom_out(self) -> None:
        """Everything."""
        self._show(self.viewport.whole())

    def action_pan(self, by: int) -> None:
        """By half of what is shown."""
        self._show(self.viewport.panned(by, self._newest))

    def on_click(self, event: Click) -> None:
        """Read the step that was clicked on."""
        steps, columns = self._plot.steps, self._plot.columns
        column = event.x - _EDGE - (self.size.width - 2 * _EDGE - columns)
        if steps is not None and self._newest and 0 <= column < columns:
            self._show(self.viewport.reading(round(step_at(column, steps, columns)), self._newest))

    @property
    def _newest(self) -> int:
        record = self._view.record
        return 0 if record is None else record.step

    def _show(self, viewport: Viewport) -> None:
        """Another part of the steps, or another step is read."""
        before, self.viewport = self.viewport, viewport
        # The heading tells both.
        if viewport.span != before.span or (viewport.cursor is None) != (before.cursor is None):
            self._answer_key()
        elif viewport != before:
            self.redraw()

    def _answer_key(self) -> None:
        """The heading answers at once; the curve follows in the next frame, because a whole new one takes some hundredths of a second."""
        self._keeps_picture = True
        self.redraw()
        self._keeps_picture = False
        self.refresh_bindings()
        self.call_after_refresh(self.redraw)
