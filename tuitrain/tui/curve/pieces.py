"""A line of pieces of which the least important ones give way where there is no room."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tuitrain.tui.strips import PLAIN, Row


class Piece(msgspec.Struct, frozen=True):
    """A part of a line; of a great `rank` is left out first, of rank 0 never."""

    row: Row
    rank: int = 0


def kept(pieces: Sequence[Piece], width: int, gap: int) -> list[Piece]:
    """The pieces that fit into `width` cells with `gap` cells between them, the most important ones taken first."""
    room, taken = width + gap, set[int]()
    for index, piece in sorted(enumerate(pieces), key=lambda entry: entry[1].rank):
        if piece.rank == 0 or piece.row.width + gap <= room:
            taken.add(index)
            room -= piece.row.width + gap
    return [piece for index, piece in enumerate(pieces) if index in taken]


def joined(pieces: Sequence[Piece], separator: Row) -> Row:
    """The pieces as one row."""
    row = Row()
    for index, piece in enumerate(pieces):
        if index:
            row.join(separator)
        row.join(piece.row)
    return row


def spaced(pieces: Sequence[Piece]) -> Row:
    """The pieces with two spaces between them."""
    return joined(pieces, Row("  ", PLAIN))
