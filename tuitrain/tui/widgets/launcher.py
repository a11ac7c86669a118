"""The launcher: a filled-in form that Enter starts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from textual import events, work
from textual.binding import Binding, BindingType
from textual.message import Message

from tuitrain.config import BUILT_IN_WORDS, DATA, RunConfig
from tuitrain.text import one_line
from tuitrain.tui.launch import last
from tuitrain.tui.launch.disk import Disk, look
from tuitrain.tui.launch.fetch import Fetch
from tuitrain.tui.launch.form import TYPED, TYPED_PATH
from tuitrain.tui.launch.hints import Machine
from tuitrain.tui.launch.neighbours import Neighbours
from tuitrain.tui.launch.rows import FIELDS
from tuitrain.tui.widgets.form_pane import CHOICE, LABEL, LONG, PATHS, VALUE, FormPane
from tuitrain.tui.widgets.line_editor import LineEditor

if TYPE_CHECKING:
    from textual.widgets import Input

_NEVER_EMPTY = ("data", "device")
_DIGITS = "0123456789"
_WHOLE = ("epochs", "max_steps", "batch_size", "seed", "image_size", "warmup_steps", "keep_checkpoints")
_PARTS = ("lr", "momentum", "weight_decay", "max_grad_norm", "label_smoothing", "dropout", "target_accuracy", "checkpoint_every_minutes")
_BEGINS = {
    **dict.fromkeys(PATHS, "/~."),
    **dict.fromkeys(BUILT_IN_WORDS, "/"),
    **dict.fromkeys(_WHOLE, _DIGITS),
    **dict.fromkeys(_PARTS, f"{_DIGITS}."),
}
"""The characters with which one begins to type a row's value."""
_TEXTS = ("name", "note", "on_end")
"""Fields that take any text."""
_MAY_BE_NONE = ("max_steps", "max_grad_norm", "target_accuracy", "weights", "on_end")
_PATH = "/~"
_DATA_ROW = next(row for row, field in enumerate(FIELDS) if field.name == "data")


