"""A text field of one line."""

from __future__ import annotations

from textual.events import Paste
from textual.widgets import Input


class Field(Input):
    """Textual's `Input`, which takes all of a pasted text of several lines, where that takes the first."""

    def _on_paste(self, event: Paste) -> None:
        """Make one line of it; `Input` does the rest."""
        lines = [line for line in event.text.splitlines() if line.strip()]
        # The spaces around a single one may be meant.
        event.text = lines[0] if len(lines) == 1 else " ".join(line.strip() for line in lines)
