"""The whole log at full size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tuitrain.runs.logtail import LogTail
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.log import LogView


class LogScreen(PaneScreen):
    """Every line that is kept, with the run's state above."""

    ABOUT = "Notices, and everything that was printed."
    KEYS: ClassVar[Help] = (("↑ ↓ PgUp PgDn", "scroll"), ("Home  End", "the oldest line, follow the newest"))
    BINDINGS: ClassVar[list[BindingType]] = [Binding("o", "leave", "Close"), Binding("escape", "leave", show=False)]

    def __init__(self, run: RunLike, log: Callable[[], LogTail]) -> None:
        super().__init__(run)
        self._log = LogView(log)

    def panes(self) -> Iterable[Widget]:
        """The log."""
        return (self._log,)

    def beat(self) -> None:
        """Follow the log."""
        self._log.redraw()

    def run_changed(self) -> None:
        """Show what is new."""
        self._header.redraw()
        self._log.redraw()

    def action_leave(self) -> None:
        """Back to where one was."""
        self.dismiss()
