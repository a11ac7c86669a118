"""Several runs on one chart, with what their configurations differ in."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tuitrain.tui.curve.chart import load as load_plotext
from tuitrain.tui.curve.compare import DEEPEST, METRICS, MOST, Reading, Wanted, load, read, right_end
from tuitrain.tui.curve.metrics import WEIGHTS
from tuitrain.tui.curve.ruler import ACROSS
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.terminal.glyphs import draws_ascii
from tuitrain.tui.widgets.differences import Differences
from tuitrain.tui.widgets.overlay import Overlay

_REFRESH_SECONDS = 2.0
# Of a thread's time, reading takes this share at most, however long the runs are.
_READING_SHARE = 10
# Smoothing so many steps takes some tenths of a second: their raw curve comes first.
_LONG = 100_000
_CHART_LEAST = 12
_FRAME = 4


class CompareScreen(PaneScreen):
    """The curves over the table.

    Args:
        run: the run of this app, for the header; its curve comes from memory where it is one of the runs.
        paths: folders of two to eight runs.
    """

    ABOUT = "Runs beside each other: each curve has its number."
    KEYS: ClassVar[Help] = (
        ("a", "over steps, epochs or time"),
        ("m", "train loss, test loss, test accuracy"),
        ("c", "read the curves: ← → Home End move the cursor, Esc or c ends it"),
        ("l", "axis: linear or logarithmic"),
        ("+ -", "smoother, rougher"),
        ("z  Z", "closer, around the cursor or at the end; everything"),
        ("[  ]", "what comes before, after"),
        ("← → Home End", "the same while zoomed, and to its ends"),
        ("↑ ↓ PgUp PgDn", "scroll the table"),
        ("← →", "more runs, where the table has no room for all"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "across", "Axis"),
        Binding("m", "metric", "Metric"),
        Binding("c", "cursor", "Read"),
        Binding("left", "move_cursor(-1)", show=False),
        Binding("right", "move_cursor(1)", show=False),
        Binding("home", "move_cursor(-1000000)", show=False),
        Binding("end", "move_cursor(1000000)", show=False),
        Binding("escape", "put_away", "End reading"),
        Binding("z", "zoom", "Zoom"),
        Binding("Z", "zoom_out", "All"),
        Binding("l", "log_scale", "Scale", tooltip="Linear or logarithmic axis"),
        Binding("plus", "smooth(1)", "Smoothing", key_display="+/-"),
        Binding("minus", "smooth(-1)", show=False),
        Binding("left", "shift(-1)", "More runs", key_display="← →"),
        Binding("right", "shift(1)", show=False),
        Binding("left", "pan(-1)", "Move", key_display="← →"),
        Binding("right", "pan(1)", show=False),
        Binding("left_square_bracket", "pan(-2)", show=False),
        Binding("right_square_bracket", "pan(2)", show=False),
        Binding("up", "scroll(-1)", "Scroll", key_display="↑ ↓"),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "go('start')", show=False),
        Binding("end", "go('end')", show=False),
        Binding("escape", "leave", "Close"),
        Binding("v", "leave", show=False),
    ]

    class Read(Message, bubble=False):
        """A thread has read what `wish` asked for, in so many seconds; where it is not the `last` reading a better one comes."""

        def __init__(self, reading: Reading, wish: int, seconds: float, *, last: bool) -> None:
            super().__init__()
            self.reading = reading
            self.wish = wish
            self.seconds = seconds
            self.last = last

    class Looked(Message, bubble=False):
        """A thread has looked whether one of the runs, all of which had ended, stirred; until then nothing after `wish` was asked for."""

        def __init__(self, stirred: bool, wish: int) -> None:
            super().__init__()
            self.stirred = stirred
            self.wish = wish

    def __init__(self, run: RunLike, paths: Sequence[Path]) -> None:
        super().__init__(run)
        self._paths = list(paths)[:MOST]
        self._wanted = Wanted()
        self._smoothing = WEIGHTS.index(self._wanted.weight)
        self._reading: Reading | None = None
        self._wish = 0
        self._next_read = 0.0
        self._table = Differences(len(self._paths))

    def panes(self) -> Iterable[Widget]:
        """The curves over the table."""
        self._overlay = Overlay(len(self._paths), braille=not draws_ascii(self.app))
        return (self._overlay, self._table)

    def place_panes(self, width: int, height: int) -> None:
        """The table gets what it needs, up to two fifths; the chart gets the rest."""
        most = max(height * 2 // 5, min(height - _CHART_LEAST, 10))
        rows = min(self._table.rows_wanted(width), most) if self._reading else most
        self._overlay.styles.height = height - rows
        self._table.styles.height = rows
        self._want(width=width - _FRAME)

    # -- keeping up ---------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Look for what live runs have gained, and whether ended ones are deleted or go on."""
        reading = self._reading
        if reading is None or self._busy or time.monotonic() < self._next_read:
            return
        if any(entrant.moves for entrant in reading.entrants):
            self._read(anew=True)
        else:
            wish = self._wish
            self._read_apart(lambda: self.post_message(self.Looked(any(entrant.stirred() for entrant in reading.entrants), wish)))

    def _want(self, **changes: object) -> None:
        """Read again where that is something else than what was wanted."""
        wanted = msgspec.structs.replace(self._wanted, **changes)
        if wanted == self._wanted and self._wish:
            return
        self._wanted = self._overlay.wanted = wanted
        self._read(anew=False)

    def _read(self, *, anew: bool) -> None:
        """Read in a thread; of several wishes the newest one counts."""
        self._wish += 1
        wish, wanted, own = self._wish, self._wanted, self.run.record
        known = self._reading.entrants if self._reading else ()

        def work() -> None:
            begun = time.monotonic()
            load_plotext()
            entrants = known if known and not anew else load(self._paths, known, own)
            if not known and any(entrant.record and entrant.record.step > _LONG for entrant in entrants):
                rough = read(entrants, msgspec.structs.replace(wanted, weight=0.0))
                self.post_message(self.Read(rough, wish, time.monotonic() - begun, last=False))
            if wish == self._wish:
                self.post_message(self.Read(read(entrants, wanted), wish, time.monotonic() - begun, last=True))

        self._read_apart(work)

    def on_compare_screen_read(self, message: Read) -> None:
        """Show it, unless something else is wanted by now."""
        if message.wish != self._wish:
            return
        self._busy = not message.last
        self._next_read = time.monotonic() + max(_REFRESH_SECONDS, message.seconds * _READING_SHARE)
        self._reading = message.reading
        with self.app.batch_update():
            self._table.show(message.reading.entrants)
            self.rearrange()
            self._overlay.show(message.reading)
            self.refresh_bindings()

    def on_compare_screen_looked(self, message: Looked) -> None:
        """Read what stirred, unless something else is being read by now."""
        if message.wish != self._wish:
            return
        self._busy = False
        self._next_read = time.monotonic() + _REFRESH_SECONDS
        if message.stirred:
            self._read(anew=True)

    def on_differences_moved(self, message: Differences.Moved) -> None:
        """What the keys can do may have changed."""
        self.refresh_bindings()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys mean something now."""
        zoom = self._wanted.zoom
        # The pane comes with the first frame, and Textual asks before that.
        drawn = self._reading is not None
        reads = drawn and self._overlay.cursor is not None
        works = {
            "cursor": drawn and self._overlay.reads,
            "move_cursor": reads,
            "put_away": reads,
            "zoom": drawn and zoom < DEEPEST,
            "zoom_out": zoom > 0,
            "go": zoom > 0 or self._table.scrolls,
            "pan": zoom > 0,
            "shift": zoom == 0 and self._table.shifts,
            "log_scale": self._wanted.metric != "accuracy",
            "smooth": self._wanted.metric == "train",
            "scroll": self._table.scrolls,
            "page": self._table.scrolls,
        }
        return works.get(action, True)

    def action_across(self) -> None:
        """Over steps, epochs or time; all of it and without a cursor, because a part of one says nothing on another."""
        self._overlay.cursor = None
        self._change(across=_after(ACROSS, self._wanted.across), zoom=0, end=None)

    def action_cursor(self) -> None:
        """Read the values of the curves at a cursor, or no longer."""
        if self._overlay.cursor is None:
            self._overlay.move_cursor(0)
            self.refresh_bindings()
        else:
            self.action_put_away()

    def action_move_cursor(self, by: int) -> None:
        """The cursor by columns; at an edge of what is seen, what comes next moves into sight, once for what is still being read."""
        reading = self._reading
        if not self._overlay.move_cursor(by) and reading is not None and reading.wanted == self._wanted:
            self.action_pan(1 if by > 0 else -1)

    def action_put_away(self) -> None:
        """No cursor."""
        self._overlay.cursor = None
        self._overlay.redraw()
        self.refresh_bindings()

    def action_metric(self) -> None:
        """Another curve of each run."""
        self._change(metric=_after(METRICS, self._wanted.metric))

    def action_log_scale(self) -> None:
        """Between a linear and a logarithmic axis of losses."""
        self._overlay.log_scale = not self._overlay.log_scale
        self._overlay.answer()
        self.call_after_refresh(self._overlay.redraw)

    def action_smooth(self, by: int) -> None:
        """Smoother or rougher."""
        self._smoothing = min(max(self._smoothing + by, 0), len(WEIGHTS) - 1)
        self._change(weight=WEIGHTS[self._smoothing])

    def action_zoom(self) -> None:
        """Closer by two, around the cursor or at the right end of what is seen."""
        zoom, cursor = min(self._wanted.zoom + 1, DEEPEST), self._overlay.cursor
        if self._reading is None or cursor is None:
            self._change(zoom=zoom)
        else:
            self._change(zoom=zoom, end=self._ending(self._reading, zoom, cursor + self._reading.limit / 2 ** (zoom + 1)))

    def action_zoom_out(self) -> None:
        """Everything."""
        self._change(zoom=0, end=None)

    def action_pan(self, quarters: int) -> None:
        """What comes before or after, by quarters of what is seen; at the right end the view follows the newest step again."""
        reading = self._reading
        if reading is None or not self._wanted.zoom:
            return
        end = right_end(self._wanted, reading.limit, reading.newest) + quarters * reading.limit / 2**self._wanted.zoom / 4
        self._change(end=self._ending(reading, self._wanted.zoom, end))

    def action_go(self, where: str) -> None:
        """To the start or the end: of the curves while zoomed, else of the table."""
        if self._wanted.zoom:
            self._change(end=0.0 if where == "start" else None)
        else:
            self._table.jump(where == "end")

    def action_shift(self, by: int) -> None:
        """Runs that the table has no room for."""
        self._table.shift(by)

    def action_scroll(self, by: int) -> None:
        """Scroll the table."""
        self._table.move(by)

    def action_page(self, by: int) -> None:
        """Scroll the table by what one sees."""
        self._table.page(by)

    def _ending(self, reading: Reading, zoom: int, end: float) -> float | None:
        """A right end of what is seen that there is: at the newest one the view follows it."""
        newest = right_end(msgspec.structs.replace(self._wanted, zoom=zoom, end=None), reading.limit, reading.newest)
        return None if end >= newest * (1 - 1e-9) else max(end, reading.limit / 2**zoom)

    def _change(self, **changes: object) -> None:
        """The heading answers at once, the curves follow when they are read."""
        self._want(**changes)
        self._overlay.answer()
        self.refresh_bindings()


def _after(choices: Sequence[str], choice: str) -> str:
    return choices[(choices.index(choice) + 1) % len(choices)]
