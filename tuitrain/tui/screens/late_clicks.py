"""Clicks that come when what they were meant for has just gone, as two quick ones on a dialog."""

from __future__ import annotations

from typing import TypeVar

from textual.await_complete import AwaitComplete

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
