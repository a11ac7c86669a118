"""A question before something is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.strip import Strip

from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row
from tuitrain.tui.widgets.wrap import wrap

_WIDTH = 68
_HINT = "Enter takes it · Esc goes back"


class _Question(Pane, can_focus=True):
    """A sentence, and answers of which the cursor begins on the first."""

    def __init__(self, title: str, sentence: str, answers: Sequence[str]) -> None:
        super().__init__()
        self.first = self.last = True
        self.cursor = 0
        self._title = title
        self._answers = answers
        self._sentence = wrap(sentence, _WIDTH - 4)
        self.styles.width = _WIDTH
        self.styles.height = len(self._sentence) + len(answers) + 3

    def move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = (self.cursor + by) % len(self._answers)
        self.redraw()

    def heading(self) -> tuple[Row, Row]:
        """The title, and how to answer."""
        left = Row(self._title, self.palette.title_focus)
        return left, Row(_HINT, self.palette.dim) if cell_len(self._title) + len(_HINT) + 10 <= _WIDTH else Row()

    def body(self, width: int, height: int) -> list[Strip]:
        """The sentence, a gap, and a line for each answer."""
        palette = self.palette
        lines = [Row(line, palette.text).strip(width) for line in self._sentence]
        lines.append(Strip.blank(width))
        for index, answer in enumerate(self._answers):
            here = index == self.cursor
            lines.append(Row("▸ " if here else "  ", palette.cursor).add(answer, palette.strong if here else palette.text).strip(width))
        return lines


class Ask(ModalScreen[bool]):
    """Asks whether to do something that cannot be taken back; gives `True` for yes. The answer that Enter takes at once is no.

    Args:
        title: the question in a few words.
        sentence: what would be lost.
        yes: what doing it is called.
        no: what leaving it is called.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take"),
        Binding("up,shift+tab", "move(-1)", show=False),
        Binding("down,tab", "move(1)", show=False),
        Binding("escape", "leave", "Back"),
        Binding("q", "leave", show=False),
    ]

    def __init__(self, title: str, sentence: str, *, yes: str, no: str) -> None:
        super().__init__()
        self._box = _Question(title, sentence, (no, yes))

    def compose(self) -> ComposeResult:
        """The box."""
        yield self._box

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._box.move(by)

    def action_take(self) -> None:
        """Take the answer under the cursor."""
        self.dismiss(self._box.cursor == 1)

    def action_leave(self) -> None:
        """No."""
        self.dismiss(False)
