"""What stands in for each glyph where the terminal has no UTF-8: the one place that knows.

Widgets write Unicode; on such a terminal `AsciiFilter` replaces every character on its way out by one of the same width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from tuitrain.locales import named_locale

if TYPE_CHECKING:
    from textual.app import App

_GROUPS = {
    "+": "╭╮╰╯├┤┬┴┼┌┐└┘╔╗╚╝",
    "-": "─╌·•–—",
    "|": "│┃║▏▕┊▎┿",
    "#": "▣█▉▊▋▌■▐▓▀",
    ".": "▢…▁⠂░",
    "*": "●◉▆▪",
    "o": "○",
    "v": "✓▾▼↓",
    "x": "✗×✕",
    "?": "◌",
    '"': "‖“”",
    ">": "▸→▶❯›",
    "<": "←◀‹",
    "^": "▴▲↑",
    ":": "▂▃▒",
    "=": "▄▅≥≤━═╸",
    "@": "▇◆",
    "'": "’‘°",
    "e": "é",
    "_": "▔",
}
_TABLE = str.maketrans({glyph: plain for plain, glyphs in _GROUPS.items() for glyph in glyphs})


def to_ascii(text: str) -> str:
    """`text` in ASCII, as many cells wide; what has no likeness becomes `?`."""
    text = text.translate(_TABLE)
    if text.isascii():
        return text
    return "".join(char if char.isascii() else "?" * cell_len(char) for char in text)


class AsciiFilter(LineFilter):
    """Makes every line that Textual draws ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with their text replaced; styles stay."""
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


def draws_ascii(app: App[None]) -> bool:
    """Whether the app's lines end up in ASCII."""
    return any(isinstance(one, AsciiFilter) for one in app.get_line_filters())


def speaks_utf8(environment: Mapping[str, str], encoding: str | None) -> bool:
    """Whether the terminal shows UTF-8 and has the glyphs.

    The words that the person set count, not Python's encoding. No word at all is taken as UTF-8: containers set none, and their terminals
    are modern.
    """
    if environment.get("TERM") == "linux" or (encoding or "utf-8").lower().replace("-", "") not in ("utf8", "ascii"):
        return False
    return "utf8" in (named_locale(environment) or "UTF-8").lower().replace("-", "")
