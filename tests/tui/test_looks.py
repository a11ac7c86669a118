"""Both themes on every kind of terminal, and the theme that lasts."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

import pytest
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn
from kept_runs import until, until_shown
from rich._palettes import EIGHT_BIT_PALETTE, STANDARD_PALETTE
from rich.color import Color, ColorSystem
from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

from screenshots.make import picture_of
from tuitrain import paths
from tuitrain.tui import kept_theme
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.launch import last
from tuitrain.tui.look import DARK, LIGHT, SERIES, for_terminal, palette_in, palette_of

WORDS = {"truecolor": ColorSystem.TRUECOLOR, "256": ColorSystem.EIGHT_BIT, "standard": ColorSystem.STANDARD}
OTHERS = [theme for theme in BUILTIN_THEMES.values() if not theme.name.startswith("ansi")]
"""Textual's themes but those that show the terminal's own colours, whatever these are."""
QUIET = ("faint", "frame", "raw", "track")
"""Frames and grounds, of which nobody reads anything."""


def luminance(colour: Color, system: ColorSystem) -> float:
    """WCAG's relative luminance of a colour as a terminal with such colours shows it."""
    seen = colour.downgrade(system)
    if seen.triplet is not None:
        parts = seen.triplet
    else:
        assert seen.number is not None
        parts = (STANDARD_PALETTE if seen.number < 16 else EIGHT_BIT_PALETTE)[seen.number]
    red, green, blue = (part / 255 / 12.92 if part / 255 <= 0.03928 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Color, other: Color, system: ColorSystem) -> float:
    """WCAG's contrast, 1 to 21."""
    dark, bright = sorted((luminance(one, system), luminance(other, system)))
    return (bright + 0.05) / (dark + 0.05)


def inks(theme: Theme) -> dict[str, Color]:
    """The colours of text by their names."""
    palette = palette_of(theme)
    styles: dict[str, Style] = {name: getattr(palette, name) for name in palette.__struct_fields__ if name not in (*QUIET, "series")}
    styles |= {f"series {number}": style for number, style in enumerate(palette.series, 1)}
    return {name: style.color for name, style in styles.items() if style.color is not None}


@pytest.mark.parametrize("theme", OTHERS, ids=lambda theme: theme.name)
def test_every_theme_that_the_palette_offers_can_be_read(theme: Theme) -> None:
    words = theme.to_color_system().generate()
    under, palette = Color.parse(words["background"]), palette_of(theme)
    wanted = {name: (ink, 3.0 if name.startswith("series") else 4.5) for name, ink in inks(theme).items()}
    wanted |= {name: (getattr(palette, name).color, 1.5) for name in ("faint", "frame", "raw")}
    found = {name: (round(contrast(ink, under, ColorSystem.TRUECOLOR), 1), least) for name, (ink, least) in wanted.items()}
    assert not {name: (value, least) for name, (value, least) in found.items() if value < least}
    for name in ("key", "dim"):
        assert contrast(inks(theme)[name], Color.parse(words["surface"]), ColorSystem.TRUECOLOR) >= 4.5, f"{name} in the line of keys"


