"""What an opened run was made with and what it has kept: its settings, its environment, its checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.strip import Strip

from tuitrain import words
from tuitrain.config import FIELDS, written
from tuitrain.runs.settings import changed, left_open, settings_of
from tuitrain.text import clean
from tuitrain.tui.browse.opened_run import KeptCheckpoint, OpenedRun
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.scrolling import ScrollingView
from tuitrain.tui.wrap import wrap

if TYPE_CHECKING:
    from tuitrain.config import RunConfig

_LABEL, _STEP = 26, 6
_NO_CHECKPOINT = "no checkpoint has been written yet"
_NEVER_ONE = "no checkpoint was written"
_NO_CHECKPOINT_LEFT = "no checkpoint is left in the folder"


class _Facts(Pane):
    """A pane that draws facts of an opened run."""

    def __init__(self, run: OpenedRun, *, id: str) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.run = run

    def settings(self, width: int) -> list[Strip]:
        """What differs from the recipe, what that leaves open, then the rest, then the environment."""
        record = self.run.record
        if record is None:
            return []
        config = record.config
        settings = settings_of(config)
        differing, open_ = changed(settings), left_open(settings)
        same = [field for field in FIELDS if field not in (*differing, *open_)]
        groups = (("Changed from", differing), ("Left open by", open_), ("As in", same))
        lines: list[Strip] = []
        for title, fields in groups:
            if fields:
                lines += [self.title(f"{title} {config.recipe}", width), *self._fields(config, fields, width, strong=fields is not same)]
        if self.run.environment:
            lines.append(self.title("Environment", width))
            for name, value in self.run.environment.items():
                lines += self.fact(clean(str(name)), clean(str(value)), width)
        return lines

    def title(self, text: str, width: int) -> Strip:
        """A heading within the pane."""
        return Row(text, self.palette.dim).strip(width)

    def fact(self, label: str, value: str, width: int, *, strong: bool = False) -> list[Strip]:
        """A label and a value, wrapped under itself."""
        palette = self.palette
        column = min(_LABEL, width // 2)
        lines = []
        for index, piece in enumerate(wrap(value, width - column - 2)):
            row = Row("  ").left("" if index else label, column, palette.strong if strong else palette.text)
            lines.append(row.add(piece, palette.strong if strong else palette.text).strip(width))
        return lines

    def checkpoints(self, width: int) -> list[Strip]:
        """A line for each checkpoint, the newest first; the path where there is room for it."""
        kept = self.run.checkpoints
        if not kept:
            record = self.run.record
            written = record is not None and record.checkpoint is not None
            sentence = _NO_CHECKPOINT_LEFT if written else _NEVER_ONE if self.run.ended else _NO_CHECKPOINT
            return [Row(sentence, self.palette.dim).strip(width)]
        now, digits = time.time(), max(_STEP, *(len(f"{one.step:,}") for one in kept))
        return [self._checkpoint(one, now, digits, width) for one in reversed(kept)]

    def first_of(self, lines: list[Strip], width: int, height: int) -> list[Strip]:
        """As many lines as fit; the others are counted."""
        if len(lines) <= height:
            return lines
        return [*lines[: height - 1], Row(f"{len(lines) - height + 1} more", self.palette.dim).strip(width)]

    def _checkpoint(self, one: KeptCheckpoint, now: float, digits: int, width: int) -> Strip:
        palette = self.palette
        row = Row("step ", palette.dim).right(f"{one.step:,}", digits, palette.strong)
        row.add("  ").left(one.kind, 7, palette.good if one.kind == "best" else palette.text)
        row.right(words.size(one.size), 9, palette.text).right(words.age(max(now - one.written, 0.0)), 8, palette.dim)
        if row.width + 2 + len(one.path) <= width:
            row.add("  ").add(one.path, palette.dim)
        return row.strip(width)

    def _fields(self, config: RunConfig, fields: Iterable[str], width: int, *, strong: bool) -> list[Strip]:
        return [
            line for field in fields for line in self.fact(field.replace("_", " "), _value(getattr(config, field)), width, strong=strong)
        ]


class SettingsPane(_Facts):
    """The settings that fit, those that differ from the recipe first."""

    def __init__(self, run: OpenedRun) -> None:
        super().__init__(run, id="settings")
        self._told: tuple[object, ...] = ()

    def redraw(self) -> None:
        """A run that is followed is read every second, and its settings stay what they were."""
        record = self.run.record
        config = None if record is None else record.config
        telling = (config, self.run.environment, self.size, self.first, self.last)
        if telling != self._told:
            self._told = telling
            super().redraw()

    def heading(self) -> tuple[Row, Row]:
        """The title, and the key to more."""
        return Row("Settings", self.palette.title), Row("s ", self.palette.key).add("all of it", self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The first lines."""
        return self.first_of(self.settings(width), width, height)


class CheckpointsPane(_Facts):
    """The newest checkpoints."""

    def __init__(self, run: OpenedRun) -> None:
        super().__init__(run, id="checkpoints")
        self._rows = 1

    def rows_wanted(self) -> int:
        """Lines for all of them, and as many as there ever were: they are fewer whenever the best one is among the newest, and what stands
        around them would jump."""
        self._rows = max(self._rows, len(self.run.checkpoints))
        return self._rows

    def heading(self) -> tuple[Row, Row]:
        """The title, and the size of all."""
        total = sum(one.size for one in self.run.checkpoints)
        return Row("Checkpoints", self.palette.title), Row(words.size(total) if total else "", self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """A line each."""
        return self.first_of(self.checkpoints(width), width, height)


class FactsView(_Facts, ScrollingView, can_focus=True):
    """Everything, to scroll through."""

    def __init__(self, run: OpenedRun) -> None:
        super().__init__(run, id="facts")
        self.first = self.last = True
        self._facts: list[Strip] = []

    def line_count(self) -> int:
        """Lines at the width that the pane has."""
        return len(self._facts)

    def heading(self) -> tuple[Row, Row]:
        """The title, and how much lies below."""
        self._facts = self._everything(max(self.size.width - 4, 1))
        self.stay_inside()
        left = Row("Settings and checkpoints", self.title_style())
        return left, self.more_below(len(self._facts) - self._top - self.body_height())

    def body(self, width: int, height: int) -> list[Strip]:
        """The lines in view."""
        return self._facts[self._top : self._top + height]

    def _everything(self, width: int) -> list[Strip]:
        indented = [Row("  ").join(Row.of(line)).strip(width) for line in self.checkpoints(width - 2)]
        folder = self.fact("folder", clean(str(self.run.path)), width)
        return [self.title("Checkpoints", width), *indented, *folder, *self.settings(width)]


def _value(value: object) -> str:
    """A field's value as a person types it."""
    return clean(written(value)) or "-"
