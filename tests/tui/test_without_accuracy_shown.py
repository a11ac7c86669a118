"""The screens of runs whose targets are numbers, or classes of positions."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from fakes import RUN, FakeSampler, FakeSession, screen_text, seed_cnn, settle, started
from test_compare_screen import compared, keep, pressed

from tuitrain.events import Eval, State, Targets
from tuitrain.tui.app import TuitrainApp


def begin(session: FakeSession, targets: Targets) -> None:
    session.begin()
    start = msgspec.structs.replace(started(run=RUN), targets=targets)
    session.say(start, State(state="running"))


def evaluate(session: FakeSession, loss: float) -> None:
    assert session.record is not None
    session.say(Eval(step=session.record.step, epoch=1, loss=loss, loss_sum=loss, accuracy=math.nan))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_where_targets_are_numbers_the_test_loss_is_what_counts(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int]
) -> None:
    app = TuitrainApp(session, sampler, seed_cnn(), Path("runs"))
    async with app.run_test(size=size) as pilot:
        await pilot.press("enter")
        begin(session, "numbers")
        session.steps(100)
        await settle(pilot)
        assert "accuracy" not in screen_text(app)
        for loss in (0.25, 0.125, 0.5):
            evaluate(session, loss)
            session.steps(10)
        session.end()
        await settle(pilot)
        assert "test  0.500  best 0.125" in screen_text(app)
        await pilot.press("m")
        await settle(pilot)
        assert "the targets are numbers, so there is no accuracy" in screen_text(app)
        await pilot.press("p")
        await settle(pilot)
        assert "The targets of this run are numbers, of which none is simply right" in screen_text(app)


async def test_answers_for_positions_are_not_shown_and_that_is_said(session: FakeSession, sampler: FakeSampler) -> None:
    app = TuitrainApp(session, sampler, seed_cnn(), Path("runs"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("enter")
        begin(session, "positions")
        session.steps(100)
        session.evaluate()
        await pilot.press("p")
        await settle(pilot)
        assert "Each sample of this run has several classes, one for each of its positions" in screen_text(app)


async def test_runs_are_compared_by_what_they_have(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    near = keep(runs_dir, "near", tests=(0.5, 0.125, 0.25), targets="numbers", loss="mse", per_epoch=10)
    far = keep(runs_dir, "far", tests=(0.75, 0.5), targets="numbers", loss="mse", per_epoch=10)
    app = TuitrainApp(session, sampler, seed_cnn(), Path("runs"))
    async with app.run_test(size=(120, 40)) as pilot:
        text = await compared(pilot, [near, far], "best test loss")
        assert "best accuracy" not in text
        assert next(line for line in text.splitlines() if "best test loss" in line).split()[4:6] == ["0.125", "0.500"]
        assert "targets are numbers" in await pressed(pilot, "m", "m")
        await pilot.press("escape")
        text = await compared(pilot, [near, keep(runs_dir, "classes")], "best test loss")
        line = next(line for line in text.splitlines() if "best accuracy" in line)
        assert "targets are numbers" in line
        assert "60.0 %" in line
