"""The whole log at full size: to scroll, to search, and to save."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tuitrain.runs.logtail import LogTail
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.save import save_log
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.log import LogView
from tuitrain.tui.widgets.prompt import Prompt
from tuitrain.tui.widgets.save_prompt import SavePrompt


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
        ("s", "save the whole log to a file, with lines too old to show"),
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

    def __init__(self, run: RunLike, log: Callable[[], LogTail]) -> None:
        super().__init__(run)
        self._log_of_run = log
        self._log = LogView(log)
        self._prompt = Prompt()
        self._saving = SavePrompt()

    def panes(self) -> Iterable[Widget]:
        """The log, and the lines that ask."""
        return (self._log, self._prompt, self._saving)

    def place_panes(self, width: int, height: int) -> None:
        """A line takes its row only while it is needed."""
        self._prompt.display = self._prompt.editing or bool(self._log.search.text)
        self._saving.display = self._saving.editing

    def beat(self) -> None:
        """Follow the log."""
        self._log.redraw()
        self._count()

    def run_changed(self) -> None:
        """Show what is new."""
        super().run_changed()
        self.beat()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Matches need a search; Esc stands in the footer where it does not close."""
        if action == "match":
            return bool(self._log.search.text)
        typing = self._prompt.editing or self._saving.editing
        return not typing if action in ("search", "save", "leave") else True

    def action_back(self) -> None:
        """Leave the search, then the screen."""
        if self._log.search.text:
            self._end_search()
        else:
            self.dismiss()

    # -- searching ----------------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Ask for a text; what was looked for last is there to change."""
        self._prompt.ask("search", self._log.search.text)
        self._count()

    def action_match(self, by: int) -> None:
        """The next or previous line that has it."""
        self._log.move_match(by)
        self._count()

    def _count(self) -> None:
        """Say at which match one is."""
        search = self._log.search
        if not self._prompt.display:
            return
        if not search.text:
            self._prompt.say("Enter keeps it · Esc leaves")
        elif not search.matches:
            newest = self._log.newest
            self._prompt.say("no line has it" if newest is None else f"none of the newest {newest:,} lines has it", bad=True)
        else:
            keys = "↓ ↑ Enter keeps it" if self._prompt.editing else "> next  < previous  Esc ends"
            self._prompt.say(f"{search.place} of {len(search.matches)} · {keys}")

    def on_prompt_typed(self, message: Prompt.Typed) -> None:
        """Search as one types."""
        self._log.find(self._prompt.text)
        self._count()

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        """Keep the search."""
        if self._log.search.text:
            self._prompt.close_editor()
            self._log.focus()
            self._count()
            self.refresh_bindings()
        else:
            self._end_search()

    def on_prompt_left(self, message: Prompt.Left) -> None:
        """Away with the line and the search."""
        self._end_search()

    def on_prompt_stepped(self, message: Prompt.Stepped) -> None:
        """↑ and ↓ go from match to match while one types."""
        self.action_match(message.by)

    def _end_search(self) -> None:
        self._log.find("")
        self._prompt.hide()
        self._log.focus()
        self.refresh_bindings()

    # -- saving -------------------------------------------------------------------------------------------------------

    def action_save(self) -> None:
        """Ask for the file's name."""
        record = self.run.record
        name = record.run if record is not None and record.run else "tuitrain"
        folder = None if record is None else record.path
        self._log.find("")
        self._prompt.hide()
        self._saving.ask_where(f"{name}-log.txt", partial(save_log, run_folder=folder, log=self._log_of_run()))

    def on_save_prompt_closed(self, message: SavePrompt.Closed) -> None:
        """The log has the keys again."""
        self._log.focus()
        self.refresh_bindings()
