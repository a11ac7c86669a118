"""How the time of a run's steps went, and what the devices brought."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tuitrain.runs.one_device import OneDevice, find_one_device
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.analysis import AnalysisPane


class AnalysisScreen(PaneScreen):
    """The phases of a step in bars and words. The run to compare with is looked for in a thread."""

    AUTO_FOCUS = "#analysis"
    ABOUT = "Where the time of the training steps went; evaluation, saving and pauses are left out."
    KEYS: ClassVar[Help] = (
        ("↑ ↓ PgUp PgDn", "scroll"),
        ("Home  End", "the beginning, the end"),
        ("i  Esc", "close"),
        ("", "Words"),
        ("data", "making the batch, before forward can begin"),
        ("communication", "parameters and gradients on their way between devices, and waiting for each other"),
        ("other", "the loop around the steps"),
        ("own", "a replica's forward and backward, as a share of a step"),
        ("one device", "samples/s against a kept run of the same training on one such device"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "leave", "Close"),
        Binding("escape", "leave", show=False),
    ]

    class Searched(Message, bubble=False):
        """The thread has looked through the runs beside this one."""

        def __init__(self, one_device: OneDevice | None) -> None:
            super().__init__()
            self.one_device = one_device

    def __init__(self, run: RunLike) -> None:
        super().__init__(run)
        self._pane = AnalysisPane(run)
        self._searching: Path | None = None
        self._scrolled = False

    def panes(self) -> Iterable[Widget]:
        """The one pane."""
        return (self._pane,)

    def on_mount(self) -> None:
        """Look for something to compare with, and let the footer know how much there is."""
        self._search()
        self.call_after_refresh(self._redraw)

    def place_panes(self, width: int, height: int) -> None:
        """All of the room."""
        self._pane.styles.height = height
        self.call_after_refresh(self._redraw)

    def beat(self) -> None:
        """The times grow while the run trains."""
        self._search()
        self._redraw()

    def run_changed(self) -> None:
        """The first times may have come; later ones keep the pace of the beat."""
        super().run_changed()
        if self._pane.times is None or self.run.ended:
            self._redraw()

    def _redraw(self) -> None:
        self._pane.redraw()
        if self._pane.scrolls != self._scrolled:
            self._scrolled = self._pane.scrolls
            self.refresh_bindings()

    def _search(self) -> None:
        """Once for each run: of several devices, when its folder and its first times are there."""
        record, times = self.run.record, self._pane.times
        if record is None or record.path is None or times is None or len(times.devices) < 2 or record.path == self._searching:
            return
        folder = self._searching = record.path
        self._pane.one_device, self._pane.searched = None, False
        self.run_worker(lambda: self.post_message(self.Searched(find_one_device(folder))), thread=True, exit_on_error=False)

    def on_analysis_screen_searched(self, message: Searched) -> None:
        """Show what was found."""
        self._pane.one_device, self._pane.searched = message.one_device, True
        self._redraw()
