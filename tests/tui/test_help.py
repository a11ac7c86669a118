"""What tells a newcomer the keys: `?`, the palette and the footer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fake_script import fake_script
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn
from kept_runs import resize, until, until_shown
from rich.style import Style
from textual.command import CommandList, CommandPalette
from textual.events import Click, MouseDown, MouseScrollDown, MouseUp
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Input
from tour import SCREENS, bring, go, keep_three, strike

from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.base import PaneScreen
from tuitrain.tui.screens.compare import CompareScreen
from tuitrain.tui.screens.help import EVERYWHERE, HelpScreen, _HelpText
from tuitrain.tui.screens.opened import OpenedScreen
from tuitrain.tui.screens.runs import RunsScreen
from tuitrain.tui.widgets.keybar import key_name

SIZE = (80, 24)
_KEYS_OF_NAMES = {"Esc": "escape", "Enter": "enter", "?": "question_mark", "/": "slash"}


@pytest.fixture
def app(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> TuitrainApp:
    keep_three(tmp_path / "runs")
    return TuitrainApp(session, sampler, seed_cnn(), tmp_path / "runs", write_script=fake_script)


def top(app: TuitrainApp) -> PaneScreen:
    assert isinstance(app.screen, PaneScreen)
    return app.screen


def shown_keys(app: TuitrainApp) -> set[str]:
    """The names of the keys that the footer of this screen may show."""
    return {
        key_name(key)
        for key, one in app.screen.active_bindings.items()
        if one.binding.show and one.enabled and one.binding.description and not one.binding.system
    }


async def all_of_the_help(pilot: Pilot[None]) -> str:
    """The text of `?`, scrolled through."""
    texts = [await until_shown(pilot, "? or Esc closes")]
    while "scroll" in texts[0]:
        await strike(pilot, "down")
        texts.append(screen_text(pilot.app))
        if texts[-1] == texts[-2]:
            break
    return "\n".join(texts)


@pytest.mark.parametrize("name", SCREENS)
async def test_help_names_every_key_and_cuts_nothing(app: TuitrainApp, session: FakeSession, name: str) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, "running")
        await go(pilot, name)
        home, keys, lines = app.screen, shown_keys(app), (*top(app).help_lines(), *EVERYWHERE)
        await strike(pilot, "question_mark")
        text = await all_of_the_help(pilot)
        assert isinstance(app.screen, HelpScreen)
        assert "…" not in text
        assert all(" ".join(words.split()) in " ".join(text.replace("│", " ").split()) for _, words in lines)
        named = {word for written, _ in lines for word in written.split()}
        assert keys <= named, keys - named
        await strike(pilot, "question_mark")
        await until(pilot, lambda: app.screen is home)
        await strike(pilot, "question_mark", "escape")
        await until(pilot, lambda: app.screen is home)


@pytest.mark.parametrize("key", ["h", "f1"])
async def test_the_keys_for_help_of_other_monitors_open_and_close_it(app: TuitrainApp, key: str) -> None:
    async with app.run_test(size=SIZE) as pilot:
        home = app.screen
        await strike(pilot, key)
        await until_shown(pilot, "? or Esc closes")
        await strike(pilot, key)
        await until(pilot, lambda: app.screen is home)


@pytest.mark.parametrize("size", [SIZE, (120, 40), (60, 15)])
@pytest.mark.parametrize("beside", [False, True])
async def test_a_click_closes_the_help(app: TuitrainApp, session: FakeSession, size: tuple[int, int], beside: bool) -> None:
    async with app.run_test(size=size) as pilot:
        home = app.screen
        await strike(pilot, "question_mark")
        await until_shown(pilot, "? or Esc closes")
        (box,) = app.screen.query(_HelpText)
        await pilot.click(offset=(0, 0) if beside else (box.region.x + 3, box.region.y + 3))
        await until(pilot, lambda: app.screen is home)
        assert not session.started


async def test_the_wheel_scrolls_the_help_and_closes_nothing(app: TuitrainApp) -> None:
    async with app.run_test(size=(80, 16)) as pilot:
        await strike(pilot, "question_mark")
        first = await until_shown(pilot, "scroll")
        await pilot._post_mouse_events([MouseScrollDown], offset=(20, 8))
        await until(pilot, lambda: screen_text(app) != first)
        assert isinstance(app.screen, HelpScreen)


async def test_help_scrolls_where_it_is_longer_than_the_terminal(app: TuitrainApp) -> None:
    async with app.run_test(size=(80, 16)) as pilot:
        await strike(pilot, "question_mark")
        first = await until_shown(pilot, "scroll")
        assert "this help, back, quit" not in first
        await strike(pilot, *["pagedown"] * 4)
        await until_shown(pilot, "this help, back, quit")
        await resize(pilot, 80, 24)
        await until(pilot, lambda: "scroll" not in screen_text(app))


@pytest.mark.parametrize("key", ["question_mark", "ctrl+p", "D"])
async def test_ctrl_c_leads_out_of_what_lies_over_a_screen(app: TuitrainApp, session: FakeSession, key: str) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, "none")
        await go(pilot, "runs")
        await strike(pilot, key)
        await until(pilot, lambda: isinstance(app.screen, ModalScreen))
        await strike(pilot, "ctrl+c")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        assert not app._exit
        await strike(pilot, "ctrl+c")
        await until(pilot, lambda: app._exit)


async def test_a_palette_opens_while_the_one_before_it_still_closes(app: TuitrainApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await strike(pilot, "ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        before = app.screen
        # On a machine that is busy what a key opens comes before the widgets of what one left are gone.
        before.dismiss()
        app.action_command_palette()
        await until(pilot, lambda: isinstance(app.screen, CommandPalette) and app.screen is not before)
        await strike(pilot, "escape")
        await until(pilot, lambda: app.screen is app.main)


@pytest.mark.parametrize(("key", "on"), [("question_mark", "Keys"), ("ctrl+p", ""), ("D", "▸ ")])
async def test_two_quick_clicks_on_what_lies_over_a_screen_close_nothing_else(
    app: TuitrainApp, session: FakeSession, key: str, on: str
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, "none")
        await go(pilot, "runs")
        await strike(pilot, key)
        await until(pilot, lambda: isinstance(app.screen, ModalScreen) and on in screen_text(app))
        lines = screen_text(app).splitlines()
        x, y = next((line.index(on), row) for row, line in reversed(list(enumerate(lines))) if on in line)
        for kind in (MouseDown, MouseUp) * 2:
            app.post_message(kind(None, x, y, 0, 0, button=1, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y))
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.pause()
        assert isinstance(app.screen, RunsScreen)


async def test_a_click_on_a_command_that_is_no_longer_there_does_nothing(app: TuitrainApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await strike(pilot, "ctrl+p")
        await until_shown(pilot, "Doctor")
        palette, found = app.screen, app.screen.query_one(CommandList)
        x, y = found.region.offset + Offset(5, 1)
        click = Click(found, 5, 1, 0, 0, 1, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y)
        # Textual takes what was clicked on from what one saw; by the time the list hears of it, it has other commands.
        click.style = Style(meta={"option": found.option_count - 1})
        found.clear_options()
        found.post_message(click)
        await strike(pilot, *"doctor")
        await until(pilot, lambda: found.option_count > 0)
        assert app.screen is palette


async def test_a_click_beside_a_palette_closes_it_and_one_outside_of_a_terminal_that_became_smaller_does_nothing(app: TuitrainApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await strike(pilot, "ctrl+p")
        await until_shown(pilot, "Doctor")
        palette = app.screen
        await resize(pilot, 80, 24)
        for x, y in ((100, 5), (5, 30), (1, 23)):
            assert app.screen is palette
            palette.post_message(Click(palette, x, y, 0, 0, 1, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y))
            await pilot.pause()
        await until(pilot, lambda: app.screen is app.main)


async def test_what_was_typed_into_a_palette_that_closes_begins_no_search(app: TuitrainApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await strike(pilot, "ctrl+p")
        await until_shown(pilot, "Doctor")
        palette = app.screen
        assert isinstance(palette, CommandPalette)
        searched: list[str] = []
        monkeypatch.setattr(palette, "_gather_commands", searched.append)
        field = palette.query_one(Input)
        palette.dismiss()
        palette.post_message(Input.Changed(field, "r"))
        await until(pilot, lambda: not palette.is_running)
        assert (searched, app.screen) == ([], app.main)


async def test_a_palette_closes_with_the_screen_below_it(app: TuitrainApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await strike(pilot, "question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        below = app.screen
        await strike(pilot, "ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        closed: list[None] = []
        monkeypatch.setattr(app.screen, "_cancel_gather_commands", lambda: closed.append(None))
        below.dismiss()
        assert (app.screen, closed) == (app.main, [None]), "what it searches for ends too"


async def test_a_palette_that_closes_before_it_is_there_harms_nothing(app: TuitrainApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        app.action_command_palette()
        palette = app.screen
        assert isinstance(palette, CommandPalette)
        palette.dismiss()
        await until(pilot, lambda: not palette.is_running)
        assert app.screen is app.main


async def test_the_palette_over_a_field_offers_no_way_through_its_text(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, "none")
        await strike(pilot, *["down"] * 10, "space")
        await until(pilot, lambda: isinstance(app.focused, Input))
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert "Undo" in titles
        assert not [title for title in titles if "cursor" in title.lower() or "delete" in title.lower()]


@pytest.mark.parametrize("name", SCREENS)
async def test_the_palette_offers_what_the_keys_do(app: TuitrainApp, session: FakeSession, name: str) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, "running")
        await go(pilot, name)
        commands = list(app.get_system_commands(app.screen))
        titles = [command.title for command in commands]
        assert len(set(titles)) == len(titles), titles
        offered = {command.help.removeprefix("key ") for command in commands}
        assert shown_keys(app) <= offered
        assert not {"Ctrl+C", "ctrl+q", "Ctrl+P"} & offered


@pytest.mark.parametrize("word", ["preflight", "analysis", "code"])
async def test_the_palette_finds_a_command_by_the_word_that_the_footer_shows(app: TuitrainApp, session: FakeSession, word: str) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, "running")
        if word == "preflight":
            await go(pilot, "launcher")
        await strike(pilot, "ctrl+p")
        await until_shown(pilot, "Search for commands", "key ")
        await strike(pilot, *word)
        await until_shown(pilot, f"{word.capitalize()}: ")


async def test_a_command_of_the_palette_runs(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, "running")
        await strike(pilot, "ctrl+p")
        await until_shown(pilot, "Search for commands", "key ")
        await strike(pilot, *"pause")
        await until(pilot, lambda: "key space" in screen_text(app) and "key c" not in screen_text(app))
        await strike(pilot, "down", "enter")
        await until(pilot, lambda: session.asked == ["pause"])


async def test_an_open_palette_offers_less_when_the_terminal_becomes_too_small(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, "running")
        await strike(pilot, "ctrl+p")
        await until_shown(pilot, "Search for commands", "Checkpoint")
        await resize(pilot, 60, 15)
        await until(pilot, lambda: "tuitrain needs 72×20" in screen_text(app) and "Checkpoint" not in screen_text(app))
        text = screen_text(app)
        assert "Help" in text.partition("Search for commands")[2]
        assert "Analysis" not in text
        await resize(pilot, *SIZE)
        await until_shown(pilot, "Search for commands", "Analysis", "Checkpoint")


@pytest.mark.parametrize("opening", [("ctrl+p",), ("ctrl+p", "theme")])
async def test_paging_through_the_palette_before_it_has_its_list(app: TuitrainApp, opening: tuple[str, ...]) -> None:
    """The keys of one packet: where the list has no lines yet, there is nothing to page through."""
    async with app.run_test(size=SIZE) as pilot:
        if "theme" in opening:
            app.search_themes()
        else:
            await strike(pilot, "ctrl+p")
        await strike(pilot, "pagedown", "pageup", "home", "end")
        await until_shown(pilot, "dracula" if "theme" in opening else "key space")


async def test_a_newcomer_who_reads_only_the_footer(app: TuitrainApp, session: FakeSession) -> None:
    """Starts, watches, stops, reopens and compares, at 80 columns."""
    async with app.run_test(size=SIZE) as pilot:

        async def read_and_press(words: str) -> None:
            pattern = rf" (\S+) {re.escape(words)} [^\n]*\Z"
            await until(pilot, lambda: re.search(pattern, screen_text(app)) is not None)
            found = re.search(pattern, screen_text(app))
            assert found is not None
            await strike(pilot, _KEYS_OF_NAMES.get(found[1], found[1]))

        await until_shown(pilot, "Start")
        await read_and_press("Start")
        await until(pilot, lambda: session.record is not None)
        session.begin()
        session.steps(50)
        await read_and_press("Pause")
        await read_and_press("Go on")
        await read_and_press("Stop")
        await until(pilot, lambda: session.asked == ["pause", "resume", "stop"])
        await read_and_press("Runs")
        await until_shown(pilot, "Runs 3", "alpha")
        await read_and_press("Open")
        await until(pilot, lambda: isinstance(app.screen, OpenedScreen))
        await read_and_press("Close")
        await read_and_press("Mark")
        await read_and_press("Mark")
        await read_and_press("Overlay")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        await read_and_press("Close")
        await read_and_press("Close")
        await read_and_press("New run")
        await read_and_press("Quit")
        await until(pilot, lambda: app._exit)
