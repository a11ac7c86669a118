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

    ABOUT = "What the network is made of, and where it lies."
    KEYS: ClassVar[Help] = (("↑ ↓ PgUp PgDn", "scroll"), ("Home  End", "the beginning, the end"), ("w  Esc", "close"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Scroll", key_display="↑↓"),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "jump(False)", show=False),
        Binding("end", "jump(True)", show=False),
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
        self._header.redraw()
        self._table.redraw()

    def action_move(self, lines: int) -> None:
        """Scroll."""
        self._table.move(lines)

    def action_page(self, pages: int) -> None:
        """Scroll by what one sees."""
        self._table.page(pages)

    def action_jump(self, last: bool) -> None:
        """To the beginning or the end."""
        self._table.jump(last)
