"""What stands around the panes of an opened run."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.strip import Strip

from tuitrain.tui.browse.layout import arrange
from tuitrain.tui.browse.opened_run import OpenedRun
from tuitrain.tui.layout import left_width
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.curve import Curve
from tuitrain.tui.widgets.devices import Devices
from tuitrain.tui.widgets.lines import Lines, Pane, stack
from tuitrain.tui.widgets.log import LogPane
from tuitrain.tui.widgets.progress import Progress
from tuitrain.tui.widgets.replicas import Replicas
from tuitrain.tui.widgets.settings import CheckpointsPane, SettingsPane
from tuitrain.tui.wrap import wrap


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


class Apart(Lines):
    """One line over a live run that cannot be told anything from here, or hangs, or over one whose folder has gone; hidden for all others.

    Attributes:
        sentence: why it hears no keys, or that it has gone.
        late: where it hears them, why they do nothing yet.
    """

    DEFAULT_CSS = "Apart { height: 1; display: none; }"

    def __init__(self) -> None:
        super().__init__(id="apart")
        self.sentence = self.late = ""

    def content(self, width: int, height: int) -> list[Strip]:
        """The sentence."""
        if not self.sentence:
            return [Row(" hangs ", self.palette.warn).add(self.late, self.palette.text).strip(width)]
        return [Row(" view only ", self.palette.warn).add(self.sentence, self.palette.text).strip(width)]


class OpenedBody(Container):
    """Settings, checkpoints and log on the left, the run on the right; on a narrow terminal the run alone."""

    DEFAULT_CSS = """
    OpenedBody { height: 1fr; layout: horizontal; }
    OpenedBody #right { width: 1fr; height: 1fr; }
    """

    def __init__(
        self,
        devices: Devices,
        settings: SettingsPane,
        checkpoints: CheckpointsPane,
        log: LogPane,
        progress: Progress,
        curve: Curve,
        replicas: Replicas,
    ) -> None:
        super().__init__(id="opened-body")
        self._devices, self._checkpoints, self._progress, self._replicas = devices, checkpoints, progress, replicas
        self._left: tuple[Pane, ...] = (devices, settings, checkpoints, log)
        self._right: tuple[Pane, ...] = (progress, curve, replicas)

    def compose(self) -> ComposeResult:
        """Two columns."""
        yield Vertical(*self._left, id="left")
        yield Vertical(*self._right, id="right")

    def resize_panes(self, width: int, height: int, *, devices: bool) -> None:
        """Give every pane its rows.

        Args:
            width: columns of the terminal.
            height: rows for the panes.
            devices: whether those of this machine are the run's.
        """
        left = left_width(width)
        self._progress.log_shows = left > 0
        sizes = arrange(
            width,
            height,
            devices=self._devices.rows_wanted(left - 4)[1:] if devices and left else None,
            checkpoints=self._checkpoints.rows_wanted(),
            replicas=self._replicas.rows_wanted(width - left - 4),
            notes=self._progress.notes(width - left),
        )
        column = self.query_one("#left")
        column.display = left > 0
        column.styles.width = left or 1
        stack(list(zip(self._left, (sizes.devices, sizes.settings, sizes.checkpoints, sizes.log), strict=True)))
        stack(list(zip(self._right, (sizes.progress, sizes.curve, sizes.replicas), strict=True)))
