"""Keys that come faster than the screen follows, as a whole word in one packet over SSH."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn, settle
from kept_runs import keep, until, until_shown
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input

from tuitrain.events import Notice
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.log import LogScreen
from tuitrain.tui.screens.runs import RunsScreen


@pytest.fixture
def app(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), tmp_path / "runs")


def burst(pilot: Pilot[None], keys: str) -> None:
    """All keys at once, none waits for what the one before brings."""
    names = {"/": "slash", " ": "space", "\r": "enter"}
    for character in keys:
        pilot.app.post_message(Key(names.get(character, character), character))


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


async def test_the_cursor_of_a_field_stands_still(app: TuitrainApp) -> None:
    """One that blinks is painted, and sent over the network, twice a second."""
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*["down"] * 6, "6")
        await until(pilot, lambda: isinstance(app.focused, Input))
        assert isinstance(app.focused, Input)
        assert not app.focused.cursor_blink
        assert app.focused._cursor_visible
