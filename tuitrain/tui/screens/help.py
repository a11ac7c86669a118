"""The keys explained."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip

from tuitrain.tui.screens.base import Help
from tuitrain.tui.screens.dialog import Box, Dialog
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.scrolling import ScrollingView
from tuitrain.tui.wrap import wrap

EVERYWHERE: Help = (
    ("", "Everywhere"),
    ("n  t  r", "new run, training, runs"),
    ("g  d", "GPUs, the doctor that looks for what is wrong with them"),
    ("o  w  p  i", "log, parameters, predictions, and analysis of the run"),
    ("C", "the run, or the launcher's, as a plain PyTorch script"),
    ("Ctrl+P Ctrl+Z", "all commands and the themes; to the shell until fg"),
    ("? h  Esc  q", "this help, back, quit; Ctrl+C copies what is selected"),
)
_HELP_WIDTH = 76
_KEY_WIDTH = 14


class _HelpText(ScrollingView, Box):
    """The lines, scrolled where they are more than the terminal has."""

    def __init__(self, about: str, lines: Help) -> None:
        super().__init__()
        self._about = about
        self._help = lines

    def place_in(self, width: int, height: int) -> None:
        """As large as the lines need and the terminal allows."""
        self.styles.width = min(_HELP_WIDTH, width)
        self.styles.height = min(len(self._lines_in(min(_HELP_WIDTH, width) - 4)) + 2, height)
        self.redraw()

    def line_count(self) -> int:
        """Lines at the width that the box has."""
        return len(self._lines_in(max(self.size.width - 4, 2)))

    def heading(self) -> tuple[Row, Row]:
        """The title, and whether there is more."""
        self.stay_inside()
        right = Row("? or Esc closes", self.palette.dim)
        if self.scrolls:
            right = Row("↑↓ ", self.palette.key).add("scroll · ", self.palette.dim).join(right)
        return Row("Keys", self.palette.title_focus), right

    def body(self, width: int, height: int) -> list[Strip]:
        """The lines in view."""
        return self._lines_in(width)[self._top : self._top + height]

    def _lines_in(self, width: int) -> list[Strip]:
        palette = self.palette
        lines = [Row(line, palette.dim).strip(width) for line in wrap(self._about, width)]
        for key, text in self._help:
            if not key:
                lines.append(Row(text, palette.strong).strip(width))
                continue
            for index, piece in enumerate(wrap(text, width - _KEY_WIDTH - 2)):
                row = Row("  ").left("" if index else key, _KEY_WIDTH, palette.key)
                lines.append(row.add(piece, palette.text).strip(width))
        return lines


class HelpScreen(Dialog[None, _HelpText]):
    """The keys of the screen below, and those that work everywhere."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,h,f1,escape,q,enter", "leave", "Close"),
    ]

    def __init__(self, about: str, lines: Help) -> None:
        super().__init__(_HelpText(about, (*lines, *EVERYWHERE)))

    def on_click(self, event: events.Click) -> None:
        """A click closes what asks nothing, on it too: in a small terminal there is hardly anything beside it."""
        event.stop()
        self.action_leave()

    def action_leave(self) -> None:
        """Back to where one was."""
        self.dismiss()
