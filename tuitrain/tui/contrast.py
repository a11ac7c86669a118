"""How well a colour stands out from the ones under it, by the measure of the Web Content Accessibility Guidelines: 1 to 21."""

from __future__ import annotations

from collections.abc import Sequence

from textual.color import BLACK, WHITE, Color

TEXT = 4.5
"""What those guidelines ask of text."""
GRAPHICS = 3.0
"""What they ask of lines and shapes that say something."""
_SHADES = 20


def contrast(one: Color, other: Color) -> float:
    """How much lighter the lighter of two colours is."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def standing_out(colour: str, grounds: Sequence[str], least: float, *, dark: bool) -> str:
    """`colour`, lighter on a dark theme and darker on a light one as far as it takes to stand out from all of `grounds`."""
    under = [Color.parse(ground) for ground in grounds]
    wanted, end = Color.parse(colour), WHITE if dark else BLACK
    mixed = wanted
    for shade in range(1, _SHADES + 1):
        if all(contrast(mixed, ground) >= least for ground in under):
            break
        mixed = wanted.blend(end, shade / _SHADES)
    return colour if mixed is wanted else mixed.hex6


def _luminance(colour: Color) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
