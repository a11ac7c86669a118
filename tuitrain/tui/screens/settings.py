"""What an opened run was made with and what it has kept, at full size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tuitrain.tui.browse.opened_run import OpenedRun
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.settings import FactsView


class SettingsScreen(PaneScreen):
    """Settings, environment and checkpoints at full size."""

    AUTO_FOCUS = "#facts"
    ABOUT = "What the run was made with, and the checkpoints that it has kept."
    KEYS: ClassVar[Help] = (("↑ ↓ PgUp PgDn", "scroll"), ("Home  End", "the start, the end"), ("s  Esc", "close"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "leave", show=False),
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
