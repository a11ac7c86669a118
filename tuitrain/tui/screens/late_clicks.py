"""Clicks that come when what they were meant for has just gone: two quick ones on a dialog, or one on a sentence in the corner."""

from __future__ import annotations

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.geometry import Offset
from textual.widget import Widget

from tuitrain.tui.screens.copying import CopyingScreen

Result = TypeVar("Result")


class LateClicks(CopyingScreen[Result]):
    """A screen to which they do no harm. What is another kind of screen too names this one last: Textual takes styles from the first."""

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close it and what lies over it; nothing, where it has been closed. Textual would close whichever screen is on top."""
        if self not in self.app.screen_stack:
            return AwaitComplete()
        while self.app.screen is not self:
            self.app.screen.dismiss()
        return super().dismiss(result)

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """What a selection begins or ends at. What was removed since the last layout is nothing: Textual asks where its parent is."""
        widget, offset = super().get_widget_and_offset_at(x, y)
        if widget is None or widget is self or widget.is_attached:
            return widget, offset
        return None, None