class Launcher(FormPane, can_focus=True):
    """The form with its keys. A value is edited in a field laid over it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "jump(False)", "First", show=False),
        Binding("end", "jump(True)", "Last", show=False),
        Binding("tab", "next_field", "Next", show=False),
        Binding("shift+tab", "previous_field", "Previous", show=False),
        Binding("left", "cycle(-1)", "Previous choice", show=False),
        Binding("right", "cycle(1)", "Next choice", show=False),
        Binding("space", "open", "Change", show=True),
        Binding("escape", "leave", "Undo", show=True),
    ]

    class Changed(Message):
        """A field has another value, or something else is offered."""

    class Start(Message):
        """Enter was pressed while a field was edited, and its text is allowed."""

    class Looked(Message):
        """The disk has answered."""

        def __init__(self, disk: Disk) -> None:
            super().__init__()
            self.disk = disk

    class FetchChanged(Message):
        """The download is in another state or phase."""

    class NoGpu(Message):
        """A run has found that torch can use none of the GPUs."""

    def __init__(
        self, config: RunConfig, *, machine: Callable[[], Machine], busy: Callable[[], bool], fetch: Fetch, neighbours: Neighbours
    ) -> None:
        super().__init__(config, machine=machine, busy=busy, fetch=fetch, neighbours=neighbours)
        self._looked_behind = ""
        self._editor = LineEditor(self, self._editor_place)
        self._before = ""
        self._clicked: int | None = None

    def on_mount(self) -> None:
        """The disk is asked when the first frame is painted."""
        self._fetch.listen(self._fetch_changed)
        self.call_after_refresh(self.look_at_disk)
        self.call_after_refresh(self.look_around)

    @property
    def editing(self) -> bool:
        """Whether a text field has the keys."""
        return self._editor.active

    @property
    def blank(self) -> bool:
        """Whether the field that has the keys is empty, and so changes nothing."""
        return self.editing and self.field in _NEVER_EMPTY and not self._editor.text.strip()

    @property
    def enter_does(self) -> str:
        """What Enter does while a field is edited, in the footer's words."""
        if not self.form.ready or self.waits_for_data:
            return "Keep"
        return "Start in background" if self._busy() else "Start"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc has something to leave only while a field is edited; space is a letter then."""
        if action == "leave":
            return self.editing
        return not self.editing if action in ("open", "cycle") else True

    # -- moving and choosing ------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Go to another row; what was edited is kept."""
        self._close_editor()
        self.cursor = min(max(self.cursor + by, 0), len(self.form.rows) - 1)
        self.redraw()

    def action_page(self, pages: int) -> None:
        """Go as far as one sees."""
        self.action_move(pages * max(len(self._rows_shown) - 1, 1))

    def action_jump(self, last: bool) -> None:
        """Go to the first or the last row."""
        self.action_move(len(self.form.rows) if last else -len(self.form.rows))

    def action_next_field(self) -> None:
        """The rest of a path that is being typed; else the next row, and after the last one the next pane."""
        if self._editor.complete():
            return
        if self.cursor == len(self.form.rows) - 1:
            self._close_editor()
            self.screen.focus_next()
        else:
            self.action_move(1)

    def action_previous_field(self) -> None:
        """The row before, and before the first one the pane before."""
        if self.cursor == 0:
            self._close_editor()
            self.screen.focus_previous()
        else:
            self.action_move(-1)

    def action_cycle(self, by: int) -> None:
        """The next or previous choice of a row that has choices."""
        field = self.field
        if not self._options(field):
            return
        option = self.form.cycle(field, by)
        if option in (TYPED_PATH, TYPED):
            text = self.form.text(field)
            self._open_editor("" if text in (*DATA, *chain(*BUILT_IN_WORDS.values()), "auto", *self.form.devices) else text)
            return
        self.form.set_text(field, option)
        if field == "recipe":
            # Others of the person's own may have come or gone.
            self.look_at_disk()
        self._changed()

    def action_open(self) -> None:
        """Change the row: the next choice, or an editor."""
        field = self.field
        if self._options(field):
            self.action_cycle(1)
        else:
            self._open_editor(self.form.text(field))

    def on_key(self, event: events.Key) -> None:
        """A digit on a row of numbers begins to type it, and what a path begins with the row of the data, but on another one of a path.

        On a row that takes something of one's own, `/` begins to type the name of that.
        """
        if self.editing or not event.character:
            return
        if event.character in _PATH and event.character not in _BEGINS.get(self.field, ""):
            self.cursor = _DATA_ROW
        if event.character in _BEGINS.get(self.field, ""):
            event.stop()
            self._open_editor("" if self.field in BUILT_IN_WORDS else event.character)

    def on_paste(self, event: events.Paste) -> None:
        """What is pasted on a row whose value may be typed takes the place of that; a path is that of the data, but where any text fits."""
        text = one_line(event.text).strip()
        if not text or self.editing:
            return
        if text[0] in _PATH and self.field not in (*PATHS, *_TEXTS):
            self.cursor = _DATA_ROW
        field = self.field
        if self.form.wanted(field) or not self._options(field):
            event.stop()
            self._open_editor(text)

    def on_click(self, event: events.Click) -> None:
        """A click selects a row, a second one changes it; on the ‹ before a choice it takes the one before."""
        rows = [index for index in range(len(self.form.rows)) if self.line_of(index) == event.y - 1]
        if not rows or (self.editing and rows[0] == self.cursor):
            return
        index = rows[0]
        again = index == self._clicked == self.cursor
        self._clicked = index
        self.action_move(index - self.cursor)
        if again and event.x == CHOICE and self._options(self.form.rows[index].name):
            self.action_cycle(-1)
        elif again:
            self.action_open()

    def on_blur(self) -> None:
        """The next click only selects."""
        if not self.editing:
            self._clicked = None

    def on_resize(self) -> None:
        """The rows are elsewhere."""
        self._place_editor()

    def _options(self, field: str) -> Sequence[str]:
        self.form.devices = ("cpu", *self._machine().cards)
        return self.form.options(field)

    def toggle_further(self) -> None:
        """Show the further rows with the cursor on their first one, or put them away."""
        self.form.toggle_further()
        self.cursor = len(FIELDS) if self.form.shows_further else 0
        # From that row on, as far as there is room.
        self._rows_shown = range(self.cursor, self.cursor + 1)
        self.focus()
        self._changed()

    # -- the disk, the download, the last launch ----------------------------------------------------------------------

    def look_at_disk(self) -> None:
        """Ask the disk in a thread; `Looked` brings the answer."""
        data = self._looked_behind = self.form.config.data
        self.run_worker(partial(self._look, data), thread=True, exclusive=True, exit_on_error=False, group="disk")

    def look_around(self) -> None:
        """Look, in a thread, which other runs train here, where it is time for that, and what the chosen recipe's file says by now."""
        if self.form.follows_file:
            self.look_at_disk()
        if self._neighbours.due:
            self._look_around()

    @work(exit_on_error=False, group="neighbours")
    async def _look_around(self) -> None:
        await self._neighbours.look()
        self.redraw()

    def _look(self, data: str) -> None:
        self.post_message(self.Looked(look(data)))

    def on_launcher_looked(self, message: Looked) -> None:
        """Show what the disk says."""
        message.stop()
        self.form.seen(message.disk)
        kept = message.disk.last
        if kept is not None and (self._last_launch is None or kept.time > self._last_launch.time):
            self._last_launch = kept
        self._changed()

    def toggle_fetch(self) -> None:
        """Begin the download, or cancel it."""
        if self._fetch.active:
            self._fetch.cancel()
        else:
            self.form.errors.pop("data", None)
            self._fetch.start()
        self._changed()

    def _fetch_changed(self) -> None:
        """From the download's thread."""
        self.post_message(self.FetchChanged())

    def on_launcher_fetch_changed(self, message: FetchChanged) -> None:
        """Take the data that has arrived, or say why it did not."""
        message.stop()
        state, form = self._fetch.state, self.form
        if state == "arrived":
            form.cifar10_on_disk = True
            if form.wants_cifar10 and not self._edits("data"):
                form.set_text("data", "cifar10")
            self.notify("CIFAR-10 is on disk.")
        elif state == "failed":
            beside = form.wants_cifar10
            if beside:
                form.refuse(f"data: {self._fetch.error}")
            if not (beside and self.display and self.app.screen is self.screen):
                self.notify(self._fetch.error, severity="error", markup=False)
        elif state == "cancelled":
            self.notify("The download was cancelled.")
        self._changed()

    def use_last_launch(self) -> None:
        """Take over the last launch."""
        if self.last_launch is not None:
            self.hold(self.last_launch.config)

    def hold(self, config: RunConfig) -> None:
        """Have this configuration in the place of what is there, and of what is being typed."""
        self._close_editor()
        self.form.take(config)
        self._changed()

    def launched(self, config: RunConfig) -> None:
        """Remember a launch, for this app and, in a thread, for the next one."""
        self._neighbours.expire()
        self._last_launch = last.LastLaunch(config, time.time())
        self.run_worker(partial(_keep, config), thread=True, exit_on_error=False, group="last launch")

    def took(self, config: RunConfig, devices: Sequence[str]) -> None:
        """Where the run takes no GPU and one was promised, say so, and promise none from then on."""
        if set(devices) == {"cpu"} and "cpu" not in self._machine().takes(config):
            self.notify("It trains on the CPU: torch cannot use the GPUs of this machine. d says why.", severity="warning", timeout=10)
            self.post_message(self.NoGpu())

    def refuse(self, config: RunConfig | None, reason: str, sentence: str) -> None:
        """Say why a start was refused: `reason` beside its field, or `sentence` where the rows hold something else than `config` by now."""
        self.form.refuse(reason if config == self.form.config else sentence)

    # -- editing ------------------------------------------------------------------------------------------------------

    def _edits(self, field: str) -> bool:
        return self.editing and self.field == field

    def _open_editor(self, text: str) -> None:
        if self.editing:
            return
        field = self.field
        self._before = self.form.text(field)
        suggester = None
        if field in PATHS:
            from tuitrain.tui.launch.completion import Paths  # not for the first frame

            suggester = Paths(PATHS[field])
        self._editor.open("" if text == "none" and field in _MAY_BE_NONE else text, self.form.wanted(field), suggester)
        self._place_editor()

    def _place_editor(self) -> None:
        """The field stays on its row, which is known when the form is drawn."""
        self.call_after_refresh(self._editor.place)

    def _editor_place(self) -> tuple[int, int, int]:
        long = self.field in LONG
        return CHOICE, 1 + (self.line_of(self.cursor) or 0), max(self.size.width - LABEL - 5, 8) if long else VALUE

    def _close_editor(self) -> None:
        if not self.editing:
            return
        if self.blank:
            self._take_back()
        self._editor.close()
        self.focus()
        self._changed()

    def action_leave(self) -> None:
        """Give the field its value from before."""
        if self.editing:
            field = self.field
            self.form.drop_draft(field)
            self.form.set_text(field, self._before)
            self._close_editor()

    def _take_back(self) -> None:
        """The field is empty: it keeps what it had, if that was right."""
        field = self.field
        self.form.drop_draft(field)
        if not self.form.set_text(field, self._before):
            self.form.drop_draft(field)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Check what is typed as it is typed."""
        event.stop()
        if self._editor.owns(event.input):
            field = self.field
            text = event.value
            if self.blank:
                self._take_back()
            else:
                self.form.set_text(field, "none" if field in _MAY_BE_NONE and not text.strip() else text)
            self._changed()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter keeps the text and starts."""
        event.stop()
        self._close_editor()
        self.post_message(self.Start())

    def _changed(self) -> None:
        data = self.form.config.data
        if data not in DATA and data != self._looked_behind:
            self.look_at_disk()
        self.redraw()
        self._place_editor()
        self.post_message(self.Changed())


def _keep(config: RunConfig) -> None:
    # Where the disk refuses, the next start offers what it offered before.
    with contextlib.suppress(OSError):
        last.keep(config)
