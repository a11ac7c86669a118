"""What is laid over a finished chart: marks of the epochs on its axis, and the cursor's line."""

from __future__ import annotations

import math

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tuitrain.tui.curve.axes import Axis, cell, next_round
from tuitrain.tui.curve.chart import Picture
from tuitrain.tui.strips import patched

EPOCH_MARK = "┿"
_CURSOR, _POINTER = "┊", "▲"


def epoch_columns(steps: Axis, columns: int, steps_per_epoch: int) -> list[int]:
    """The canvas columns in which epochs end; only each 2nd, 5th, 10th ... where all would fill more than a quarter of the columns."""
    if steps_per_epoch < 1:
        return []
    first, last = math.floor(steps.low / steps_per_epoch) + 1, math.floor(steps.high / steps_per_epoch)
    every = 1
    while (last - first + 1) // every > columns // 4:
        every = next_round(every)
    first = -(-first // every) * every
    return [cell(epoch * steps_per_epoch, steps, columns) for epoch in range(first, last + 1, every)]


def with_epochs(picture: Picture, columns: list[int], style: Style) -> Picture:
    """The chart with marks on the line of its horizontal axis."""
    if not columns or len(picture.lines) <= picture.rows:
        return picture
    line = picture.lines[picture.rows]
    for column in columns:
        line = _put(line, picture.left + column, EPOCH_MARK, style)
    return msgspec.structs.replace(picture, lines=[*picture.lines[: picture.rows], line, *picture.lines[picture.rows + 1 :]])


def with_cursor(picture: Picture, column: int, line_style: Style, pointer_style: Style) -> list[Strip]:
    """The chart's lines with a vertical line through the blank cells of a canvas column, and a pointer on the axis below."""
    if not 0 <= column < picture.columns:
        return picture.lines
    x = picture.left + column
    lines = [_put(line, x, _CURSOR, line_style) if line.crop(x, x + 1).text == " " else line for line in picture.lines[: picture.rows]]
    below = picture.lines[picture.rows :]
    return [*lines, *(_put(line, x, _POINTER, pointer_style) for line in below[:1]), *below[1:]]


def _put(line: Strip, x: int, text: str, style: Style) -> Strip:
    return patched(line, x, Strip([Segment(text, style)], 1))
