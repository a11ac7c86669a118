"""The columns of a table, and their headings."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tuitrain.tui.look import Palette
from tuitrain.tui.strips import Row


class Column(msgspec.Struct, frozen=True):
    """What a column shows, its heading, its cells, and whether its text stands to the right."""

    name: str
    title: str
    width: int
    right: bool = False


def titles(columns: Sequence[Column], gutter: int, palette: Palette, *, sort: str | None = None) -> Row:
    """The headings behind `gutter` blank cells, a cell between each two; that of the column `sort` stands out."""
    row = Row(" " * gutter)
    for number, column in enumerate(columns):
        row.add(" " if number else "")
        place = row.right if column.right else row.left
        place(column.title, column.width, palette.text if column.name == sort else palette.dim)
    return row
