"""The run as a plain PyTorch script: to read, to copy, and to save."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tuitrain.tui.code.script import Code, Name, Subject
from tuitrain.tui.code.writer import Writer
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.save import save_text
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.code_view import CodeView
from tuitrain.tui.widgets.save_prompt import SavePrompt


class CodeScreen(PaneScreen):
    """The script, written while the screen opens.

    Args:
        run: the run that the screen below is about.
        subject: what the script is of.
        name_devices: says what a start would take now.
        writer: writes it.
    """

    AUTO_FOCUS = "#code-view"
    ABOUT = "The run as a plain PyTorch script, with + at the lines that one device would do without."
    FIRST: ClassVar[tuple[str, ...]] = ("difference", "scroll", "copy", "save")
    KEYS: ClassVar[Help] = (
        ("↑ ↓ PgUp PgDn", "scroll; also j k space Home End"),
        ("] [", "next and previous difference from the script of one device; also > <"),
        ("y", "copy the whole script"),
        ("s", "save it to a file"),
        ("C  Esc", "close"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy"),
        Binding("s", "save", "Save"),
        Binding("C", "leave", show=False),
        Binding("escape", "leave", "Close"),
    ]

    class Written(Message, bubble=False):
        """The script, or why there is none."""

        def __init__(self, code: Code | str) -> None:
            super().__init__()
            self.code = code

    def __init__(self, run: RunLike, subject: Subject, name_devices: Name, writer: Writer) -> None:
        super().__init__(run)
        self._subject = subject
        self._name_devices = name_devices
        self._writer = writer
        self._view = CodeView()
        self._saving = SavePrompt()

    def panes(self) -> Iterable[Widget]:
        """The script, and the line that asks for a file's name."""
        return (self._view, self._saving)

    def place_panes(self, width: int, height: int) -> None:
        """The line takes its row only while it is needed."""
        self._saving.display = self._saving.editing

    def on_mount(self) -> None:
        """Have it written."""
        self._view.say("writing the script… (torch is being imported)" if self._writer.waits_for_torch else "writing the script…")
        self._writer.start(self._subject, self._name_devices, self._written)

    def _written(self, code: Code | str) -> None:
        """From the writer's thread."""
        self.post_message(self.Written(code))

    def on_code_screen_written(self, message: Written) -> None:
        """Show it."""
        if isinstance(message.code, str):
            self._view.say(message.code, wrong=True)
        else:
            self._view.show(message.code)
        self.refresh_bindings()

    def on_code_view_moved(self, message: CodeView.Moved) -> None:
        """More or less of it fits."""
        self.refresh_bindings()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is there can be copied and saved; nothing but typing while a name is typed."""
        if action in ("copy", "save"):
            return self._view.code is not None and not self._saving.editing
        return not self._saving.editing if action == "leave" else True

    def action_copy(self) -> None:
        """Copy all of it."""
        if self._view.code is not None:
            self.copy(self._view.code.text)

    def action_save(self) -> None:
        """Ask for the file's name."""
        code = self._view.code
        if code is not None:
            self._saving.ask_where(code.name, partial(save_text, text=code.text))

    def on_save_prompt_closed(self, message: SavePrompt.Closed) -> None:
        """The script has the keys again."""
        self._view.focus()
        self.refresh_bindings()