@pytest.mark.parametrize(("name", "ours"), [("ansi-dark", DARK), ("ansi-light", LIGHT)])
async def test_a_theme_of_the_terminals_own_colours_has_ours_where_it_must_tell_them_apart(
    session: FakeSession, sampler: FakeSampler, name: str, ours: Theme
) -> None:
    app = TuitrainApp(session, sampler, seed_cnn(), Path("runs"))
    async with app.run_test():
        app.theme = name
        palette = palette_in(app)
        assert palette.track.bgcolor not in (None, *(style.color for style in (palette.text, palette.primary, palette.good)))
        assert palette == palette_of(app.available_themes[ours.name])


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("word", WORDS)
def test_our_own_colours_are_shown_as_they_are(theme: Theme, word: str) -> None:
    theme = for_terminal(theme, word)
    palette = palette_of(theme)
    words = theme.to_color_system().generate()
    shown = [style.color.name for style in (palette.good, palette.warn, palette.bad, palette.accent) if style.color is not None]
    assert shown == [words[name].lower() for name in ("success", "warning", "error", "accent")]
    named = {name: getattr(palette, name).color.name for name in ("dim", "faint")}
    assert named == {name: theme.variables[name] for name in named}
    assert [style.color.name for style in palette.series if style.color is not None] == theme.variables.get(
        "series", SERIES[theme.dark]
    ).split()


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("word", WORDS)
def test_every_text_can_be_read(theme: Theme, word: str) -> None:
    theme, system = for_terminal(theme, word), WORDS[word]
    for ground in (theme.background, theme.surface):
        weak = {name: contrast(ink, Color.parse(str(ground)), system) for name, ink in inks(theme).items()}
        weak = {name: round(value, 1) for name, value in weak.items() if value < (3 if ground == theme.background else 2.5)}
        assert not weak, (word, ground)


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("word", WORDS)
def test_good_bad_and_plain_differ_and_so_do_eight_curves(theme: Theme, word: str) -> None:
    theme, system = for_terminal(theme, word), WORDS[word]
    seen = {name: colour.downgrade(system) for name, colour in inks(theme).items()}
    assert len({seen[name] for name in ("text", "good", "warn", "bad")}) == 4
    assert seen["primary"] != seen["accent"]
    assert len({colour for name, colour in seen.items() if name.startswith("series")}) == 8


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("word", WORDS)
def test_a_selected_line_and_the_rest_of_a_meter_can_be_seen(theme: Theme, word: str) -> None:
    theme, system = for_terminal(theme, word), WORDS[word]
    track = palette_of(theme).track.bgcolor
    assert track is not None
    assert contrast(track, Color.parse(str(theme.background)), system) > 1.05
    if word == "256":
        # A ground that is grey must not turn blue.
        assert len(set(track.downgrade(system).get_truecolor())) == 1
    ink = inks(theme)["text"]
    assert contrast(ink, track, system) >= 3


# -- the theme that lasts -----------------------------------------------------------------------------------------------


def make(session: FakeSession, sampler: FakeSampler) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), Path("runs"))


async def test_the_chosen_theme_is_there_at_the_next_start(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert app.theme == DARK.name
        assert not paths.theme().exists(), "nobody chose one"
        app.theme = LIGHT.name
        await until(pilot, lambda: kept_theme.read() == LIGHT.name)
        app.theme = DARK.name
        await until(pilot, lambda: kept_theme.read() == DARK.name)
        app.theme = LIGHT.name
        await until(pilot, lambda: kept_theme.read() == LIGHT.name)
    assert make(session, sampler).theme == LIGHT.name


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"no-such-theme", b"x" * 10_000, b"tuitrain-light\x1b[2J", None])
async def test_a_damaged_theme_is_the_usual_one(session: FakeSession, sampler: FakeSampler, content: bytes | None) -> None:
    paths.theme().parent.mkdir(parents=True)
    if content is None:
        os.mkfifo(paths.theme())
    else:
        paths.theme().write_bytes(content)
    app = make(session, sampler)
    assert app.theme == DARK.name
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "seed-cnn" in screen_text(app)


@pytest.mark.usefixtures("homeless")
async def test_without_a_home_the_app_has_the_usual_theme_and_keeps_nothing(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    assert app.theme == DARK.name
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.theme = LIGHT.name
        await pilot.pause()
        assert "seed-cnn" in screen_text(app)
    assert (app.theme, kept_theme.read(), last.read()) == (LIGHT.name, None, None)


async def test_a_theme_that_cannot_be_kept_is_used_all_the_same(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder would be")
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        app.theme = LIGHT.name
        await pilot.pause()
        await app.workers.wait_for_complete()
        assert app.is_running
        assert app.theme == LIGHT.name


async def test_a_picture_for_the_readme_shows_the_screen(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        shown = await until_shown(pilot, "Enter Start")
        picture = html.unescape(re.sub("<[^>]*>", "", picture_of(app)))
    assert [word for word in shown.split() if word not in picture] == []
