"""A run with a target accuracy: its clock, the target and when it was crossed, on a line that is there from the first moment on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn, settle

from tuitrain.events import Clock
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.widgets.curve import Curve

TRAINED = Clock(step=391, seconds=12.3456, target=0.94)
CROSSED = msgspec.structs.replace(TRAINED, step=476, seconds=13.5, crossed_epoch=9, crossed_seconds=12.3)


def line(app: TuitrainApp) -> str:
    return next((row for row in screen_text(app).splitlines() if "clock " in row), "")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_clock_the_target_and_the_crossing(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    config = msgspec.structs.replace(seed_cnn(), target_accuracy=0.94)
    app = TuitrainApp(session, sampler, config, Path("runs"))
    async with app.run_test(size=size) as pilot:
        await pilot.press("enter")
        await settle(pilot)
        assert "clock       - of training · target 94 % not reached yet" in line(app)
        places = []
        for clock, words in (
            (TRAINED, "clock 12.35 s of training · target 94 % not reached yet"),
            (CROSSED, "clock 13.50 s of training · 94 % crossed at epoch 9, 12.30 s"),
        ):
            if not places:
                session.begin()
            session.steps(100)
            session.say(clock)
            await settle(pilot)
            assert words in line(app)
            places.append(app.screen.query_one(Curve).region)
        assert places[0] == places[1], "the curve stays where it is"
        assert places[0].height >= 9
        session.end("finished")
        await settle(pilot)
        assert "94 % crossed at epoch 9" in line(app)


async def test_a_target_that_was_not_reached(session: FakeSession, sampler: FakeSampler) -> None:
    app = TuitrainApp(session, sampler, msgspec.structs.replace(seed_cnn(), target_accuracy=0.945), Path("runs"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        session.begin()
        session.steps(100)
        session.say(msgspec.structs.replace(TRAINED, target=0.945, seconds=815.26))
        session.end("finished")
        await settle(pilot)
        assert "clock 815.3 s of training · target 94.5 % not reached " in line(app)
        assert "yet" not in line(app)


async def test_without_a_target_there_is_no_clock(session: FakeSession, sampler: FakeSampler) -> None:
    app = TuitrainApp(session, sampler, seed_cnn(), Path("runs"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        session.begin()
        session.steps(100)
        await settle(pilot)
        assert not line(app)
