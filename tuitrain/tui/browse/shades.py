"""Grounds of a heat map's cells: the larger the share, the stronger, and always with a text on it that one can read."""

from __future__ import annotations

import math
from functools import lru_cache

from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

_LEVELS = 12
_STRONGEST = 0.85
_MIDDLE = 0.18
"""The luminance from which on black has more contrast than white."""
_STEPS = {
    (True, True): ("#005f00", "#005f00", "#008700", "#00af00"),
    (True, False): ("#5f0000", "#870000", "#af0000", "#d70000"),
    (False, True): ("#d7ffd7", "#afffaf", "#87ff87", "#5fff5f"),
    (False, False): ("#ffd7d7", "#ffafaf", "#ff8787", "#ff5f5f"),
}
"""Grounds among 256 colours for (dark theme, right answers): from few of a row to all of it."""


def ground(theme: Theme, ink: Style, share: float, *, right: bool, palette: bool) -> Style:
    """The style of a cell.

    Args:
        theme: the theme in use.
        ink: the style whose colour the full share has.
        share: 0 to 1; its root decides, so that small mistakes are seen too.
        right: whether the cell counts right answers.
        palette: the terminal has 256 colours: a blend would change its hue from step to step there.
    """
    level = round(math.sqrt(share) * _LEVELS)
    if palette or ink.color is None:
        return _step(theme.dark, right, level)
    named = theme.background or ""
    # A theme that leaves its ground to the terminal gets one that can be mixed.
    return _blend(named if named.startswith("#") else "#11151a" if theme.dark else "#fbfbf9", ink.color, level)


@lru_cache(256)
def _blend(below: str, ink: RichColor, level: int) -> Style:
    return _readable(Color.parse(below).blend(Color.from_rich_color(ink), level / _LEVELS * _STRONGEST))


@lru_cache(64)
def _step(dark: bool, right: bool, level: int) -> Style:
    steps = _STEPS[dark, right]
    return _readable(Color.parse(steps[min(level * len(steps) // _LEVELS, len(steps) - 1)]))


def _readable(colour: Color) -> Style:
    """The colour with black or white on it, whichever has more contrast."""
    weights = zip(colour.normalized, (0.2126, 0.7152, 0.0722), strict=True)
    luminance = sum(weight * part**2.2 for part, weight in weights)
    return Style.from_color(RichColor.from_rgb(*([0] * 3 if luminance > _MIDDLE else [255] * 3)), colour.rich_color)
