"""A line that asks for a file's name and saves there."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from textual.message import Message

from tuitrain.text import clean
from tuitrain.tui.save import SaveError
from tuitrain.tui.widgets.prompt import Prompt

_KEYS = "Enter saves · Esc cancels"


class Write(Protocol):
    """Writes a file; as `save_text` of `tuitrain.tui.save` without its text."""

    def __call__(self, name: str, *, overwrite: bool) -> Path:
        """The path of what was written; raises `SaveError`."""


class SavePrompt(Prompt):
    """Hidden until `ask_where`; says why a file is not written, and lets a second Enter overwrite one that is there."""

    class Closed(Message):
        """The line is gone, and the keys belong to somebody else again."""

    class _Tried(Message):
        def __init__(self, write: Write, name: str, result: Path | SaveError) -> None:
            super().__init__()
            self.write = write
            self.name = name
            self.result = result

    def __init__(self) -> None:
        super().__init__()
        self._write: Write | None = None
        self._overwrites = ""
        """The name that a second Enter overwrites."""

    def ask_where(self, name: str, write: Write) -> None:
        """Ask under which name to save what `write` writes, in a thread; `name` is proposed."""
        self._write, self._overwrites = write, ""
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
        name, write = self.text.strip(), self._write
        if not name or write is None:
            self.say("a file needs a name", bad=True)
            return
        overwrite = name == self._overwrites

        def save() -> None:
            try:
                result: Path | SaveError = write(name, overwrite=overwrite)
            except SaveError as error:
                result = error
            self.post_message(self._Tried(write, name, result))

        self.run_worker(save, thread=True, exclusive=True, exit_on_error=False, group="save")

    def on_prompt_left(self, message: Prompt.Left) -> None:
        """Away with the line."""
        message.stop()
        self._close()

    def on_prompt_stepped(self, message: Prompt.Stepped) -> None:
        """There is nothing to step through."""
        message.stop()

    def on_save_prompt__tried(self, message: _Tried) -> None:
        """Say where it is, or why not: the name can be changed. A line that was left meanwhile stays away, or asks about another text."""
        message.stop()
        result, asked = message.result, message.write is self._write
        if isinstance(result, Path):
            self.notify(f"Saved: {clean(str(result))}", markup=False)
            if asked:
                self._close()
        elif asked:
            self._overwrites = message.name if result.exists else ""
            self.say(str(result), bad=True)

    def _close(self) -> None:
        self._write = None
        self.hide()
        self.post_message(self.Closed())
