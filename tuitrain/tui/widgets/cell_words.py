"""A cell of the confusion matrix in words."""

from __future__ import annotations

from textual.strip import Strip

from tuitrain.tui.browse.results import Cell, Results
from tuitrain.tui.look import Palette
from tuitrain.tui.widgets.strips import Row

WORDS_ROWS = 2


def in_words(results: Results, cell: Cell, palette: Palette, width: int) -> list[Strip]:
    """What the cell means with its share of the class, and what there is to look at; `WORDS_ROWS` lines."""
    count, samples = results.count(cell), results.in_class(cell[0])
    part = f"{count / samples * 100:.1f} %" if samples else "n/a"
    first = Row(results.verdict(cell), palette.strong).add(f": {count:,} of {samples:,} ({part})", palette.text)
    hint = _kept_in_words(len(results.chosen("all", cell)), count)
    return [first.strip(width), Row(hint, palette.dim).strip(width)]


def _kept_in_words(kept: int, count: int) -> str:
    """What there is to look at of a cell's `count` samples."""
    if not count:
        return "there is no such sample"
    if not kept:
        return "none of them was kept to look at"
    return f"Enter shows {kept:,} of them" if kept < count else "Enter shows all of them" if count > 1 else "Enter shows it"
