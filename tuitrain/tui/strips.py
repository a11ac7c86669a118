"""Building lines of styled text, and finding out which cells of a line changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tuitrain.text import clean

PLAIN = Style()
_REVERSED = Style(reverse=True)
_EIGHTHS = " ▏▎▍▌▋▊▉"
_BLOCKS = " ▁▂▃▄▅▆▇█"
# Beginning a run costs a cursor move of about 8 bytes, a change of colour about 20, and repeating an unchanged cell 1 to 3.
_SAME_STYLE_GAP = 6
_ANY_STYLE_GAP = 2
# What lines are made of: Latin, boxes, blocks and shapes, braille; each character has a cell of its own.
_NARROW = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02ff\u2500-\u25fc\u25ff\u2800-\u28ff…]*")
_JOINERS = re.compile("[\u200b-\u200d\u2060\ufe00-\ufe0f\ufeff\U0001f3fb-\U0001f3ff]")

Cell = tuple[str, "Style | None"]


class Row:
    """A line under construction. Text is taken as it is, without markup; control characters are replaced, wherever it comes from."""

    __slots__ = ("segments", "width")

    def __init__(self, text: str = "", style: Style = PLAIN) -> None:
        self.segments: list[Segment] = []
        self.width = 0
        self.add(text, style)

    @classmethod
    def of(cls, strip: Strip) -> Row:
        """A row that begins with a finished line."""
        row = cls()
        row.segments = list(strip)
        row.width = strip.cell_length
        return row

    def add(self, text: str, style: Style = PLAIN) -> Row:
        """Append text; returns the row, so that calls chain."""
        if text:
            text = apart(clean(text))
            self.segments.append(Segment(text, style))
            self.width += cell_width(text)
        return self

    def right(self, text: str, width: int, style: Style = PLAIN) -> Row:
        """Append text right-aligned in `width` cells."""
        return self.add(" " * (width - cell_width(apart(text))) + text, style)

    def left(self, text: str, width: int, style: Style = PLAIN) -> Row:
        """Append text in exactly `width` cells, cut with `…` where it is longer."""
        return self.add(fit(text, width), style)

    def join(self, other: Row) -> Row:
        """Append another row."""
        self.segments += other.segments
        self.width += other.width
        return self

    def pad_to(self, width: int) -> Row:
        """Spaces up to a column."""
        return self.add(" " * (width - self.width))

    def strip(self, width: int) -> Strip:
        """The finished line, exactly `width` cells; cut with `…` where it is longer."""
        if self.width <= width:
            return Strip([*self.segments, Segment(" " * (width - self.width), PLAIN)] if self.width < width else self.segments, width)
        if width <= 0:
            return Strip([], 0)
        kept = Strip(self.segments, self.width).crop(0, width - 1)
        last = self.segments[-1].style
        return Strip([*kept, Segment("…", last)], width).adjust_cell_length(width, PLAIN)


def apart(text: str) -> str:
    """`text` without what joins or varies characters: joined, they are as wide as each terminal likes."""
    return text if text.isascii() else _JOINERS.sub("", text)


def cell_width(text: str) -> int:
    """How many cells `text` takes; rich's own function would keep thousands of texts, and a clock alone gives a new one each second."""
    return len(text) if text.isascii() or _NARROW.fullmatch(text) else cell_len(text)


def fit(text: str, width: int) -> str:
    """`text` in exactly `width` cells; a longer one ends in `…`."""
    text = apart(text)
    if (cells := cell_width(text)) <= width:
        return text + " " * (width - cells)
    return set_cell_size(text, width - 1) + "…" if width > 0 else ""


def end_of(text: str, width: int) -> str:
    """The end of a text that is too long, as a path or a name whose beginning is what it shares with others."""
    if cell_len(text) <= width:
        return text
    first, room = len(text), width - 1
    while (room := room - cell_len(text[first - 1])) >= 0:
        first -= 1
    return f"…{text[first:]}"


