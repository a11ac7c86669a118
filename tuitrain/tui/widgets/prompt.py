"""One line that asks for a text, and says what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.tui.strips import Row, spread
from tuitrain.tui.widgets.line_editor import LineEditor
from tuitrain.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from textual.widgets import Input

_LEAST_FIELD = 12
_MOST_ANSWER = 46


class Prompt(Lines):
    """Hidden until `ask`. A field lies over the line while the text is typed; the answer stands at the right end."""

    DEFAULT_CSS = "Prompt { height: 1; display: none; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
    ]

    class Typed(Message):
        """The text is another one."""

    class Entered(Message):
        """Enter was pressed."""

    class Left(Message):
        """Esc was pressed."""

    class Stepped(Message):
        """↑ (-1) or ↓ (1) was pressed."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self) -> None:
        super().__init__()
        self.label = ""
        self.text = ""
        self._answer = ""
        self._bad = False
        self._editor = LineEditor(self, self._editor_place)

    @property
    def editing(self) -> bool:
        """Whether the text is being typed."""
        return self._editor.active

    def ask(self, label: str, text: str = "") -> None:
        """Show the line and give it the keys."""
        self._editor.close()
        self.label, self.text = label, text
        self.say("")
        self.display = True
        self._editor.open(text)

    def say(self, answer: str, *, bad: bool = False) -> None:
        """What stands at the right end."""
        self._answer, self._bad = answer, bad
        self._editor.place()
        self.redraw()

    def close_editor(self) -> None:
        """The text stays, the keys go elsewhere."""
        self._editor.close()

    def hide(self) -> None:
        """Away with the line."""
        self.close_editor()
        self.display = False

    def on_resize(self) -> None:
        """The field keeps to its room."""
        self._editor.place()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tell who asked."""
        event.stop()
        if self._editor.owns(event.input) and event.value != self.text:
            self.text = event.value
            self.post_message(self.Typed())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Tell who asked."""
        event.stop()
        self.text = event.value
        self.post_message(self.Entered())

    def action_leave(self) -> None:
        """Tell who asked."""
        self.post_message(self.Left())

    def action_step(self, by: int) -> None:
        """Tell who asked."""
        self.post_message(self.Stepped(by))

    def content(self, width: int, height: int) -> list[Strip]:
        """The label, the text where it is not being typed, and the answer."""
        palette = self.palette
        left = Row(f" {self.label} ", palette.key)
        if not self.editing:
            left.add(self.text, palette.strong)
        return [spread(left, Row(f"{self._answer} ", palette.warn if self._bad else palette.dim), width)]

    def _editor_place(self) -> tuple[int, int, int]:
        start = cell_len(self.label) + 2
        width = self.app.size.width - start - min(cell_len(self._answer), _MOST_ANSWER) - 3
        return start, 0, max(width, _LEAST_FIELD)
