"""Small images as lines of text: the one place that knows how a terminal can show a picture."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from rich.color import Color, ColorSystem
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tuitrain.tui.strips import PLAIN
from tuitrain.tui.terminal.glyphs import draws_ascii

if TYPE_CHECKING:
    from textual.app import App

Ink = Literal["truecolor", "256", "light", "dark"]
"""What a picture is drawn with: half blocks in colours, or characters that are light on a dark ground or dark on a light one."""

SIDE = 32
"""Pixels, and so columns, of a picture's width; it is half as many lines high."""
HEIGHT = SIDE // 2
BYTES = SIDE * SIDE * 3
_CUBE = (0, 95, 135, 175, 215, 255)
# 32 steps of each colour: nobody sees the difference, and cells that become equal cost nothing on the way.
_IN_STEPS = bytes(value & 0xF8 | value >> 5 for value in range(256))
_RAMP = " .:-=+*#%@"
_KEPT = 64


def ink_of(app: App[None]) -> Ink:
    """What this app draws pictures and shades with. Sixteen colours are too few: they would turn a photograph into blots."""
    system = app.console.color_system
    if draws_ascii(app) or app.no_color or system not in ("256", "truecolor"):
        return "light" if app.current_theme.dark else "dark"
    return "256" if system == "256" else "truecolor"


@lru_cache(_KEPT)
def draw(image: bytes, ink: Ink) -> tuple[Strip, ...]:
    """A picture as `HEIGHT` lines of `SIDE` cells.

    Args:
        image: `BYTES` bytes, row by row, red, green and blue of each pixel.
        ink: what to draw with.
    """
    if ink in ("256", "truecolor"):
        image = image.translate(_IN_STEPS)
    rows = [image[start : start + SIDE * 3] for start in range(0, BYTES, SIDE * 3)]
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    if ink in ("light", "dark"):
        return _in_characters(pairs, ink)
    palette = ink == "256"
    return tuple(_half_blocks(upper, lower, palette) for upper, lower in pairs)


def _half_blocks(upper: bytes, lower: bytes, palette: bool) -> Strip:
    """One line: the upper pixel is the character's colour, the lower one the ground's; neighbours that look the same become one piece."""
    segments: list[Segment] = []
    before, length = None, 0
    for at in range(0, SIDE * 3, 3):
        style = _cell(_colour(*upper[at : at + 3], palette), _colour(*lower[at : at + 3], palette))
        if style is before:
            length += 1
            continue
        if before is not None:
            segments.append(Segment("▀" * length, before))
        before, length = style, 1
    segments.append(Segment("▀" * length, before))
    return Strip(segments, SIDE)


@lru_cache(8192)
def _colour(red: int, green: int, blue: int, palette: bool) -> Color:
    return _in_palette((red, green, blue)) if palette else Color.from_rgb(red, green, blue)


def _in_palette(pixel: tuple[int, int, int]) -> Color:
    """The nearest of the 256 colours, among its cube's and its greys; rich's own choice takes a coloured one for much that is grey."""
    cube = ColorTriplet(*(min(_CUBE, key=lambda step: abs(step - value)) for value in pixel))
    grey = ColorTriplet(*[min(max(round((sum(pixel) / 3 - 8) / 10), 0), 23) * 10 + 8] * 3)
    nearest = min((grey, cube), key=lambda triplet: sum((one - other) ** 2 for one, other in zip(triplet, pixel, strict=True)))
    # Rich turns pale colours of the cube into greys on their way out, and these are then not the nearest ones.
    kept = Color.from_triplet(nearest).downgrade(ColorSystem.EIGHT_BIT).get_truecolor() == nearest
    return Color.from_triplet(nearest if kept else grey)


@lru_cache(8192)
def _cell(upper: Color, lower: Color) -> Style:
    return Style.from_color(upper, lower)


def _in_characters(pairs: list[tuple[bytes, bytes]], ink: Ink) -> tuple[Strip, ...]:
    """Grey levels, each character two pixels; darkest and brightest of the picture take the ends of the ramp."""
    grey = [[_grey(upper, at) + _grey(lower, at) for at in range(0, SIDE * 3, 3)] for upper, lower in pairs]
    low, high = min(map(min, grey)), max(map(max, grey))
    ramp = _RAMP if ink == "light" else _RAMP[::-1]
    scale = (len(ramp) - 1) / max(high - low, 1)
    return tuple(Strip([Segment("".join(ramp[round((value - low) * scale)] for value in row), PLAIN)], SIDE) for row in grey)


def _grey(row: bytes, at: int) -> int:
    return 299 * row[at] + 587 * row[at + 1] + 114 * row[at + 2]
