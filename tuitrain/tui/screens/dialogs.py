"""Dialogs over the main screen: what to do with a run when quitting, and the keys explained."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.strip import Strip

from tuitrain.tui.screens.base import Help
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row

QUIT_CHOICES = (("Stop and save", "stop"), ("Keep training, stay here", "stay"))
EVERYWHERE: Help = (
    ("", "Everywhere"),
    ("n  t  r", "new run, training, runs"),
    ("o  w  p", "log, parameters, predictions of the run"),
    ("Ctrl+P", "all commands, and the themes"),
    ("?  q", "this help, quit"),
)


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


class _HelpText(_Box):
    def __init__(self, about: str, lines: Help) -> None:
        super().__init__("Keys", "? or Esc closes")
        self._about = about
        self._help = lines
        self.styles.width = 66
        self.styles.height = len(lines) + 3

    def body(self, width: int, height: int) -> list[Strip]:
        palette = self.palette
        lines = [Row(self._about, palette.dim).strip(width)]
        for key, text in self._help:
            row = Row(f"  {key:<14}", palette.key).add(text, palette.text) if key else Row(text, palette.strong)
            lines.append(row.strip(width))
        return lines


class HelpScreen(ModalScreen[None]):
    """The keys of the screen below, and those that work everywhere."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,escape,q,enter", "leave", "Close"),
    ]

    def __init__(self, about: str, lines: Help) -> None:
        super().__init__()
        self._about = about
        self._lines = lines

    def compose(self) -> ComposeResult:
        """The box."""
        yield _HelpText(self._about, (*self._lines, *EVERYWHERE))

    def action_leave(self) -> None:
        """Back to where one was."""
        self.dismiss()
