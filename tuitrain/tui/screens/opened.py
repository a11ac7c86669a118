"""A run that was kept, or that another process trains: its curve, shapes, log, settings and checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tuitrain.recipes import command_line
from tuitrain.runs.logtail import LogTail
from tuitrain.tui.browse.opened_run import OpenedRun, Reading
from tuitrain.tui.curve.chart import load as load_plotext
from tuitrain.tui.layout import left_width
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.terminal.glyphs import draws_ascii
from tuitrain.tui.widgets.curve import Curve
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.log import LogPane
from tuitrain.tui.widgets.progress import Progress
from tuitrain.tui.widgets.replicas import Replicas
from tuitrain.tui.widgets.settings import CheckpointsPane, FactsView, SettingsPane
from tuitrain.tui.widgets.strips import Row
from tuitrain.tui.widgets.wrap import wrap

_HINTS = {
    "failed": "o shows the log",
    "paused": "by another process",
    "queued": "by another process",
}


class Waiting(Pane):
    """Stands in place of the run until it is read, and where it cannot be."""

    def __init__(self, run: OpenedRun, title: str) -> None:
        super().__init__(id="waiting")
        self.first = self.last = True
        self._run = run
        self._title = title

    def heading(self) -> tuple[Row, Row]:
        """The run's title."""
        return Row(self._title, self.palette.title), Row()

    def body(self, width: int, height: int) -> list[Strip]:
        """The sentence."""
        palette = self.palette
        if self._run.problem is None:
            return [Row("reading the run…", palette.dim).strip(width)]
        lines = [Row(line, palette.bad).strip(width) for line in wrap(f"✗ {self._run.problem}", width)]
        return [*lines, Row("Esc ", palette.key).add("goes back to the runs", palette.dim).strip(width)]


class OpenedBody(Container):
    """Settings, checkpoints and log on the left, the run on the right; on a narrow terminal the run alone."""

    DEFAULT_CSS = """
    OpenedBody { height: 1fr; layout: horizontal; }
    OpenedBody #right { width: 1fr; height: 1fr; }
    """

    def __init__(self, left: tuple[Pane, ...], right: tuple[Pane, ...]) -> None:
        super().__init__(id="opened-body")
        self._left = left
        self._right = right

    def compose(self) -> ComposeResult:
        """Two columns."""
        yield Vertical(*self._left, id="left")
        yield Vertical(*self._right, id="right")

    def resize_panes(self, left: int, rows: dict[Pane, int]) -> None:
        """Give every pane its rows; a `left` of 0 hides the left column."""
        column = self.query_one("#left")
        column.display = left > 0
        column.styles.width = left or 1
        for panes in (self._left, self._right):
            for pane in panes:
                pane.styles.height = rows[pane]
                pane.place(first=pane is panes[0], last=pane is panes[-1])


