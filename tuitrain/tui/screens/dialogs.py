"""Dialogs over the main screen: what to do with a run when quitting, and the keys explained."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.strip import Strip

from tuitrain.tui.screens.base import Help
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row
from tuitrain.tui.widgets.wrap import wrap

QUIT_CHOICES = (("Stop and save", "stop"), ("Keep training, stay here", "stay"))
EVERYWHERE: Help = (
    ("", "Everywhere"),
    ("n  t  r", "new run, training, runs"),
    ("o  w  p", "log, parameters, predictions of the run"),
    ("Ctrl+P", "all commands, and the themes"),
    ("?  Esc  q", "this help, back, quit"),
)
_HELP_WIDTH = 76
_KEY_WIDTH = 14


class _Box(Pane):
    """A framed box of its own."""

    def __init__(self, title: str, hint: str) -> None:
        super().__init__()
        self.first = self.last = True
        self._title = title
        self._hint = hint

    def heading(self) -> tuple[Row, Row]:
        """The title and a hint."""
        return Row(self._title, self.palette.title_focus), Row(self._hint, self.palette.dim)


class _Choices(_Box, can_focus=True):
    """Lines to choose from; the cursor begins on the first."""

    def __init__(self, title: str, choices: tuple[tuple[str, str], ...]) -> None:
        super().__init__(title, "Enter takes it · Esc goes back")
        self._choices = choices
        self.cursor = 0
        self.styles.width = max(max(cell_len(text) for text, _ in choices) + 8, cell_len(title) + cell_len(self._hint) + 12)
        self.styles.height = len(choices) + 2

    @property
    def chosen(self) -> str:
        """The choice under the cursor."""
        return self._choices[self.cursor][1]

    def move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = (self.cursor + by) % len(self._choices)
        self.redraw()

    def body(self, width: int, height: int) -> list[Strip]:
        """One line for each choice."""
        palette = self.palette
        return [
            Row("▸ " if here else "  ", palette.cursor).add(text, palette.strong if here else palette.text).strip(width)
            for here, (text, _) in ((index == self.cursor, choice) for index, choice in enumerate(self._choices))
        ]


class QuitDialog(ModalScreen[str]):
    """Asks what becomes of the run that trains; gives "stop" or "stay"."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take"),
        Binding("up,shift+tab", "move(-1)", show=False),
        Binding("down,tab", "move(1)", show=False),
        Binding("escape", "leave", "Back"),
        Binding("q", "leave", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._box = _Choices("A run is training", QUIT_CHOICES)

    def compose(self) -> ComposeResult:
        """The box."""
        yield self._box

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._box.move(by)

    def action_take(self) -> None:
        """Take the choice under the cursor."""
        self.dismiss(self._box.chosen)

    def action_leave(self) -> None:
        """Stay."""
        self.dismiss("stay")


class _HelpText(_Box, can_focus=True):
    """The lines, scrolled where they are more than the terminal has."""

    def __init__(self, about: str, lines: Help) -> None:
        super().__init__("Keys", "? or Esc closes")
        self._about = about
        self._help = lines
        self._top = 0

    def place_in(self, width: int, height: int) -> None:
        """As large as the lines need and the terminal allows."""
        self.styles.width = min(_HELP_WIDTH, width)
        self.styles.height = min(len(self._lines_in(min(_HELP_WIDTH, width) - 4)) + 2, height)
        self.redraw()

    def scroll(self, by: int) -> None:
        """Move by lines."""
        self._top = max(self._top + by, 0)
        self.redraw()

    def page(self) -> int:
        """Lines that one sees."""
        return max(self.body_height(), 1)

    def heading(self) -> tuple[Row, Row]:
        """The title, and whether there is more."""
        count = len(self._lines_in(max(self.size.width - 4, 2)))
        self._top = min(self._top, max(count - self.body_height(), 0))
        left, right = super().heading()
        if count > self.body_height():
            right = Row("↑↓ ", self.palette.key).add("scroll · ", self.palette.dim).join(right)
        return left, right

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


class HelpScreen(ModalScreen[None]):
    """The keys of the screen below, and those that work everywhere."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,escape,q,enter", "leave", "Close"),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
    ]

    def __init__(self, about: str, lines: Help) -> None:
        super().__init__()
        self._text = _HelpText(about, (*lines, *EVERYWHERE))

    def compose(self) -> ComposeResult:
        """The box."""
        yield self._text

    def on_mount(self) -> None:
        """Take the room that there is."""
        self._text.place_in(self.app.size.width, self.app.size.height)

    def on_resize(self, event: events.Resize) -> None:
        """Take the room that there is now."""
        self._text.place_in(event.size.width, event.size.height)

    def action_scroll(self, by: int) -> None:
        """Move by lines."""
        self._text.scroll(by)

    def action_page(self, by: int) -> None:
        """Move by what one sees."""
        self._text.scroll(by * self._text.page())

    def action_leave(self) -> None:
        """Back to where one was."""
        self.dismiss()
