"""How many keys a job takes, from the first screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeSampler, FakeSession, seed_cnn
from kept_runs import until, until_shown
from textual.pilot import Pilot
from tour import keep_three, strike

from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.compare import CompareScreen

SIZE = (80, 24)


@pytest.fixture
def app(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> TuitrainApp:
    keep_three(tmp_path / "runs")
    return TuitrainApp(session, sampler, seed_cnn(), tmp_path / "runs")


async def training(pilot: Pilot[None], session: FakeSession) -> None:
    """One key starts what is proposed."""
    await strike(pilot, "enter")
    await until(pilot, lambda: session.started == [seed_cnn()])
    session.begin()
    session.steps(10)
    await until_shown(pilot, "space Pause", "x Stop")


async def test_start_pause_and_stop_are_one_key_each(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await training(pilot, session)
        await strike(pilot, "space")
        await until(pilot, lambda: session.asked == ["pause"])
        await until_shown(pilot, "space Go on")
        await strike(pilot, "x")
        await until(pilot, lambda: session.asked == ["pause", "stop"])


async def test_copying_the_command_line_is_one_key(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await strike(pilot, "y")
        await until(pilot, lambda: app.clipboard == "tuitrain run seed-cnn")
        app._clipboard = ""
        await training(pilot, session)
        await strike(pilot, "y")
        await until(pilot, lambda: app.clipboard == "tuitrain run seed-cnn")


async def test_overlaying_two_runs_is_five_keys_at_most(app: TuitrainApp) -> None:
    keys = ("r", "space", "space", "v")
    assert len(keys) <= 5
    async with app.run_test(size=SIZE) as pilot:
        await strike(pilot, keys[0])
        await until_shown(pilot, "Runs 3")
        await strike(pilot, *keys[1:])
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        await until_shown(pilot, "1 alpha", "2 beta")


async def test_an_old_run_is_found_by_a_word_of_its_name(app: TuitrainApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await strike(pilot, "r")
        await until_shown(pilot, "Runs 3")
        await pilot.press("slash", *"gam", "enter")
        await until_shown(pilot, "▸ ▢ ✓ finished    gamma")
