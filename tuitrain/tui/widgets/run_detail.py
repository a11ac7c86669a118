"""What the table of runs has no room for: everything that is known of the selected run at a glance, and its name and note to edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain import words
from tuitrain.device_names import in_words
from tuitrain.tui.browse.run_rows import RunRow, Sketch
from tuitrain.tui.look import state_look
from tuitrain.tui.strips import Row, fit
from tuitrain.tui.widgets.line_editor import LineEditor
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap

if TYPE_CHECKING:
    from textual.widgets import Input

Field = Literal["name", "note"]

ROWS = 9
"""Rows of the pane with its frame, at least: name, note, run, what it trains, when, and two for its state and a sentence or what was
changed."""
_OTHERS = 5
"""Lines over the state."""
_TALL = 30
_LABEL = 9
_SCALE = 9
_SKETCH_FROM = 136


def rows_in(height: int) -> int:
    """Rows of the pane on a screen of so many: on a tall one both the sentence and what was changed have their lines."""
    return ROWS + (height >= _TALL)


class RunDetail(Pane):
    """The selected run in words. Its name and note are edited in a field laid over their lines."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave")]

    class Edited(Message):
        """A name or note was typed for a run."""

        def __init__(self, run: RunRow, field: Field, text: str) -> None:
            super().__init__()
            self.run = run
            self.field = field
            self.text = text

    class Left(Message):
        """The editor was closed."""

    def __init__(self) -> None:
        super().__init__(id="run-detail")
        self.last = True
        self.sketch: Sketch | None = None
        """The selected run's loss; `None` until it is read."""
        self.changed = ""
        """In what the selected run differs from its recipe."""
        self._run: RunRow | None = None
        self._editor = LineEditor(self, self._editor_place)
        self._field: Field = "name"
        self._unkept: RunDetail.Edited | None = None

    @property
    def sketched(self) -> tuple[int, int]:
        """Cells and rows for the sketch; none where the words need the room."""
        inner = self.size.width - 4
        return (min(inner * 2 // 5, 80), self.body_height()) if inner >= _SKETCH_FROM else (0, 0)

    @property
    def editing(self) -> bool:
        """Whether a name or a note is being typed."""
        return self._editor.active

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc leaves the editor only while there is one."""
        return self.editing if action == "leave" else True

    def show(self, run: RunRow | None) -> None:
        """Show another run; while one is edited it stays."""
        if not self.editing:
            before, self._run = self._run, run
            if run is None or before is None or run.key != before.key:
                self.sketch, self.changed = None, ""
        self.redraw()

    def edit(self, field: Field) -> None:
        """Type another name or note; the one that could not be kept is there again."""
        if self._run is None or self.editing:
            return
        self._field = field
        text = self._run.summary.name if field == "name" else self._run.summary.note
        typed = self._unkept
        if typed is not None and (typed.run.key, typed.field) == (self._run.key, field):
            text, self._unkept = typed.text, None
        self._editor.open(text)

    def have_again(self, typed: Edited) -> None:
        """What was typed could not be kept: the next `edit` of it begins with that."""
        self._unkept = typed

    def action_leave(self) -> None:
        """Leave it as it was."""
        if self.editing:
            self._editor.close()
            self.post_message(self.Left())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep what was typed."""
        event.stop()
        if self._run is not None and self.editing:
            self.post_message(self.Edited(self._run, self._field, event.value))
        self.action_leave()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Nobody else needs to know yet."""
        event.stop()

    def on_resize(self, event: events.Resize) -> None:
        """The editor is as wide as its line."""
        self._editor.place()

    def _editor_place(self) -> tuple[int, int, int]:
        return 2 + _LABEL, 1 + (self._field == "note"), max(self.size.width - _LABEL - 4, 8)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """What the keys do with the run."""
        palette = self.palette
        if self.editing:
            empty = "empty: its first name · " if self._field == "name" else ""
            return Row(f"Another {self._field}", palette.title_focus), Row(f"{empty}Enter keeps it · Esc leaves it", palette.dim)
        left = Row("Selected", palette.title)
        return left, Row("e ", palette.key).add("name  ", palette.dim).add("a ", palette.key).add("note", palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """Labelled lines, and the curve beside them where there is room."""
        cells = self.sketched[0]
        if not cells or self.editing or self._run is None:
            return self._words(width, height)
        left = width - cells - _SCALE - 2
        words_ = self._words(left, height)
        words_ += [Strip.blank(left)] * (height - len(words_))
        return [Row.of(line).add("  ").join(self._sketch_line(index)).strip(width) for index, line in enumerate(words_)]

    def _sketch_line(self, index: int) -> Row:
        """One line of the curve behind its scale; its highest value stands at the top, its lowest at the bottom."""
        if self.sketch is None:
            return Row()
        lines = self.sketch.lines
        if index >= len(lines):
            return Row("no loss to draw" if not index else "", self.palette.dim)
        value = {0: self.sketch.high, len(lines) - 1: self.sketch.low}.get(index)
        label = "" if value is None else words.number(value)
        return Row().right(label, _SCALE - 1, self.palette.dim).add(" ").add(lines[index], self.palette.train)

    def _words(self, width: int, height: int) -> list[Strip]:
        """Labelled lines; the sentence of what went wrong takes two of them."""
        palette, run = self.palette, self._run
        if run is None:
            return [Row("no run is selected", palette.dim).strip(width)]
        kept = run.summary
        name = Row(kept.name, palette.strong) if kept.name else Row("none · e gives it one", palette.dim)
        note = Row(kept.note, palette.text) if kept.note else Row("none · a writes one", palette.dim)
        what = " · ".join(part for part in (kept.recipe, _data(kept.data), in_words(kept.device), kept.strategy) if part)
        when = Row(_when(kept.started), palette.text).add(self._where(run), palette.dim)
        if run.took is not None:
            when.add(" · took ", palette.dim).add(words.clock(run.took), palette.text)
        lines = [
            self._labelled("name", name, width),
            self._labelled("note", note, width),
            self._labelled("run", Row(kept.run, palette.text), width),
            self._labelled("trains", Row(what or words.NONE, palette.text), width),
            self._labelled("queued" if kept.queue else "started", when, width),
            *self._state(run, width, 2 if height > _OTHERS + 2 or not self.changed else 1),
            *([self._labelled("changed", Row(self.changed, palette.text), width)] if self.changed else []),
        ]
        return lines[:height]

    def _labelled(self, label: str, value: Row, width: int) -> Strip:
        return Row(f"{label:<{_LABEL}}", self.palette.dim).join(value).strip(width)

    def _where(self, run: RunRow) -> str:
        kept = run.summary
        if not kept.host:
            return ""
        return f" on {kept.host}, pid {kept.pid}" if kept.live else f" on {kept.host}"

    def _state(self, run: RunRow, width: int, most: int) -> list[Strip]:
        """The state, with what went wrong in as many as `most` lines, of two."""
        palette, kept = self.palette, run.summary
        glyph, style = state_look(run.state, palette)
        words_ = f"{glyph} {run.state_words}"
        reason = kept.error or kept.broken or _waits(run)
        if not reason and run.step:
            reason = f"epoch {kept.epoch}, step {run.step:,}"
            if run.stalled_seconds:
                reason += f", and no step for {words.lasting(run.stalled_seconds)}"
        room = width - _LABEL - len(words_) - 3
        first, *rest = wrap(reason, room) if reason else [""]
        if rest and most == 1:
            first, rest = fit(f"{first} {rest[0]}", room), []
        tone = palette.bad if kept.error or kept.broken else palette.dim
        line = Row(words_, style).add(f" · {first}" if first else "", tone)
        lines = [self._labelled("state", line, width)]
        if rest:
            again = wrap(" ".join(rest), width - _LABEL)
            lines.append(Row(" " * _LABEL).add(again[0] + ("…" if len(again) > 1 else ""), tone).strip(width))
        return lines


def _waits(run: RunRow) -> str:
    """What a run in the queue waits for."""
    queue = run.summary.queue
    return "R lets it wait again" if run.summary.left else queue.words if queue is not None else ""


def _data(data: str) -> str:
    return words.DATA_NAMES.get(data, data)


def _when(started: str) -> str:
    """An ISO time in UTC to the minute."""
    return f"{started[:16].replace('T', ' ')} UTC" if started else words.NONE