def spread(left: Row, right: Row, width: int) -> Strip:
    """`left` and `right` at the two ends; the left one is cut where both do not fit."""
    room = width - right.width - 1
    if room < 1:
        return left.strip(width)
    return Strip([*left.strip(room), Segment(" ", PLAIN), *right.segments], width)


def bar(share: float | None, width: int, style: Style, track: Style, *, parts: Literal[2, 8] = 8) -> Row:
    """A meter `width` cells wide in `parts` of a cell, on the background of `track`. An unknown share is an empty one."""
    eighths = round(min(max(share or 0.0, 0.0), 1.0) * width * parts) * (8 // parts)
    full, part = divmod(eighths, 8)
    row = Row("█" * full + (_EIGHTHS[part] if part else ""), style + track)
    return row.add(" " * (width - row.width), track)


def rail(share: float, width: int, style: Style, track: Style) -> Row:
    """A progress line in halves of a cell."""
    halves = round(min(max(share, 0.0), 1.0) * width * 2)
    full, part = divmod(halves, 2)
    return Row("━" * full + ("╸" if part else ""), style).add("─" * (width - full - part), track)


def spark(values: list[float | None], width: int, top: float) -> str:
    """The newest `width` values as small columns under `top`; unknown ones are blanks."""
    shown = values[-width:]
    columns = [" " if value is None else _BLOCKS[min(max(int(value / top * 8), 0), 7) + 1] for value in shown]
    return " " * (width - len(shown)) + "".join(columns)


def stacked(eighths: Sequence[int], rows: int) -> list[str]:
    """Columns of blocks, each of so many eighths of a line, in `rows` lines from the top down."""
    return ["".join(_BLOCKS[min(max(full - 8 * row, 0), 8)] for full in eighths) for row in reversed(range(rows))]


def reversed_in(strip: Strip, columns: range) -> Strip:
    """`strip` with some of its columns in reverse video."""
    if not columns:
        return strip
    inside = strip.crop(columns.start, columns.stop)
    turned = [Segment(text, (style or PLAIN) + _REVERSED) for text, style, _ in inside]
    return patched(strip, columns.start, Strip(turned, inside.cell_length))


def patched(strip: Strip, start: int, patch: Strip) -> Strip:
    """`strip` with `patch` in the place of what it shows from cell `start` on."""
    return Strip.join([strip.crop(0, start), patch, strip.crop(start + patch.cell_length)])


def cells(strip: Strip) -> list[Cell]:
    """One entry for each cell; the second half of a wide character is an empty one."""
    found: list[Cell] = []
    for text, style, _ in strip:
        if _NARROW.fullmatch(text):
            found += [(char, style) for char in text]
            continue
        for char in text:
            width = cell_len(char)
            if width:
                found.append((char, style))
                found += [("", style)] * (width - 1)
            elif found:
                found[-1] = (found[-1][0] + char, found[-1][1])
    return found


def differing_runs(before: list[Cell], after: list[Cell]) -> list[tuple[int, int]]:
    """The cells [start, end) of `after` that have to be sent, near ones merged where that costs fewer bytes."""
    if before == after:
        return []
    known = len(before)
    runs: list[tuple[int, int]] = []
    start = end = -1
    for x, cell in enumerate(after):
        if x < known and before[x] == cell:
            continue
        if start >= 0 and x != end and not _cheaper_merged(after, end, x):
            runs.append((start, end))
            start = -1
        if start < 0:
            start = x
        end = x + 1
    if start >= 0:
        runs.append((start, end))
    return [_whole_characters(before, after, start, end) for start, end in runs]


def _cheaper_merged(after: list[Cell], end: int, start: int) -> bool:
    gap = start - end
    if gap <= _ANY_STYLE_GAP:
        return True
    style = after[end - 1][1]
    return gap <= _SAME_STYLE_GAP and all(cell[1] == style for cell in after[end : start + 1])


def _whole_characters(before: list[Cell], after: list[Cell], start: int, end: int) -> tuple[int, int]:
    """The run widened so that it cuts no wide character, old or new, in half."""
    for side in (before, after):
        while 0 < start < len(side) and not side[start][0]:
            start -= 1
        while end < len(side) and not side[end][0]:
            end += 1
    return start, end
