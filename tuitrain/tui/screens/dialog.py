"""A box in the middle of the screen."""

from __future__ import annotations

from typing import Generic, TypeVar

from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widget import Widget

from tuitrain.tui.terminal.painting import PieceCompositor

Answer = TypeVar("Answer")
BoxWidget = TypeVar("BoxWidget", bound=Widget)


class Dialog(ModalScreen[Answer], Generic[Answer, BoxWidget]):
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
