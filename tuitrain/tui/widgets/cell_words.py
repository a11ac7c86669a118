"""A cell of the confusion matrix in words."""

from __future__ import annotations

from rich.cells import cell_len
from textual.strip import Strip

from tuitrain.tui.browse.results import TAKEN_FOR, Cell, Results
from tuitrain.tui.look import Palette
from tuitrain.tui.widgets.strips import Row, fit

WORDS_ROWS = 2


def in_words(results: Results, cell: Cell, palette: Palette, width: int) -> list[Strip]:
    """What the cell means with its share of the class, and what there is to look at; `WORDS_ROWS` lines."""
    count, samples = results.count(cell), results.in_class(cell[0])
    part = f": {count:,} of {samples:,} ({count / samples * 100:.1f} %)" if samples else f": {count:,} of 0 (n/a)"
    verdict, room = results.verdict(cell), width - len(part)
    if cell_len(verdict) > room and cell[0] != cell[1]:
        verdict = TAKEN_FOR.join(both_names(results, cell, room - len(TAKEN_FOR)))
    first = Row(fit(verdict, min(cell_len(verdict), room)), palette.strong).add(part, palette.text)
    hint = _kept_in_words(len(results.chosen("all", cell)), count)
    return [first.strip(width), Row(hint, palette.dim).strip(width)]


def both_names(results: Results, cell: Cell, width: int) -> tuple[str, str]:
    """The names of the true and the predicted class; where they are too long for `width` cells, they are cut evenly."""
    truth, predicted = map(results.name, cell)
    left = min(cell_len(truth), max(width - cell_len(predicted), width // 2))
    return fit(truth, left), fit(predicted, min(cell_len(predicted), width - left))


def _kept_in_words(kept: int, count: int) -> str:
    """What there is to look at of a cell's `count` samples."""
    if not count:
        return "there is no such sample"
    if not kept:
        return "none of them was kept to look at"
    return f"Enter shows {kept:,} of them" if kept < count else "Enter shows all of them" if count > 1 else "Enter shows it"
