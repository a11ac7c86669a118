"""A text field of one line."""

from __future__ import annotations

from textual.events import Paste
from textual.widgets import Input

from tuitrain.text import one_line


class Field(Input):
    """Textual's `Input`, which takes all of a pasted text of several lines, where that takes the first."""

    def complete(self) -> bool:
        """Take the rest that its suggester offers; whether there was any."""
        offered = self.cursor_at_end and len(self._suggestion) > len(self.value)
        if offered:
            self.action_cursor_right()
        return offered

    def _on_paste(self, event: Paste) -> None:
        """Make one line of it; `Input` does the rest."""
        event.text = one_line(event.text)
