"""Keys that come faster than the screen follows, as a whole word in one packet over SSH."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn, settle
from kept_runs import keep, until, until_shown
from textual.events import Key, MouseDown, MouseUp, Paste
from textual.pilot import Pilot
from textual.widgets import Input

from tuitrain.events import Notice
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.help import HelpScreen
from tuitrain.tui.screens.log import LogScreen
from tuitrain.tui.screens.runs import RunsScreen
from tuitrain.tui.terminal import in_turn


@pytest.fixture
def app(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), tmp_path / "runs")


def burst(pilot: Pilot[None], keys: str) -> None:
    """All keys at once, none waits for what the one before brings."""
    names = {"/": "slash", "?": "question_mark", " ": "space"}
    named = {"\r": "enter", "\x7f": "backspace", "⇱": "home", "\x15": "ctrl+u", "\x17": "ctrl+w", "\x1b": "escape"}
    for character in keys:
        key = named.get(character)
        pilot.app.post_message(Key(names.get(character, character), character) if key is None else Key(key, None))


async def test_a_filter_typed_at_once(app: TuitrainApp, tmp_path: Path) -> None:
    keep(tmp_path / "runs", "20261121-0413-seed-cnn-k3f")
    keep(tmp_path / "runs", "20261120-2210-random-q-a7m")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "k3f", "▁")
        burst(pilot, "/random-q")
        await until(pilot, lambda: "k3f" not in screen_text(app) and "a7m" in screen_text(app))
        assert isinstance(app.screen, RunsScreen)
        assert "random-q" in screen_text(app)


async def test_a_search_in_the_log_typed_at_once(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        session.begin()
        session.say(Notice(text="unicorn at the pond"))
        await settle(pilot)
        await pilot.press("o")
        burst(pilot, "/unicorn")
        await until_shown(pilot, "search unicorn", "1 of 1")
        assert isinstance(app.screen, LogScreen)


async def test_a_field_typed_at_once(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*["down"] * 10)
        burst(pilot, " quick run\r")
        await until(pilot, lambda: len(session.started) == 1)
        assert session.started[0].name == "quick run"


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ("ab\x7fc", "ac"),
        ("bcd⇱a", "abcd"),
        ("one two\x17three", "one three"),
        ("wrong\x15right", "right"),
        ("xy⇱\x7fz", "zxy"),
    ],
)
async def test_keys_that_change_a_text_take_their_turn(app: TuitrainApp, session: FakeSession, keys: str, name: str) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*["down"] * 10)
        burst(pilot, f" {keys}\r")
        await until(pilot, lambda: len(session.started) == 1)
        assert session.started[0].name == name


async def test_keys_after_enter_are_no_part_of_the_text(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*["down"] * 6)
        burst(pilot, "7\ro")
        await until(pilot, lambda: isinstance(app.screen, LogScreen))
        assert [config.batch_size for config in session.started] == [7]


async def test_keys_after_esc_are_no_part_of_the_text(app: TuitrainApp, tmp_path: Path) -> None:
    keep(tmp_path / "runs", "20261121-0413-seed-cnn-k3f")
    async with app.run_test(size=(80, 24)) as pilot:
        burst(pilot, "r/zzz\x1b?")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("escape")
        await until_shown(pilot, "k3f")
        assert "zzz" not in screen_text(app)


async def test_keys_after_a_filter_go_to_the_list(app: TuitrainApp, tmp_path: Path) -> None:
    keep(tmp_path / "runs", "20261121-0413-seed-cnn-k3f")
    keep(tmp_path / "runs", "20261120-2210-random-q-a7m")
    async with app.run_test(size=(80, 24)) as pilot:
        burst(pilot, "r/a7m\r")
        shown = await until_shown(pilot, "a7m", "1 of 2")
        assert "k3f" not in shown
        burst(pilot, "\x1b/random-q\rD")
        await until_shown(pilot, "Delete")
        assert "a7mD" not in screen_text(app)


async def test_a_text_pasted_after_a_key_takes_its_turn(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*["down"] * 10)
        burst(pilot, " old\x15")
        app.post_message(Paste("new"))
        burst(pilot, "er\r")
        await until(pilot, lambda: len(session.started) == 1)
        assert session.started[0].name == "newer"


@pytest.mark.parametrize(
    ("pasted", "name"), [("one\r\n  two\n\nthree\n", "one two three"), ("\n\nlate\n", "late"), (" spaced", "a spaced"), ("\n", "a")]
)
async def test_a_pasted_text_of_several_lines_is_one(app: TuitrainApp, session: FakeSession, pasted: str, name: str) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*["down"] * 10)
        burst(pilot, " a" if name.startswith("a") else " ")
        app.post_message(Paste(pasted))
        burst(pilot, "\r")
        await until(pilot, lambda: len(session.started) == 1)
        assert session.started[0].name == name


async def test_a_widget_that_is_stuck_holds_no_key_up_for_long(app: TuitrainApp, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(in_turn, "time", SimpleNamespace(monotonic=lambda: now))
    stuck, free = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        stuck.set()
        await free.wait()

    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.focused is not None)
        assert app.focused is not None
        app.focused.call_later(wait)
        await stuck.wait()
        burst(pilot, "d")
        app.call_later(app.screen.set_focus, None)
        burst(pilot, "o")
        passed = asyncio.Event()
        app.call_later(passed.set)
        await passed.wait()
        assert not isinstance(app.screen, LogScreen)
        now += 2
        burst(pilot, "o")
        while not isinstance(app.screen, LogScreen):
            await asyncio.sleep(0.005)
        free.set()
        await until(pilot, lambda: not isinstance(app.screen, LogScreen))


@pytest.mark.parametrize("keys", ["\x7f" * 1000, "/", "/tmp\r"], ids=["much", "field", "path"])
async def test_what_was_typed_behind_q_goes_with_the_app(app: TuitrainApp, keys: str) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        burst(pilot, "q" + keys)
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0


async def test_clicks_behind_the_end_open_no_field(app: TuitrainApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*["down"] * 5)
        row = next(y for y, line in enumerate(screen_text(app).splitlines()) if "max steps" in line)
        app.exit()
        for kind in (MouseDown, MouseUp) * 2:
            app.post_message(kind(None, 22, row, 0, 0, 1, False, False, False, screen_x=22, screen_y=row))
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0


async def test_the_cursor_of_a_field_stands_still(app: TuitrainApp) -> None:
    """One that blinks is painted, and sent over the network, twice a second."""
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*["down"] * 6, "6")
        await until(pilot, lambda: isinstance(app.focused, Input))
        assert isinstance(app.focused, Input)
        assert not app.focused.cursor_blink
        assert app.focused._cursor_visible
