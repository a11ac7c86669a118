"""Long lines of a script broken into rows, so that nothing of it is out of sight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.cells import cell_len

from tuitrain.tui.code.colours import Piece

_HANGING = 4


class CodeRow(msgspec.Struct, frozen=True):
    """A row on the screen: a line of the script (from 0), or what of it did not fit before; `indent` blanks stand before a continuation."""

    line: int
    first: bool
    indent: int
    pieces: tuple[Piece, ...]


def rows_of(lines: Sequence[tuple[Piece, ...]], width: int) -> list[CodeRow]:
    """Every line in rows of at most `width` cells."""
    return [row for number, line in enumerate(lines) for row in _broken(number, line, max(width, 8))]


def _broken(number: int, line: tuple[Piece, ...], width: int) -> Iterator[CodeRow]:
    text = "".join(piece.text for piece in line)
    if cell_len(text) <= width:
        yield CodeRow(number, True, 0, line)
        return
    indent = min(len(text) - len(text.lstrip(" ")) + _HANGING, width // 2)
    start, before = 0, 0
    while start < len(text):
        end = _end_of_row(text, start, width - before)
        yield CodeRow(number, not start, before, _between(line, start, end))
        start, before = end, indent


def _end_of_row(text: str, start: int, width: int) -> int:
    """Where a row that begins at `start` ends: behind the last blank that fits, or where the room ends."""
    end, room = start, width
    while end < len(text) and (cells := cell_len(text[end])) <= room:
        end, room = end + 1, room - cells
    if end == len(text):
        return end
    blank = text.rfind(" ", start, end)
    return blank + 1 if blank > start and text[start:blank].strip() else max(end, start + 1)


def _between(line: tuple[Piece, ...], start: int, end: int) -> tuple[Piece, ...]:
    found, at = [], 0
    for piece in line:
        part = piece.text[max(start - at, 0) : max(end - at, 0)]
        if part:
            found.append(Piece(part, piece.shade))
        at += len(piece.text)
    return tuple(found)
