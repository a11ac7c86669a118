"""A box in the middle of the screen."""

from __future__ import annotations

from typing import Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from tuitrain.tui.screens.late_clicks import LateClicks
from tuitrain.tui.terminal.painting import PieceCompositor
from tuitrain.tui.widgets.lines import Pane

WIDTH = 68
Answer = TypeVar("Answer")


class Box(Pane):
    """A frame of its own. It may stay open on a terminal that becomes smaller than any screen."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.first = self.last = True

    def place_in(self, width: int, height: int) -> None:
        """Take the room that it needs, and no more than the terminal has."""
        raise NotImplementedError


BoxWidget = TypeVar("BoxWidget", bound=Box)


class Dialog(ModalScreen[Answer], LateClicks[Answer], Generic[Answer, BoxWidget]):
    """Has the keys until it gives its answer.

    Args:
        box: all that it shows.
    """

    def __init__(self, box: BoxWidget) -> None:
        super().__init__()
        self._compositor = PieceCompositor()
        self._box = box

    def compose(self) -> ComposeResult:
        """The box."""
        yield self._box

    def action_copy_text(self) -> None:
        """Copy what is selected; where nothing is, leave."""
        if not self.copy_selected():
            self.action_leave()

    def action_leave(self) -> None:
        """Without an answer: what asks nothing goes away when it is over."""

    def on_mount(self) -> None:
        """Take the room that there is."""
        self._box.place_in(*self.app.size)

    def on_resize(self, event: events.Resize) -> None:
        """Take the room that there is now."""
        self._box.place_in(*event.size)
