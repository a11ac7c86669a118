"""A line that asks for a file's name and saves there."""

from __future__ import annotations

from pathlib import Path

from textual.message import Message

from tuitrain.text import clean
from tuitrain.tui.save import SaveError, save_text
from tuitrain.tui.widgets.prompt import Prompt

_KEYS = "Enter saves · Esc cancels"


class SavePrompt(Prompt):
    """Hidden until `ask_where`; says why a file is not written, and lets a second Enter overwrite one that is there."""

    class Closed(Message):
        """The line is gone, and the keys belong to somebody else again."""

    class _Saved(Message):
        def __init__(self, path: Path) -> None:
            super().__init__()
            self.path = path

    class _NotSaved(Message):
        def __init__(self, name: str, error: SaveError) -> None:
            super().__init__()
            self.name = name
            self.error = error

    def __init__(self) -> None:
        super().__init__()
        self._content = ""
        self._overwrites = ""
        """The name that a second Enter overwrites."""

    def ask_where(self, name: str, content: str) -> None:
        """Ask under which name to save `content`; `name` is proposed."""
        self._content, self._overwrites = content, ""
        self.ask("save as", name)
        self.say(_KEYS)

    def on_prompt_typed(self, message: Prompt.Typed) -> None:
        """Another name overwrites nothing."""
        message.stop()
        self._overwrites = ""
        self.say(_KEYS)

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        """Save, in a thread: a disk may be slow."""
        message.stop()
        name = self.text.strip()
        if not name:
            self.say("a file needs a name", bad=True)
            return
        overwrite, content = name == self._overwrites, self._content

        def write() -> None:
            try:
                self.post_message(self._Saved(save_text(name, content, overwrite=overwrite)))
            except SaveError as error:
                self.post_message(self._NotSaved(name, error))

        self.run_worker(write, thread=True, exclusive=True, group="save")

    def on_prompt_left(self, message: Prompt.Left) -> None:
        """Away with the line."""
        message.stop()
        self._close()

    def on_save_prompt__saved(self, message: _Saved) -> None:
        """Say where it is."""
        message.stop()
        self.notify(f"Saved: {clean(str(message.path))}", markup=False)
        self._close()

    def on_save_prompt__not_saved(self, message: _NotSaved) -> None:
        """Say why not; the name can be changed."""
        message.stop()
        self._overwrites = message.name if message.error.exists else ""
        self.say(str(message.error), bad=True)

    def _close(self) -> None:
        self.hide()
        self.post_message(self.Closed())
