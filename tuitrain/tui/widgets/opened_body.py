"""What stands around the panes of an opened run."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.strip import Strip

from tuitrain.tui.browse.opened_run import OpenedRun
from tuitrain.tui.widgets.lines import Lines, Pane
from tuitrain.tui.widgets.strips import Row
from tuitrain.tui.widgets.wrap import wrap


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
    """One line over a live run that cannot be told anything from here, or over one whose folder has gone; hidden for all others."""

    DEFAULT_CSS = "Apart { height: 1; display: none; }"

    def __init__(self) -> None:
        super().__init__(id="apart")
        self.sentence = ""

    def content(self, width: int, height: int) -> list[Strip]:
        """The sentence."""
        return [Row(" view only ", self.palette.warn).add(self.sentence, self.palette.text).strip(width)]


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
            shown = [pane for pane in panes if rows[pane]]
            for pane in panes:
                pane.display = pane in shown
                pane.styles.height = rows[pane]
                pane.place(first=pane is shown[0], last=pane is shown[-1])