class OpenedScreen(PaneScreen):
    """One run, read from its folder.

    Args:
        path: the folder.
        title: what the run is called, until it is read.
    """

    AUTO_FOCUS = "#curve"
    ABOUT = "A run as its folder tells it; one that another process trains is read again each second."
    KEYS: ClassVar[Help] = (
        ("c", "settings, environment and checkpoints in full"),
        ("y", "copy the equal tuitrain run line"),
        ("r  Esc", "back to the runs"),
        *Curve.KEYS,
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "settings", "Settings"),
        Binding("y", "copy", "Copy command"),
        Binding("escape", "leave", "Close"),
        Binding("r", "leave", "Runs", show=False),
    ]

    class Read(Message, bubble=False):
        """The thread has read the folder."""

        def __init__(self, reading: Reading) -> None:
            super().__init__()
            self.reading = reading

    def __init__(self, path: Path, title: str) -> None:
        self.opened = OpenedRun(path)
        super().__init__(self.opened)
        self._title = title
        self._reading = False

    def panes(self) -> Iterable[Widget]:
        """The run, and the sentence in place of it."""
        run = self.opened
        self._waiting = Waiting(run, self._title)
        self._settings, self._checkpoints, self._log = SettingsPane(run), CheckpointsPane(run), LogPane(self._current_log)
        self._progress, self._replicas = Progress(run, hints=_HINTS), Replicas(run)
        self._curve = Curve(run, braille=not draws_ascii(self.app))
        self._body = OpenedBody((self._settings, self._checkpoints, self._log), (self._progress, self._curve, self._replicas))
        return (self._waiting, self._body)

    def place_panes(self, width: int, height: int) -> None:
        """Two columns where there is room for them."""
        there = self.opened.record is not None
        self._waiting.display, self._body.display = not there, there
        self._waiting.styles.height = height
        left = left_width(width)
        progress = 3 + self._progress.notes(width - left)
        replicas = min(self._replicas.rows_wanted(width - left - 4), max((height - progress) // 4, 1)) + 2
        checkpoints = min(self._checkpoints.rows_wanted(), max(height // 5, 2)) + 1
        log = max((height - checkpoints) // 3, 4)
        self._body.resize_panes(
            left,
            {
                self._settings: height - checkpoints - log,
                self._checkpoints: checkpoints,
                self._log: log,
                self._progress: progress,
                self._curve: height - progress - replicas,
                self._replicas: replicas,
            },
        )

    def _current_log(self) -> LogTail:
        return LogTail() if self.opened.record is None else self.opened.record.log

    # -- keeping up ---------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Begin to read."""
        self._read()

    def beat(self) -> None:
        """Read again what another process trains, and follow it."""
        if self.opened.alive:
            self._read()

    def _read(self) -> None:
        if self._reading:
            return
        self._reading = True

        def read() -> None:
            load_plotext()
            self.post_message(self.Read(self.opened.read()))

        self.run_worker(read, thread=True, exit_on_error=False, group="read")

    def on_opened_screen_read(self, message: Read) -> None:
        """Show what was read."""
        self._reading, said = False, self.opened.problem
        self.opened.take(message.reading)
        if self.opened.record is not None and self.opened.problem not in (None, said):
            self.notify(str(self.opened.problem), severity="warning", markup=False)
        self.rearrange()
        for pane in (
            self._header,
            self._too_small,
            self._waiting,
            self._settings,
            self._checkpoints,
            self._log,
            self._progress,
            self._replicas,
        ):
            pane.redraw()
        if self._curve.due() or self.opened.ended:
            self._curve.redraw()
        if self._body.display and self.focused is None:
            self._curve.focus()
        self.refresh_bindings()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing to show or copy before the run is read."""
        return self.opened.record is not None if action in ("settings", "copy") else True

    def action_settings(self) -> None:
        """All that the run was made with, and what it has kept."""
        self.app.push_screen(SettingsScreen(self.opened))

    def action_copy(self) -> None:
        """Copy the equal command line."""
        if self.opened.record is not None:
            self.copy(command_line(self.opened.record.config))


class SettingsScreen(PaneScreen):
    """Settings, environment and checkpoints at full size."""

    AUTO_FOCUS = "#facts"
    ABOUT = "What the run was made with, and the checkpoints that it has kept."
    KEYS: ClassVar[Help] = (("↑ ↓ PgUp PgDn", "scroll"), ("Home  End", "the start, the end"), ("c  Esc", "close"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "leave", show=False),
        Binding("escape", "leave", "Close"),
    ]

    def __init__(self, run: OpenedRun) -> None:
        super().__init__(run)
        self._view = FactsView(run)

    def panes(self) -> Iterable[Widget]:
        """The facts."""
        return (self._view,)

    def place_panes(self, width: int, height: int) -> None:
        """All of the room."""
        self._view.styles.height = height

    def beat(self) -> None:
        """Ages grow, and a live run keeps new checkpoints."""
        self._view.redraw()
