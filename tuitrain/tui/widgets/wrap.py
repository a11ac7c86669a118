"""Sentences broken into lines by cells, not by characters."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken at spaces where there are any; at least one line."""
    if width < 2:
        return [""]
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        if line and cell_len(line) + 1 + cell_len(word) <= width:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        pieces = chop_cells(word, width) or [""]
        lines += pieces[:-1]
        line = pieces[-1]
    return [*lines, line]
