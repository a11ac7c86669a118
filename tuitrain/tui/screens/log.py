"""The whole log at full size."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tuitrain.runs.logtail import LogTail
from tuitrain.tui.run_view import RunView
from tuitrain.tui.thrift import ThriftyScreen
from tuitrain.tui.widgets.header import Header
from tuitrain.tui.widgets.keybar import KeyBar
from tuitrain.tui.widgets.log import LogView


class LogScreen(ThriftyScreen[None]):
    """Every line that is kept, with the run's state above."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("o", "leave", "Close"), Binding("escape", "leave", show=False)]

    def __init__(self, view: RunView, log: Callable[[], LogTail]) -> None:
        super().__init__()
        self._header = Header(view)
        self._log = LogView(log)

    def compose(self) -> ComposeResult:
        """Header, log, keys."""
        yield self._header
        yield self._log
        yield KeyBar()

    def on_mount(self) -> None:
        """Follow the log once a second."""
        self.set_interval(1.0, self.run_changed)

    def run_changed(self) -> None:
        """Show what is new."""
        self._header.redraw()
        self._log.redraw()

    def action_leave(self) -> None:
        """Back to where one was."""
        self.dismiss()
