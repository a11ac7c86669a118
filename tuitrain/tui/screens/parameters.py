"""What the network of a run is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tuitrain.tui.run_view import RunLike
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.parameter_table import ParameterTable


class ParametersScreen(PaneScreen):
    """Every parameter with its shape, count and device, and what torch does not see."""

    AUTO_FOCUS = "#parameter-table"
    ABOUT = "What the network is made of, and where it lies."
    KEYS: ClassVar[Help] = (("↑ ↓ PgUp PgDn", "scroll"), ("Home  End", "the beginning, the end"), ("w  Esc", "close"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "leave", "Close"),
        Binding("escape", "leave", show=False),
    ]

    def __init__(self, run: RunLike) -> None:
        super().__init__(run)
        self._table = ParameterTable(run)

    def panes(self) -> Iterable[Widget]:
        """The table."""
        return (self._table,)

    def beat(self) -> None:
        """The sentence that stands in for the table follows the run."""
        self._table.redraw()

    def run_changed(self) -> None:
        """The table may have come."""
        super().run_changed()
        self._table.redraw()
