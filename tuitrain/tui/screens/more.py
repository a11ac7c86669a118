"""Asks how much longer a finished run is to train."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.strip import Strip

from tuitrain.tui.hosts.going_on import More
from tuitrain.tui.screens.dialog import WIDTH, Box, Dialog
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.line_editor import LineEditor
from tuitrain.tui.wrap import wrap

if TYPE_CHECKING:
    from textual.widgets import Input

_LABEL = 13
_FIELD = 14
_MOST = 1_000_000_000


class _Field(Box):
    """What is finished, and a field for how many more."""

    def __init__(self, more: More) -> None:
        super().__init__()
        self.wrong = ""
        self.editor = LineEditor(self, lambda: (2 + _LABEL, 2 + len(self._done), _FIELD))
        self._more = more
        self._done: list[str] = []
        self._note: list[str] = []

    def place_in(self, width: int, height: int) -> None:
        """As wide as the others; the field has its line below what is finished."""
        more, width = self._more, min(WIDTH, width)
        self._done = wrap(f"{more.run} is finished: {_count(more.done, more.unit)}.", width - 4)
        self._note = wrap(self.wrong or "from its last checkpoint, same id and folder", width - 4)
        self.styles.width, self.styles.height = width, len(self._done) + len(self._note) + 4
        self.editor.place()
        self.redraw()

    def heading(self) -> tuple[Row, Row]:
        """The question, and how to answer."""
        return Row("Train on", self.palette.title_focus), Row("Enter goes on · Esc goes back", self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """What is done, the label of the field, and what is wrong with what stands in it."""
        palette = self.palette
        lines = [*(Row(line, palette.text) for line in self._done), Row(), Row(f"{self._more.unit} more", palette.strong)]
        lines += [Row(line, palette.bad if self.wrong else palette.dim) for line in self._note]
        return [line.strip(width) for line in lines]


class MoreDialog(Dialog["int | None", _Field]):
    """Gives how many more, or `None`. Enter at once takes what is proposed.

    Args:
        more: what is finished.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back")]

    def __init__(self, more: More) -> None:
        super().__init__(_Field(more))
        self._proposed = str(more.proposed)

    def on_mount(self) -> None:
        """The field has the keys."""
        self._box.editor.open(self._proposed)

    def on_input_changed(self, event: Input.Changed) -> None:
        """What was wrong with another text is not wrong with this one."""
        event.stop()
        self._say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take it where it is a number."""
        event.stop()
        text = event.value.strip().replace(",", "")
        count = int(text) if text.isascii() and text.isdecimal() else 0
        if 1 <= count <= _MOST:
            self.dismiss(count)
        else:
            self._say(f"It must be {_MOST:,} at most." if count else "It must be a whole number from 1.")

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(None)

    def _say(self, wrong: str) -> None:
        if wrong != self._box.wrong:
            self._box.wrong = wrong
            self._box.place_in(*self.app.size)


def _count(count: int, unit: str) -> str:
    return f"{count:,} {unit if count != 1 else unit.removesuffix('s')} done"
