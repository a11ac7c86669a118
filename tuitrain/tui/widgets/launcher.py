"""The launcher: a filled-in form that Enter starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.config import RunConfig
from tuitrain.tui.form import CIFAR10_DOWNLOAD, FIELDS, FOLDER, Form
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row
from tuitrain.tui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.widgets import Input

_LABEL = 15
_VALUE = 16
_LONG = ("data", "name")
_GROUPS_END_AFTER = ("data", "batch_size", "precision")
_NUMERIC = ("epochs", "max_steps", "batch_size", "lr", "seed")


class Launcher(Pane, can_focus=True):
    """One row for each field. A text field is edited in Textual's `Input`, laid over its value for as long as that takes.

    Args:
        config: what the form begins with.
        device: says which device a start would take.
        busy: says whether a run is in the way.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("tab", "next_field", "Next", show=False),
        Binding("shift+tab", "previous_field", "Previous", show=False),
        Binding("left", "cycle(-1)", "Change", show=False),
        Binding("right", "cycle(1)", "Change", show=False),
        Binding("space", "open", "Change", show=True),
        Binding("escape", "leave", "Back", show=True),
    ]

    class Changed(Message):
        """A field has another value."""

    class Start(Message):
        """Enter was pressed while a field was edited, and its text is allowed."""

    def __init__(self, config: RunConfig, *, device: Callable[[], str], busy: Callable[[], bool]) -> None:
        super().__init__(id="launcher")
        self.form = Form(config)
        self.cursor = 0
        self._device = device
        self._busy = busy
        self._editor: Input | None = None
        self._before = ""
        self._apart = False

    @property
    def editing(self) -> bool:
        """Whether a text field has the keys."""
        return self._editor is not None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc has something to leave only while a field is edited; space is a letter then."""
        if action == "leave":
            return self.editing
        return not self.editing if action in ("open", "cycle") else True

    # -- moving and choosing ------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Go to another row; what was edited is kept."""
        self._close_editor()
        self.cursor = min(max(self.cursor + by, 0), len(FIELDS) - 1)
        self.redraw()

    def action_next_field(self) -> None:
        """The next row, and after the last one the next pane."""
        if self.cursor == len(FIELDS) - 1:
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
        field = FIELDS[self.cursor].name
        if not self.form.options(field):
            return
        option = self.form.cycle(field, by)
        if option == FOLDER:
            self._open_editor("")
            return
        self.form.set_text(field, option)
        self._changed()

    def action_open(self) -> None:
        """Change the row: the next choice, or an editor."""
        field = FIELDS[self.cursor].name
        if self.form.options(field):
            self.action_cycle(1)
        else:
            self._open_editor(self.form.text(field))

    def use(self, field: str, value: str) -> None:
        """Set a field from outside of the form."""
        self.form.set_text(field, value)
        self._changed()

    def on_key(self, event: events.Key) -> None:
        """A digit on a row of numbers begins to type it."""
        if not self.editing and event.character and event.character.isdecimal() and FIELDS[self.cursor].name in _NUMERIC:
            event.stop()
            self._open_editor(event.character)

    # -- editing ------------------------------------------------------------------------------------------------------

    def _open_editor(self, text: str) -> None:
        from textual.widgets import Input  # 20 ms that the first frame does not need

        if self._editor is not None:
            return
        field = FIELDS[self.cursor].name
        self._before = self.form.text(field)
        if field == "name" or text == "none":
            text = "" if text == "none" else text
        editor = Input(text, compact=True, select_on_focus=False, id="editor")
        editor.styles.offset = (3 + _LABEL, 1 + self._line_of(self.cursor))
        editor.styles.width = max(self.size.width - _LABEL - 6, 8) if field in _LONG else _VALUE
        self._editor = editor
        self.mount(editor)
        editor.focus()
        editor.cursor_position = len(text)
        self.refresh_bindings()
        self.redraw()

    def _close_editor(self) -> None:
        editor, self._editor = self._editor, None
        if editor is None:
            return
        if FIELDS[self.cursor].name == "data" and not editor.value.strip():
            self.form.set_text("data", self._before)
        editor.remove()
        self.focus()
        self.refresh_bindings()
        self._changed()

    def action_leave(self) -> None:
        """Give the field its value from before."""
        if self._editor is not None:
            field = FIELDS[self.cursor].name
            self.form.drop_draft(field)
            self.form.set_text(field, self._before)
            self._close_editor()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Check what is typed as it is typed."""
        event.stop()
        if self._editor is not None:
            field = FIELDS[self.cursor].name
            text = event.value
            self.form.set_text(field, "none" if field == "max_steps" and not text.strip() else text)
            self._changed()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter keeps the text and starts."""
        event.stop()
        self._close_editor()
        self.post_message(self.Start())

    def _changed(self) -> None:
        self.redraw()
        self.post_message(self.Changed())

    # -- drawing ------------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """The title, and how to move."""
        right = Row("↑↓ ", self.palette.key).add("move  ", self.palette.dim)
        return Row("New run", self.title_style()), right.add("space ", self.palette.key).add("change", self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The rows, what Enter will do, and the equal command line."""
        words, command = self._words(width), self._command(width)
        gap = [Strip.blank(width)]
        spare = height - len(FIELDS) - len(words) - len(command)
        # Groups stand apart where that leaves room for the gaps around the sentences.
        self._apart = spare >= len(_GROUPS_END_AFTER) + 2
        rows: list[Strip] = []
        for index, field in enumerate(FIELDS):
            rows.append(self._row(index, width))
            rows += gap * (self._apart and field.name in _GROUPS_END_AFTER)
        return [*rows, *gap * (spare > 0), *words, *gap * (spare > 1), *command]

    def _line_of(self, index: int) -> int:
        """The body line of a field's row."""
        return index + sum(field.name in _GROUPS_END_AFTER for field in FIELDS[:index]) * self._apart

    def _row(self, index: int, width: int) -> Strip:
        palette, form, field = self.palette, self.form, FIELDS[index]
        here = index == self.cursor and (self.has_focus or self.editing)
        row = Row("▸" if here else " ", palette.cursor).add(f"{field.label:<{_LABEL}}", palette.strong if here else palette.dim)
        text = form.text(field.name) or "-"
        if here and form.options(field.name):
            text = f"‹ {text} ›"
        error = form.errors.get(field.name)
        row.left(text, _VALUE, palette.bad if error else palette.strong if here else palette.text).add(" ")
        if error:
            # The row has room for what is allowed; the whole sentence stands below the form.
            return row.add("✗ ", palette.bad).add(error.rpartition("it must be ")[2].rstrip("."), palette.bad).strip(width)
        return row.add(form.hint(field), palette.dim).strip(width)

    def _words(self, width: int) -> list[Strip]:
        palette, form = self.palette, self.form
        if self._busy():
            row = Row("a run is training: ", palette.warn).add("t ", palette.key).add("shows it, ", palette.text)
            return [row.add("x ", palette.key).add("there stops it", palette.text).strip(width)]
        wrong = [f"✗ {field}: {error}" if field else f"✗ {error}" for field, error in form.errors.items()]
        lines = [Row(line, palette.bad).strip(width) for sentence in wrong for line in wrap(sentence, width)]
        if not form.ready:
            return lines
        if not wrong:
            lines = [Row(line, palette.dim).strip(width) for line in wrap(form.summary(), width)]
        sentence = f"Enter trains {form.config.title()} on {self._device()} with {form.data_words()}"
        lines += [Row(line, palette.good).strip(width) for line in wrap(sentence, width)]
        if form.offers_download:
            lines.append(Row("f ", palette.key).add(f"uses CIFAR-10 ({CIFAR10_DOWNLOAD})", palette.text).strip(width))
        return lines

    def _command(self, width: int) -> list[Strip]:
        palette = self.palette
        pieces = wrap(self.form.command(), max(width - 4, 10))
        lines = [
            Row("$ " if not index else "  ", palette.dim).add(piece, palette.primary if self.form.ready else palette.dim)
            for index, piece in enumerate(pieces)
        ]
        lines[-1].add("  y ", palette.key).add("copies", palette.dim)
        return [line.strip(width) for line in lines]
