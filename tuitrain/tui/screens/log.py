"""The whole log at full size: to scroll, to search, and to save."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tuitrain.runs.logtail import LogTail
from tuitrain.text import clean
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.save import SaveError, save_log
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.log import LogView
from tuitrain.tui.widgets.prompt import Prompt

_SEARCH = "search"
_SAVE = "save as"


class LogScreen(PaneScreen):
    """Every line that is kept, with the run's state above.

    Args:
        run: the run that it is about.
        log: gives its log.
    """

    AUTO_FOCUS = "#log-view"
    ABOUT = "Notices, and everything that was printed."
    KEYS: ClassVar[Help] = (
        ("↑ ↓ PgUp PgDn", "scroll"),
        ("Home  End", "the oldest line, follow the newest"),
        ("/", "search, in any case of letters; Enter keeps the search"),
        ("> <", "next and previous match; ↓ and ↑ while one types"),
        ("s", "save the whole log to a file"),
        ("Esc", "leave the search, then the log"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search"),
        Binding("greater_than_sign", "match(1)", "Next match", key_display="> <"),
        Binding("less_than_sign", "match(-1)", show=False),
        Binding("s", "save", "Save"),
        Binding("o", "leave", show=False),
        Binding("escape", "back", "Close"),
    ]

    class Saved(Message):
        """The file is written."""

        def __init__(self, path: Path) -> None:
            super().__init__()
            self.path = path

    class NotSaved(Message):
        """It is not; `exists` where a second Enter would overwrite."""

        def __init__(self, name: str, error: SaveError) -> None:
            super().__init__()
            self.name = name
            self.error = error

    def __init__(self, run: RunLike, log: Callable[[], LogTail]) -> None:
        super().__init__(run)
        self._log_of_run = log
        self._log = LogView(log)
        self._prompt = Prompt()
        self._overwrites = ""
        """The name that a second Enter overwrites."""

    def panes(self) -> Iterable[Widget]:
        """The log, and the line that asks."""
        return (self._log, self._prompt)

    def place_panes(self, width: int, height: int) -> None:
        """The line takes its row only while it is needed."""
        self._prompt.display = self._prompt.editing or bool(self._log.search.text)

    def beat(self) -> None:
        """Follow the log."""
        self._log.redraw()
        self._count()

    def run_changed(self) -> None:
        """Show what is new."""
        self._header.redraw()
        self.beat()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Matches need a search; Esc stands in the footer where it does not close."""
        searching = bool(self._log.search.text)
        works = {
            "match": searching,
            "search": not self._prompt.editing,
            "save": not self._prompt.editing,
            "leave": not self._prompt.editing,
        }
        return works.get(action, True)

    def action_back(self) -> None:
        """Leave the search, then the screen."""
        if self._log.search.text:
            self._end_prompt()
        else:
            self.dismiss()

    # -- searching ----------------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Ask for a text; what was looked for last is there to change."""
        self._prompt.ask(_SEARCH, self._log.search.text)
        self._count()

    def action_match(self, by: int) -> None:
        """The next or previous line that has it."""
        self._log.move_match(by)
        self._count()

    def _count(self) -> None:
        """Say at which match one is."""
        search = self._log.search
        if self._prompt.label != _SEARCH or not self._prompt.display:
            return
        if not search.text:
            self._prompt.say("Enter keeps it · Esc leaves")
        elif not search.matches:
            self._prompt.say("no line has it", bad=True)
        else:
            keys = "↓ ↑ Enter keeps it" if self._prompt.editing else "> next  < previous  Esc ends"
            self._prompt.say(f"{search.place} of {len(search.matches)} · {keys}")

    # -- saving -------------------------------------------------------------------------------------------------------

    def action_save(self) -> None:
        """Ask for the file's name."""
        record = self.run.record
        run = record.run if record is not None and record.run else "tuitrain"
        self._overwrites = ""
        self._log.find("")
        self._prompt.ask(_SAVE, f"{run}-log.txt")
        self._prompt.say("Enter saves · Esc cancels")

    def _save(self, name: str) -> None:
        if not name.strip():
            self._prompt.say("a file needs a name", bad=True)
            return
        record = self.run.record
        work = partial(self._write, name.strip(), None if record is None else record.path, name == self._overwrites)
        self.run_worker(work, thread=True, exclusive=True, group="save")

    def _write(self, name: str, folder: Path | None, overwrite: bool) -> None:
        try:
            self.post_message(self.Saved(save_log(name, folder, self._log_of_run(), overwrite=overwrite)))
        except SaveError as error:
            self.post_message(self.NotSaved(name, error))

    def on_log_screen_saved(self, message: Saved) -> None:
        """Say where it is."""
        self._end_prompt()
        self.notify(f"Saved: {clean(str(message.path))}", markup=False)

    def on_log_screen_not_saved(self, message: NotSaved) -> None:
        """Say why not; the name can be changed."""
        self._overwrites = message.name if message.error.exists else ""
        self._prompt.say(str(message.error), bad=True)

    # -- the line that asks -------------------------------------------------------------------------------------------

    def on_prompt_typed(self, message: Prompt.Typed) -> None:
        """Search as one types; another name overwrites nothing."""
        if self._prompt.label == _SEARCH:
            self._log.find(self._prompt.text)
            self._count()
        else:
            self._overwrites = ""
            self._prompt.say("Enter saves · Esc cancels")

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        """Keep the search, or save."""
        if self._prompt.label == _SAVE:
            self._save(self._prompt.text)
        elif self._log.search.text:
            self._prompt.close_editor()
            self._log.focus()
            self._count()
            self.refresh_bindings()
        else:
            self._end_prompt()

    def on_prompt_left(self, message: Prompt.Left) -> None:
        """Away with the line and what it was for."""
        self._end_prompt()

    def on_prompt_stepped(self, message: Prompt.Stepped) -> None:
        """↑ and ↓ go from match to match while one types."""
        if self._prompt.label == _SEARCH:
            self.action_match(message.by)

    def _end_prompt(self) -> None:
        self._log.find("")
        self._prompt.hide()
        self._log.focus()
        self.refresh_bindings()
