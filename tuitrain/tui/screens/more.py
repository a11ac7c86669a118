"""Asks how much longer a finished run is to train."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.strip import Strip

from tuitrain.tui.hosts.going_on import More
from tuitrain.tui.screens.dialog import Dialog
from tuitrain.tui.widgets.line_editor import LineEditor
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row

if TYPE_CHECKING:
    from textual.widgets import Input

_WIDTH = 68
_LABEL = 13
_FIELD = 14
_MOST = 1_000_000_000


class _Box(Pane):
    """What is finished, and a field for how many more."""

    def __init__(self, more: More) -> None:
        super().__init__()
        self.first = self.last = True
        self.styles.width, self.styles.height = _WIDTH, 6
        self.wrong = ""
        self.editor = LineEditor(self, lambda: (2 + _LABEL, 3, _FIELD))
        self._more = more

    def heading(self) -> tuple[Row, Row]:
        """The question, and how to answer."""
        return Row("Train on", self.palette.title_focus), Row("Enter goes on · Esc goes back", self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """What is done, the label of the field, and what is wrong with what stands in it."""
        palette, more = self.palette, self._more
        done = f"{more.run} is finished: {_count(more.done, more.unit)}."
        note = Row(self.wrong, palette.bad) if self.wrong else Row("from its last checkpoint, same id and folder", palette.dim)
        lines = [Row(done, palette.text), Row(), Row(f"{more.unit} more", palette.strong), note]
        return [line.strip(width) for line in lines]


class MoreDialog(Dialog["int | None", _Box]):
    """Gives how many more, or `None`. Enter at once takes what is proposed.

    Args:
        more: what is finished.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back")]

    def __init__(self, more: More) -> None:
        super().__init__(_Box(more))
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
            self._say("It must be a whole number from 1.")

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(None)

    def _say(self, wrong: str) -> None:
        if wrong != self._box.wrong:
            self._box.wrong = wrong
            self._box.redraw()


def _count(count: int, unit: str) -> str:
    return f"{count:,} {unit if count != 1 else unit.removesuffix('s')} done"
