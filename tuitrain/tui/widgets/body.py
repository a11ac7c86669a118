"""The panes of the main screen and where they stand: two columns, or one on a narrow terminal."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tuitrain.tui.layout import Sizes, View, arrange, left_width
from tuitrain.tui.widgets.curve import Curve
from tuitrain.tui.widgets.devices import Devices
from tuitrain.tui.widgets.launcher import Launcher
from tuitrain.tui.widgets.lines import Pane, stack
from tuitrain.tui.widgets.log import LogPane
from tuitrain.tui.widgets.progress import Progress
from tuitrain.tui.widgets.replicas import Replicas
from tuitrain.tui.widgets.strategy import Strategy


class Body(Container):
    """What the machine offers on the left; the launcher or the run on the right."""

    DEFAULT_CSS = """
    Body { height: 1fr; layout: horizontal; }
    Body.-narrow { layout: vertical; }
    Body #right { width: 1fr; height: 1fr; }
    """

    def __init__(
        self,
        devices: Devices,
        strategy: Strategy,
        log: LogPane,
        launcher: Launcher,
        progress: Progress,
        curve: Curve,
        replicas: Replicas,
    ) -> None:
        super().__init__(id="body")
        self._devices, self._progress, self._replicas = devices, progress, replicas
        self._left: tuple[Pane, ...] = (devices, strategy, log)
        self._right: tuple[Pane, ...] = (launcher, progress, curve, replicas)
        self._sizes: Sizes | None = None

    def compose(self) -> ComposeResult:
        """Two columns; a narrow terminal stacks them."""
        yield Vertical(*self._left, id="left")
        yield Vertical(*self._right, id="right")

    def resize_panes(self, width: int, height: int, view: View) -> None:
        """Give every pane its rows; costs nothing while none changes.

        Args:
            width: columns of the terminal.
            height: rows between the header and the keys.
            view: what the right side shows.
        """
        left = left_width(width, view)
        self._progress.log_shows = left > 0
        full, tall, short = self._devices.rows_wanted((left or width) - 4)
        sizes = arrange(
            width,
            height,
            view,
            devices_full=full,
            devices_tall=tall,
            devices=short,
            replicas=self._replicas.rows_wanted(width - left - 4),
            notes=self._progress.notes(width - left),
        )
        if sizes != self._sizes:
            self._sizes = sizes
            self._apply(sizes)

    def _apply(self, sizes: Sizes) -> None:
        self.set_class(sizes.left == 0, "-narrow")
        left = self.query_one("#left")
        left.styles.width = sizes.left or "100%"
        left.styles.height = "100%" if sizes.left else sizes.devices + sizes.strategy + sizes.log
        columns = (
            tuple(zip(self._left, (sizes.devices, sizes.strategy, sizes.log), strict=True)),
            tuple(zip(self._right, (sizes.launcher, sizes.progress, sizes.curve, sizes.replicas), strict=True)),
        )
        for column in columns if sizes.left else (columns[0] + columns[1],):
            stack(column)
