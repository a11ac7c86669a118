"""Text for the clipboard: what a key copies, and what the mouse was drawn over."""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.actions import SkipAction
from textual.screen import Screen

from tuitrain.tui.terminal.clipboard import hand_to_tmux
from tuitrain.tui.widgets.lines import Lines

Result = TypeVar("Result")


class CopyingScreen(Screen[Result]):
    """A screen on which Ctrl+C copies what is selected."""

    def copy(self, text: str) -> None:
        """Copy `text` through the terminal, so that it works over SSH and in tmux."""
        self.app.copy_to_clipboard(text)
        self.run_worker(lambda: hand_to_tmux(text), thread=True, exit_on_error=False, group="copy")
        self.notify("copied", timeout=3)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """What is pressed outside of the lines that have the selection ends it; inside of them they do it."""
        lines = self._with_selection()
        if lines is not None and not lines.region.contains(event.screen_x, event.screen_y):
            lines.select_text(None)

    def action_copy_text(self) -> None:
        """Copy what is selected, which then no longer is: pressed once more, the key is the app's again, as where nothing is selected."""
        if not self.copy_selected():
            raise SkipAction

    def copy_selected(self) -> bool:
        """Copy what is selected, if anything is; whether it is."""
        lines = self._with_selection()
        if lines is None or lines.text_selected is None:
            return False
        if text := lines.text_selected.text.strip("\n"):
            self.copy(text)
        lines.select_text(None)
        return True

    def _with_selection(self) -> Lines | None:
        return next((lines for lines in self.query(Lines) if lines.text_selected is not None), None)
