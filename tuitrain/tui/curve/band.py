"""The raw points under a chart's lines: for each bin a stroke from its least to its greatest value.

plotext would draw the same as thousands of single dots, which takes longer than all the rest of a chart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import msgspec

from tuitrain.tui.curve.axes import Axis, cell, dots_in

_CLOSE = 3
"""Strokes so many dots apart look connected."""
_BITS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Of a braille cell's left and right dots, from the bottom up."""
_RUNS = [[[sum(bits[low : high + 1]) for high in range(4)] for low in range(4)] for bits in _BITS]
"""By side, lowest and highest dot of a run of them."""
_BRAILLE, _PLAIN = 0x2800, "."


class Stroke(msgspec.Struct, frozen=True):
    """Dots from `low` to `high`, counted from the bottom, in the dot column `x`."""

    x: int
    low: int
    high: int


def band_cells(
    band: Sequence[tuple[float, float, float]], steps: Axis, values: Axis, columns: int, rows: int, *, braille: bool
) -> dict[tuple[int, int], str]:
    """The characters of a band by (column, row from the bottom) of a canvas.

    Args:
        band: (step, least, greatest) by step; it is interrupted where a value is NaN.
        steps: the horizontal axis.
        values: the vertical one.
        columns: cells of the canvas.
        rows: cells of the canvas.
        braille: 2 by 4 dots in a cell, else one.
    """
    wide, high = dots_in(braille)
    placed = [
        None
        if math.isnan(least)
        else Stroke(
            cell(step, steps, columns * wide),
            cell(values.position(least), values, rows * high),
            cell(values.position(greatest), values, rows * high),
        )
        for step, least, greatest in band
    ]
    masks: dict[tuple[int, int], int] = {}
    for stroke in _connected(placed):
        if not 0 <= stroke.x < columns * wide:
            continue
        column, side = divmod(stroke.x, wide)
        first, bottom = divmod(max(stroke.low, 0), high)
        last, top = divmod(min(stroke.high, rows * high - 1), high)
        for row in range(first, last + 1):
            place, run = (column, row), _RUNS[side][bottom if row == first else 0][top if row == last else high - 1]
            masks[place] = masks.get(place, 0) | run
    return {place: chr(_BRAILLE + mask) if braille else _PLAIN for place, mask in masks.items()}


def _connected(strokes: Sequence[Stroke | None]) -> Iterator[Stroke]:
    """The strokes with others between those that stand far apart, and each long enough to reach the one before it."""
    before: Stroke | None = None
    for last, stroke in itertools.pairwise((None, *strokes)):
        between = _between(last, stroke) if last is not None and stroke is not None else ()
        for one in (*between, stroke):
            if one is not None and before is not None:
                one = Stroke(one.x, min(one.low, before.high + 1), max(one.high, before.low - 1))
            if one is not None:
                yield one
            before = one


def _between(start: Stroke, end: Stroke) -> Iterator[Stroke]:
    width = end.x - start.x
    for x in range(start.x + 1, end.x) if width > _CLOSE else ():
        share = (x - start.x) / width
        yield Stroke(x, round(start.low + share * (end.low - start.low)), round(start.high + share * (end.high - start.high)))
