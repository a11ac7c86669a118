"""The lines of the table of runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.style import Style
from textual.strip import Strip

from tuitrain import words
from tuitrain.device_names import in_words
from tuitrain.text import whole_parts
from tuitrain.tui.browse import run_rows
from tuitrain.tui.browse.run_list import RunList
from tuitrain.tui.browse.run_rows import RunRow
from tuitrain.tui.columns import Column
from tuitrain.tui.look import Palette, state_look
from tuitrain.tui.strips import Row, cell_width

GUTTER = 4
"""Cells for the cursor and the mark."""
_LEAST_OF_CHANGES = 6
"""Cells in which a part of them says something: "lr 0.1"."""


class RunLines:
    """Draws runs, and makes a line anew only where something of it changed: a key has to show at once."""

    def __init__(self) -> None:
        self._drawn: dict[str, tuple[object, Strip]] = {}

    def draw(
        self,
        runs: RunList,
        columns: Sequence[Column],
        width: int,
        curves: Mapping[str, str],
        changes: Mapping[str, tuple[str, ...]],
        palette: Palette,
        *,
        focus: bool,
    ) -> list[Strip]:
        """The runs in view.

        Args:
            curves: the small curves, by the keys of their runs.
            changes: in what runs differ from their recipes, by the same.
            focus: whether the keys go to the list.
        """
        now, lines = time.time(), []
        drawn: dict[str, tuple[object, Strip]] = {}
        for index, run in enumerate(runs.in_view, runs.top):
            age = words.age(None if (began := run.began) is None else max(now - began, 0.0))
            texts, changed = {"age": age, "curve": curves.get(run.key, "")}, changes.get(run.key, ())
            here, marked = index == runs.cursor, run.key in runs.marked
            made_of = (run, texts, changed, here, marked, focus, columns, width, palette)
            before = self._drawn.get(run.key)
            if before is not None and before[0] == made_of:
                line = before[1]
            else:
                line = _line(run, columns, texts, changed, palette, here=here, marked=marked).strip(width)
                line = line.apply_style(palette.track) if here and focus else line
            drawn[run.key] = (made_of, line)
            lines.append(line)
        self._drawn = drawn
        return lines


def _line(
    run: RunRow,
    columns: Sequence[Column],
    texts: Mapping[str, str],
    changes: Sequence[str],
    palette: Palette,
    *,
    here: bool,
    marked: bool,
) -> Row:
    row = Row("▸ " if here else "  ", palette.cursor).add("▣ " if marked else "▢ ", palette.accent if marked else palette.dim)
    for number, column in enumerate(columns):
        row.add(" " if number else "")
        if column.name == "name":
            _add_name(row, run, changes, column.width, palette, here=here)
            continue
        text, style = _cell(run, column, texts, palette)
        place = row.right if column.right else row.left
        place(text, column.width, style)
    return row


def _add_name(row: Row, run: RunRow, changes: Sequence[str], width: int, palette: Palette, *, here: bool) -> None:
    """What the run is called and, where there is room, in what it differs from its recipe: that tells runs without names apart."""
    named = bool(run.summary.name)
    style, end = palette.text if named else palette.dim, row.width + width
    if here:
        style += palette.strong
    if not changes or width - cell_width(run.title) <= _LEAST_OF_CHANGES:
        row.left(run.title, width, style)
        return
    row.add(f"{run.title} ", style)
    row.left(as_many_as_fit(changes, end - row.width), end - row.width, palette.dim if named else palette.text)


def as_many_as_fit(changes: Sequence[str], cells: int) -> str:
    """As many of them as have room whole: half a number is another one."""
    shown = changes[0]
    if cell_width(shown) <= cells:
        return whole_parts(changes, " · ", cells)
    *field, _ = shown.split(" ")
    while field and cell_width(shown := f"{' '.join(field)} …") > cells:
        field.pop()
    return shown


def _cell(run: RunRow, column: Column, texts: Mapping[str, str], palette: Palette) -> tuple[str, Style]:
    """The text and style of one column; `texts` has those that change by themselves."""
    kept = run.summary
    match column.name:
        case "state":
            glyph, style = state_look(run.state, palette)
            return f"{glyph} {run.short_state(column.width - 2)}", style
        case "step":
            return run_rows.steps(run.step), palette.text
        case "loss":
            return run_rows.loss(run.loss), palette.train
        case "accuracy":
            return run_rows.accuracy(run.accuracy), palette.text
        case "took":
            return run_rows.took(run.took), palette.text
        case "device":
            return in_words(kept.device, shortest_range=2), palette.dim
        case "id":
            return kept.run, palette.dim
        case "age" | "curve":
            return texts[column.name], palette.dim if column.name == "age" else palette.train
        case name:
            return getattr(kept, name), palette.dim
