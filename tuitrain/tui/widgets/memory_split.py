"""The memory split as a bar in parts, and as words."""

from __future__ import annotations

from rich.style import Style

from tuitrain import words
from tuitrain.devices.split import MemorySplit
from tuitrain.tui.look import Palette
from tuitrain.tui.strips import Row

_Part = tuple[str, int, str, Style]
"""What it is, its bytes, its glyph in the bar, its style."""


def split_bar(split: MemorySplit, total: int, width: int, palette: Palette) -> Row:
    """A meter `width` cells wide: tensors, torch's cache, the CUDA context and what is not ours, each in its own shade."""
    row, end = Row(), 0
    for _, size, glyph, style in _parts(split, palette):
        end += size
        row.add(glyph * (round(min(end / max(total, 1), 1.0) * width) - row.width), style + palette.track)
    return row.add(" " * (width - row.width), palette.track)


def split_words(split: MemorySplit, width: int, palette: Palette) -> list[Row]:
    """The parts in GiB, in as many lines of at most `width` cells as they need; the unit stands behind the last one."""
    parts = [part for part in _parts(split, palette) if part[1] or part[0] != "unseen"]
    lines: list[Row] = []
    for name, size, _, style in parts:
        about = "≈" if name == "context" and split.estimated else ""
        part = Row(name, style).add(f" {about}{words.gib_in_few(size)}{' GiB' if name == parts[-1][0] else ''}", palette.text)
        if lines and lines[-1].width + 3 + part.width <= width:
            lines[-1].add(" · ", palette.dim).join(part)
        else:
            lines.append(part)
    return lines


def split_facts(split: MemorySplit) -> list[tuple[str, str]]:
    """A label and a size for each part, for the card's detail."""
    facts = [("tensors", words.size(split.tensors)), ("torch's cache", words.size(split.cache))]
    if split.context is None:
        facts.append(("others, CUDA context", words.size(split.others)))
    else:
        about = ", estimated" if split.estimated else ""
        facts += [("CUDA context", f"{words.size(split.context)}{about}"), ("other processes", words.size(split.others))]
    if split.unseen:
        facts.append(("unseen", words.size(split.unseen)))
    return facts


def _parts(split: MemorySplit, palette: Palette) -> list[_Part]:
    known = split.context is not None
    return [
        ("tensors", split.tensors, "█", palette.primary),
        ("cache", split.cache, "▓", palette.good),
        *([("context", split.context or 0, "▒", palette.accent)] if known else []),
        ("others" if known else "context and others", split.others, "█", palette.dim),
        ("unseen", split.unseen, "░", palette.dim),
    ]
