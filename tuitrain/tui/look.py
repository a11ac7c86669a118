"""The look: two themes, and the named styles that the line widgets draw with."""

from __future__ import annotations

import msgspec
from rich.style import Style
from textual.theme import Theme

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
    panel="#202730",
    dark=True,
    variables={"dim": "#7b8794", "faint": "#3d4752", "track": "#262e37"},
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
_SERIES_DARK = ("#56b4e9", "#e69f00", "#f6148e", "#f4ff1a", "#4e6af2", "#e5c69c", "#4b9246", "#58fbf4")
_SERIES_LIGHT = ("#0072b2", "#b35900", "#c42dff", "#25179d", "#a7895b", "#551f07", "#3f5b59", "#4f1f60")


class Palette(msgspec.Struct, frozen=True):
    """Styles by meaning. Colour is never alone: a word or a glyph always says the same."""

    text: Style
    strong: Style
    dim: Style
    faint: Style
    frame: Style
    frame_focus: Style
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


_PALETTES: dict[str, Palette] = {}


def palette_of(theme: Theme) -> Palette:
    """The styles of a theme, also of one that is not ours; made once for each name."""
    if theme.name not in _PALETTES:
        _PALETTES[theme.name] = _make_palette(theme)
    return _PALETTES[theme.name]


def _make_palette(theme: Theme) -> Palette:
    words = theme.to_color_system().generate()

    def colour(name: str, fallback: str) -> str:
        value = theme.variables.get(name) or words.get(name) or words.get(fallback) or ""
        return value if value.startswith("#") else ("#d6dce3" if theme.dark else "#1d242b")

    def style(name: str, fallback: str = "foreground", bold: bool = False) -> Style:
        return Style(color=colour(name, fallback)[:7], bold=bold or None)

    return Palette(
        text=style("foreground"),
        strong=style("foreground", bold=True),
        dim=style("dim", "text-muted"),
        faint=style("faint", "panel"),
        frame=style("faint", "panel"),
        frame_focus=style("dim", "foreground"),
        title=style("foreground", bold=True),
        title_focus=style("primary", bold=True),
        primary=style("primary"),
        accent=style("accent", "warning"),
        good=style("success"),
        warn=style("warning"),
        bad=style("error"),
        track=Style(bgcolor=colour("track", "panel")[:7]),
        raw=style("faint", "panel"),
        key=style("primary", bold=True),
        cursor=style("primary", bold=True),
        series=tuple(Style(color=colour) for colour in (_SERIES_DARK if theme.dark else _SERIES_LIGHT)),
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
