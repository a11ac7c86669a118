"""Sentences broken into lines by cells, not by characters."""

from __future__ import annotations

from rich.cells import chop_cells

from tuitrain.tui.strips import cell_width, fit


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken at spaces where there are any; at least one line.

    The spaces that it begins with stay, half a line of them at most: what a library prints stands under each other by them.
    """
    if width < 2:
        return [""]
    lines: list[str] = []
    line = ""
    first, *others = text.lstrip(" ").split(" ")
    indent = " " * min(len(text) - len(text.lstrip(" ")), width // 2)
    for word in (indent + first, *others):
        if line and cell_width(line) + 1 + cell_width(word) <= width:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        pieces = chop_cells(word, width) or [""]
        lines += pieces[:-1]
        line = pieces[-1]
    return [*lines, line]


def wrap_into(text: str, width: int, most: int) -> list[str]:
    """The first `most` lines of `text`; the last of them ends with a sign where more would follow."""
    lines = wrap(text, width)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], fit(f"{lines[most - 1]} {lines[most]}", width).rstrip()]
