"""What stands in place of the panes where the terminal is too small for them."""

from __future__ import annotations

from textual.strip import Strip

from tuitrain import words
from tuitrain.tui.layout import LEAST
from tuitrain.tui.look import state_look
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.lines import Lines
from tuitrain.tui.wrap import wrap


class TooSmall(Lines):
    """One sentence that says what is needed, and how the run is doing."""

    def __init__(self, view: RunLike) -> None:
        super().__init__(id="too-small")
        self._view = view

    def content(self, width: int, height: int) -> list[Strip]:
        """The sentence and the run in short."""
        palette, size = self.palette, self.app.size
        sentence = f"tuitrain needs {LEAST[0]}×{LEAST[1]}; this terminal is {size.width}×{size.height}."
        lines = [Row(line, palette.text).strip(width) for line in wrap(sentence, width)]
        record = self._view.record
        if record is not None:
            glyph, style = state_look(self._view.state, palette)
            lines.append(Row(f"{glyph} {self._view.state}", style).strip(width))
            lines.append(Row(f"step {record.step:,} · loss {words.number(record.last_loss)}", palette.dim).strip(width))
        return lines
