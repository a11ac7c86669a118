"""The launcher's form as lines: a row for each field, what Enter will do, what else is offered, and the equal command line."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len
from textual.strip import Strip

from tuitrain.array_files import SUFFIX
from tuitrain.config import BUILT_IN_WORDS, RunConfig
from tuitrain.paths import WEIGHTS
from tuitrain.tui.launch.fetch import Fetch
from tuitrain.tui.launch.form import Form
from tuitrain.tui.launch.hints import Machine
from tuitrain.tui.launch.last import LastLaunch
from tuitrain.tui.launch.neighbours import Neighbours
from tuitrain.tui.launch.rows import FIELDS
from tuitrain.tui.launch.strategies import misfit_in_words
from tuitrain.tui.row_list import first_in_view
from tuitrain.tui.strips import Row, end_of
from tuitrain.tui.widgets import offers
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap

LABEL = 15
CHOICE = 3 + LABEL
"""The column of the pane in which a value begins, behind the border, the cursor's mark and the label: there a choice has its ‹."""
VALUE = 16
_SEE = "see the sentence below"
_LEAST_ROWS, _MOST_OF_WRONG = 5, 4
"""Rows that always show, and lines of what is wrong for which others make room."""
_BELOW = 6
"""Lines for what Enter will do and the equal command line, which further rows leave."""
LONG = ("recipe", "model", "data", "device", "name", "loss", "optimizer", "lr_schedule", "weights", "note", "on_end")
"""Fields whose values may be longer than their column."""
PATHS = {"data": (SUFFIX,), "weights": WEIGHTS}
"""Fields whose values may be paths, and how the names of the files end that suit them."""
_GROUPS_END_AFTER = ("data", "strategy", "batch_size", "precision", "name", "warmup_steps", "weights", "deterministic", "keep_checkpoints")
_MOVING = (("↑↓", "move"), ("space", "change"))
_ON_PATH = (("/", "a path"), ("space", "change"))
_ON_OWN = (("/", "your own"), ("space", "change"))
_EDITING = (("↑↓", "keeps it"), ("Esc", "undoes it"))
_EDITING_PATH = (("Tab", "completes it"), ("Esc", "undoes it"))


