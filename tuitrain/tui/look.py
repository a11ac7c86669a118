"""The look: two themes, and the named styles that the line widgets draw with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from rich.style import Style
from textual.app import App
from textual.theme import Theme

from tuitrain.tui.contrast import GRAPHICS, TEXT, standing_out

DARK = Theme(
    name="tuitrain-dark",
    primary="#56c5e8",
    secondary="#8aa4ff",
    accent="#f0b357",
    success="#62d196",
    warning="#f2c14e",
    error="#ff6f6f",
    foreground="#d6dce3",
    background="#11151a",
    surface="#171c23",
    panel="#23282e",
    dark=True,
    variables={"dim": "#7b8794", "faint": "#3d4752", "track": "#292e35"},
)
LIGHT = Theme(
    name="tuitrain-light",
    primary="#00728f",
    secondary="#3f51b5",
    accent="#a85b00",
    success="#177245",
    warning="#8a6100",
    error="#bf1f2c",
    foreground="#1d242b",
    background="#fbfbf9",
    surface="#f1f1ee",
    panel="#e6e6e2",
    dark=False,
    variables={"dim": "#646d76", "faint": "#bfc4c9", "track": "#e0e2e2"},
)
# Eight colours each that people with any of the usual kinds of colour blindness tell apart, and from the background.
SERIES = {
    True: "#56b4e9 #e69f00 #f6148e #f4ff1a #4e6af2 #e5c69c #4b9246 #58fbf4",
    False: "#0072b2 #b35900 #c42dff #25179d #a7895b #551f07 #3f5b59 #4f1f60",
}
"""By whether the theme is dark."""
# On a terminal with sixteen colours each colour becomes the nearest of them. These are such themselves: eight that differ, and on white
# those that one can read there whatever the terminal makes of yellow, green and cyan.
_DARK_SIXTEEN = {"series": "#55ffff #ffff55 #ff55ff #55ff55 #5555ff #ff5555 #aaaaaa #aa5500"}
_LIGHT_SIXTEEN = {
    "dim": "#555555",
    "faint": "#555555",
    "track": "#aaaaaa",
    "series": "#0000aa #aa0000 #aa00aa #000000 #555555 #00aa00 #aa5500 #5555ff",
}


def for_terminal(theme: Theme, color_system: str | None) -> Theme:
    """One of our themes as a terminal with such colours (rich's word for them) shows it best."""
    if color_system not in ("standard", "windows"):
        return theme
    if theme.dark:
        return replace(theme, variables={**theme.variables, **_DARK_SIXTEEN})
    blue, magenta = "#0000aa", "#aa00aa"
    variables = {**theme.variables, **_LIGHT_SIXTEEN}
    return replace(theme, primary=blue, secondary=blue, accent=magenta, success=blue, warning=magenta, error="#aa0000", variables=variables)


# Frames and the raw curve under the smoothed one are there to be overlooked, not to be searched for.
_FRAMES = 1.5


class Palette(msgspec.Struct, frozen=True):
    """Styles by meaning. Colour is never alone: a word or a glyph always says the same."""

    text: Style
    strong: Style
    dim: Style
    faint: Style
    frame: Style
    title: Style
    title_focus: Style
    primary: Style
    accent: Style
    good: Style
    warn: Style
    bad: Style
    track: Style
    """A background, for what a meter has not filled."""
    raw: Style
    key: Style
    cursor: Style
    series: tuple[Style, ...]
    """Eight curves beside each other; each of them has its number too."""

    @property
    def train(self) -> Style:
        """The training loss."""
        return self.primary

    @property
    def test(self) -> Style:
        """The test loss."""
        return self.accent


_PALETTES: dict[str, tuple[Theme, Palette]] = {}
_IN_USE: WeakKeyDictionary[App[Any], tuple[str, Palette]] = WeakKeyDictionary()


def palette_in(app: App[Any]) -> Palette:
    """The styles of the theme that `app` uses now. Every line asks, and Textual builds all its themes to name the one in use."""
    known = _IN_USE.get(app)
    if known is None or known[0] != app.theme:
        _IN_USE[app] = known = (app.theme, palette_of(_known_colours(app)))
    return known[1]


def _known_colours(app: App[Any]) -> Theme:
    """The theme in use; where it leaves its colours to the terminal, ours of the same kind: of unknown ones nobody can tell a bar from its
    ground."""
    theme = app.current_theme
    return theme if theme.primary.startswith("#") else app.available_themes[(DARK if theme.dark else LIGHT).name]


def palette_of(theme: Theme) -> Palette:
    """The styles of a theme, also of one that is not ours; made once for each."""
    made = _PALETTES.get(theme.name)
    if made is None or made[0] is not theme:
        _PALETTES[theme.name] = made = (theme, _make_palette(theme))
    return made[1]


def _make_palette(theme: Theme) -> Palette:
    words = theme.to_color_system().generate()

    def colour(name: str, fallback: str) -> str:
        value = theme.variables.get(name) or words.get(name) or words.get(fallback) or ""
        return value if value.startswith("#") else ("#d6dce3" if theme.dark else "#1d242b")

    def seen(value: str, least: float, *, in_key_bar: bool = False) -> str:
        grounds = ("background", "surface") if in_key_bar else ("background",)
        return standing_out(value[:7], [words[name] for name in grounds], least, dark=theme.dark)

    def style(name: str, fallback: str = "foreground", bold: bool = False, least: float = TEXT) -> Style:
        return Style(color=seen(colour(name, fallback), least, in_key_bar=name in ("primary", "dim")), bold=bold or None)

    series = theme.variables.get("series", SERIES[theme.dark])
    return Palette(
        text=style("foreground"),
        strong=style("foreground", bold=True),
        dim=style("dim", "text-muted"),
        faint=style("faint", "panel", least=_FRAMES),
        frame=style("faint", "panel", least=_FRAMES),
        title=style("foreground", bold=True),
        title_focus=style("primary", bold=True),
        primary=style("primary"),
        accent=style("accent", "warning"),
        good=style("success"),
        warn=style("warning"),
        bad=style("error"),
        track=Style(bgcolor=colour("track", "panel")[:7]),
        raw=style("faint", "panel", least=_FRAMES),
        key=style("primary", bold=True),
        cursor=style("primary", bold=True),
        series=tuple(Style(color=seen(word, GRAPHICS)) for word in series.split()),
    )


_STATES = {
    "idle": ("○", "dim"),
    "queued": ("○", "dim"),
    "preparing": ("○", "primary"),
    "running": ("●", "good"),
    "paused": ("‖", "warn"),
    "stopping": ("■", "warn"),
    "finished": ("✓", "good"),
    "stopped": ("■", "warn"),
    "interrupted": ("■", "warn"),
    "failed": ("✗", "bad"),
    "lost": ("◌", "bad"),
}


def state_look(state: str, palette: Palette) -> tuple[str, Style]:
    """The glyph and the style of a state's word."""
    glyph, name = _STATES.get(state, ("○", "dim"))
    style: Style = getattr(palette, name)
    return glyph, style
