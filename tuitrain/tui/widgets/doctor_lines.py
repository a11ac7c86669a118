"""The doctor's report as lines: the conclusion, the ladder of counts, a line for each check, and all that is known of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from tuitrain.text import clean, plural
from tuitrain.tui.look import Palette
from tuitrain.tui.strips import Row
from tuitrain.tui.wrap import wrap

if TYPE_CHECKING:
    from tuitrain.devices.doctor.model import Check, Count, Report, Verdict

_GLYPHS = {"ok": "✓", "warning": "!", "problem": "✗"}
_LABEL = 11
_MOST_DOTS = 16
_MOST_TITLE = 34


def verdict_look(verdict: Verdict, palette: Palette) -> tuple[str, Style]:
    """The glyph and the style of a verdict's word."""
    return _GLYPHS[verdict], {"ok": palette.good, "warning": palette.warn, "problem": palette.bad}[verdict]


def worst_first(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Problems, warnings, and what is in order, each in the doctor's order."""
    order = {"problem": 0, "warning": 1, "ok": 2}
    return tuple(sorted(checks, key=lambda check: order[check.verdict]))


def summary(checks: Sequence[Check]) -> str:
    """How many there are of each verdict: "1 problem · 2 warnings · 14 ok"."""
    counts = {verdict: sum(check.verdict == verdict for check in checks) for verdict in ("problem", "warning", "ok")}
    words = [f"{count} {verdict if verdict == 'ok' else plural(verdict, count)}" for verdict, count in counts.items() if count]
    return " · ".join(words)


def conclusion(report: Report, width: int, palette: Palette) -> list[Strip]:
    """The sentence, behind the glyph of the worst verdict."""
    glyph, style = verdict_look(report.verdict, palette)
    lines = []
    for place, piece in enumerate(_pieces(report.conclusion, width - 2)):
        lines.append(Row(f"{glyph} " if place == 0 else "  ", style).add(piece, palette.strong).strip(width))
    return lines


def ladder(report: Report, width: int, palette: Palette) -> list[Strip]:
    """A line for each step of the counting, with a dot for each GPU; a step that has fewer than the one before it says so."""
    counts = report.counts
    names = max((cell_len(count.step) for count in counts), default=0)
    most = max((count.count or 0 for count in counts), default=0)
    digits = max(len(str(most)), 3)
    dots = most if most <= _MOST_DOTS else 0
    lines, before = [], None
    for count in counts:
        lost = max(before - count.count, 0) if before is not None and count.count is not None else 0
        before = before if count.count is None else count.count
        row = _rung(count, lost, names, digits, dots, most, report, palette)
        lines += _with_note(row, count.note, width, palette)
    return lines


def _rung(count: Count, lost: int, names: int, digits: int, dots: int, most: int, report: Report, palette: Palette) -> Row:
    loud = palette.bad if report.verdict == "problem" else palette.warn if report.verdict == "warning" else palette.dim
    row = Row("  ").left(count.step, names, palette.strong if lost else palette.text)
    shown = "n/a" if count.count is None else str(count.count)
    row.add("  ").right(shown, digits, loud if lost else palette.strong if count.count is not None else palette.dim)
    if dots:
        here = count.count or 0
        row.add("  ").add("●" * here, palette.good if here == most else palette.accent).add("○" * (dots - here), palette.dim)
    if lost:
        row.add(f"  ← {lost} {'lost here' if report.verdict == 'problem' else 'fewer'}", loud)
    return row


def _with_note(row: Row, note: str, width: int, palette: Palette) -> list[Strip]:
    """The note behind the row where it fits there, else under it."""
    if not note or row.width + 2 + cell_len(clean(note)) <= width:
        return [(row.add("  ").add(note, palette.dim) if note else row).strip(width)]
    return [row.strip(width), *(Row("      ").add(piece, palette.dim).strip(width) for piece in _pieces(note, width - 6))]


def title_width(checks: Sequence[Check], width: int) -> int:
    """The column of titles, so that what was found begins at one place."""
    return min(max((cell_len(check.title) for check in checks), default=0), _MOST_TITLE, max(width * 3 // 7, 12))


def check_line(check: Check, titles: int, width: int, palette: Palette, *, here: bool) -> Strip:
    """Glyph, verdict, title, and as much of what was found as there is room for."""
    glyph, style = verdict_look(check.verdict, palette)
    loud = check.verdict != "ok"
    row = Row("▸" if here else " ", palette.cursor).add(f"{glyph} ", style).left(check.verdict, 9, style)
    row.left(clean(check.title), titles, palette.strong if here or loud else palette.text)
    return row.add("  ").add(clean(check.found), palette.text if loud else palette.dim).strip(width)


def facts(check: Check, width: int, palette: Palette) -> list[list[Strip]]:
    """What was looked at, what was found, and what mends it, each as its lines."""
    found = [_fact("looked at", check.looked_at, width, palette, palette.dim), _fact("found", check.found, width, palette, palette.text)]
    return [*found, _mend(check, width, palette)] if check.mend else found


def _mend(check: Check, width: int, palette: Palette) -> list[Strip]:
    """Commands in a colour of their own, each behind the words that lead to it where both fit into a line, else under them."""
    rows: list[Row] = []
    for piece in check.pieces:
        text, style = (f"$ {piece.text}", palette.primary) if piece.is_command else (piece.text, palette.text)
        if piece.is_command and rows and _LABEL + rows[-1].width + 1 + cell_len(text) <= width:
            rows[-1].add(" ").add(text, style)
        else:
            rows += [Row(part, style) for part in _pieces(text, width - _LABEL)]
    return [Row().left("" if place else "mend", _LABEL, palette.dim).join(row).strip(width) for place, row in enumerate(rows)]


def _fact(label: str, text: str, width: int, palette: Palette, style: Style) -> list[Strip]:
    pieces = _pieces(text, width - _LABEL)
    return [Row().left("" if place else label, _LABEL, palette.dim).add(piece, style).strip(width) for place, piece in enumerate(pieces)]


def _pieces(text: str, width: int) -> list[str]:
    """Wrapped, with the line ends of the text kept."""
    return [piece for line in text.splitlines() or [""] for piece in wrap(clean(line), max(width, 2))]