class FormPane(Pane):
    """The form and the row that the cursor is on.

    Args:
        config: what the form begins with.
        machine: says what devices there are.
        busy: says whether a run is in the way.
        fetch: downloads CIFAR-10.
        neighbours: the runs of other processes.
    """

    def __init__(
        self, config: RunConfig, *, machine: Callable[[], Machine], busy: Callable[[], bool], fetch: Fetch, neighbours: Neighbours
    ) -> None:
        super().__init__(id="launcher")
        self.form = Form(config)
        self.cursor = 0
        self._machine = machine
        self._busy = busy
        self._fetch = fetch
        self._neighbours = neighbours
        self._last_launch: LastLaunch | None = None
        self._apart = False
        self._rows_shown = range(len(FIELDS))

    @property
    def editing(self) -> bool:
        """Whether a text field has the keys, and letters are text."""
        return False

    @property
    def blank(self) -> bool:
        """Whether the field that has the keys is empty, and so changes nothing."""
        return False

    @property
    def offers_fetch(self) -> bool:
        """Whether `f` does something: begins the download where the form could train on it, or cancels it."""
        wanted = self.form.wants_cifar10 and not self.form.cifar10_on_disk
        return self._fetch.possible and (self._fetch.active or wanted)

    @property
    def waits_for_data(self) -> bool:
        """Whether a start would want what is still being downloaded."""
        return self._fetch.active and self.form.config.data == "cifar10"

    @property
    def last_launch(self) -> LastLaunch | None:
        """The last launch where it is another one than what the form shows."""
        kept = self._last_launch
        return None if kept is None or kept.config == self.form.config else kept

    def heading(self) -> tuple[Row, Row]:
        """The title, and how to move; while a field is edited, how to leave it."""
        if self.editing:
            (first, does), (second, also) = _EDITING_PATH if self.field in PATHS else _EDITING
        else:
            (first, does), (second, also) = _ON_PATH if self.field in PATHS else _ON_OWN if self.field in BUILT_IN_WORDS else _MOVING
        right = Row(f"{first} ", self.palette.key).add(f"{does}  ", self.palette.dim)
        left, shown, rows = Row("New run", self.title_style()), self._rows_shown, len(self.form.rows)
        if len(shown) < rows:
            left.add(f"  {shown.start + 1}–{shown.stop} of {rows}", self.palette.dim)
        return left, right.add(f"{second} ", self.palette.key).add(also, self.palette.dim)

    def content(self, width: int, height: int) -> list[Strip]:
        """The frame with the form; the row of the cursor is always in view."""
        room = height - 1 - int(self.last)
        self._rows_shown = self._window(room, len(self._wrong(max(width - 2 - 2 * self.PADDING, 1))))
        return super().content(width, height)

    def body(self, width: int, height: int) -> list[Strip]:
        """The rows, what Enter will do, what else is offered, and the equal command line."""
        machine = self._machine()
        wrong = self._wrong(width)
        room = height - len(self._rows_shown)
        words = [*wrong, *self._words(machine, width)]
        most, ready = max(room - len(words), 2), self.form.ready
        command = offers.command_lines(self.form.command(), width, most, self.palette, ready=ready, typing=self.editing)
        words = _first(words, max(room - len(command), 0), width)
        summary = self._summary(width)
        if len(summary) + len(words) + len(command) <= room:
            words = [*summary, *words]
        spare = room - len(words) - len(command)
        # Groups stand apart where that leaves room for the gaps around the sentences.
        self._apart = spare >= sum(map(self._ends_group, self._rows_shown)) + 2
        gap = [Strip.blank(width)]
        rows: list[Strip] = []
        for index in self._rows_shown:
            rows.append(self._row(index, machine, width))
            rows += gap * (self._apart and self._ends_group(index))
        return [*rows, *gap * (spare > 0), *words, *gap * (spare > 1), *command]

    def line_of(self, index: int) -> int | None:
        """The body line of a field's row; `None` where it does not show."""
        if index not in self._rows_shown:
            return None
        above = range(self._rows_shown.start, index)
        return len(above) + sum(map(self._ends_group, above)) * self._apart

    def _ends_group(self, index: int) -> bool:
        """Whether another group follows below a row that shows."""
        return index < self._rows_shown.stop - 1 and self.form.rows[index].name in _GROUPS_END_AFTER

    def _window(self, height: int, wrong: int) -> range:
        """The rows that show, among them that of the cursor: `wrong` lines of what is wrong have to be read first.

        While a field is edited as many show as if nothing were wrong, so that none moves under it.
        """
        rows = len(self.form.rows)
        most = min(rows, max(len(FIELDS), height - _BELOW))
        count = most if self.editing else min(max(height - 1 - min(wrong, _MOST_OF_WRONG), _LEAST_ROWS), most)
        start = first_in_view(self._rows_shown.start, self.cursor, count, rows)
        return range(start, start + count)

    @property
    def field(self) -> str:
        """The field of the row that the cursor is on."""
        return self.form.rows[self.cursor].name

    def _row(self, index: int, machine: Machine, width: int) -> Strip:
        palette, form, field = self.palette, self.form, self.form.rows[index]
        here = index == self.cursor and (self.has_focus or self.editing)
        error, hint = form.errors.get(field.name), form.hint(field.name, machine, fetching=self._fetch.active)
        row = Row("▸" if here else " ", palette.cursor).add(f"{field.label:<{LABEL}}", palette.strong if here else palette.dim)
        text, arrows = form.text(field.name) or "-", here and bool(form.options(field.name))
        style = palette.bad if error else palette.dim if hint.idle and not here else palette.strong if here else palette.text
        # What is wrong within a recipe's file is no value of this row.
        note = hint.text if not error else _SEE if field.name == "recipe" else _allowed(error)
        mark = "✗ " if error else "! " if hint.bad else ""
        needs, room = cell_len(text) + 4 * arrows, width - row.width - 1
        # What stands beside a short value may begin earlier than in other rows, so that nothing of it is cut, but not below its editor.
        least = VALUE if here and self.editing else min(needs, VALUE)
        if error and cell_len(mark + note) > room - least:
            note = _SEE
        cells = min(max(needs, VALUE) if field.name in LONG else VALUE, max(room - cell_len(mark + note), least))
        if field.name in PATHS:
            text = end_of(text, cells - 4 * arrows)
        row.left(f"‹ {text} ›" if arrows else text, cells, style).add(" ")
        return row.add(mark + note, palette.bad if error else palette.warn if hint.bad else palette.dim).strip(width)

    def _summary(self, width: int) -> list[Strip]:
        if self._busy() or self.form.errors or not self.form.ready:
            return []
        return [Row(line, self.palette.dim).strip(width) for line in wrap(self.form.summary(), width)]

    def _wrong(self, width: int) -> list[Strip]:
        # Where there is no room for all, the one that a person can mend now is seen.
        errors = sorted(self.form.errors.items(), key=lambda error: error[0] != self.field)
        sentences = [f"✗ {field}: {error}" if field else f"✗ {error}" for field, error in errors]
        return [Row(line, self.palette.bad).strip(width) for sentence in sentences for line in wrap(sentence, width)]

    def _words(self, machine: Machine, width: int) -> list[Strip]:
        palette, form, fetch = self.palette, self.form, self._fetch
        lines = self._about_edited(machine, width)
        if form.ready and (misfit := misfit_in_words(form.config.strategy, machine.takes(form.config))):
            lines += [Row(line, palette.warn).strip(width) for line in wrap(f"Enter cannot train this: {misfit}", width)]
        elif form.ready:
            data = "CIFAR-10, when it has come" if self.waits_for_data else form.data_words()
            # Beside the app's own run Enter asks, as b does.
            background, beside = (" in the background", "") if self._busy() else ("", self._neighbours.words(machine.takes(form.config)))
            sentence = f"Enter trains {form.config.title()}{background} on {machine.words(form.config)}{beside} with {data}"
            lines += [Row(line, palette.good).strip(width) for line in wrap(sentence, width)]
        if self._busy():
            row = Row("a run is training: ", palette.warn).add("t ", palette.key).add("shows it, ", palette.text)
            lines.append(row.add("x ", palette.key).add("there stops it", palette.text).strip(width))
        if fetch.active:
            lines.append(offers.fetch_progress(fetch, palette, typing=self.editing).strip(width))
        elif self.offers_fetch:
            lines.append(offers.fetch_offer(palette, typing=self.editing).strip(width))
        if self.last_launch is not None:
            lines.append(offers.last_offer(self.last_launch, palette, width, typing=self.editing).strip(width))
        return lines

    def _about_edited(self, machine: Machine, width: int) -> list[Strip]:
        """The hint of a row whose editor lies over it."""
        field = self.field
        if not (self.editing and field in ("data", "device")) or field in self.form.errors:
            return []
        if self.blank:
            return [Row(f"{field}: stays {self.form.text(field)} as long as nothing is typed", self.palette.dim).strip(width)]
        hint = self.form.hint(field, machine, fetching=self._fetch.active)
        style = self.palette.warn if hint.bad else self.palette.dim
        return [Row(f"{'! ' if hint.bad else ''}{field}: {hint.text}", style).strip(width)] if hint.text else []


def _first(lines: list[Strip], most: int, width: int) -> list[Strip]:
    """As many lines as there is room for; a sign says that there are more."""
    if len(lines) <= most or not most:
        return lines[:most]
    last = Row.of(lines[most - 1].crop(0, width - 2)).add(" …")
    return [*lines[: most - 1], last.strip(width)]


def _allowed(error: str) -> str:
    """What a sentence says is allowed, or all of it."""
    return error.rpartition("it must be ")[2].rstrip(".")
