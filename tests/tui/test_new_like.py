"""A new run with the settings of one that is kept, or with its weights too."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn
from kept_runs import keep, until, until_shown, until_told
from test_launcher import changed, launcher

from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.opened import OpenedScreen
from tuitrain.tui.screens.runs import RunsScreen

RUN = "20261120-0413-seed-cnn-aaa"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def app(session: FakeSession, sampler: FakeSampler, runs: Path) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), runs)


@pytest.mark.parametrize("opened", [False, True], ids=["in the list", "opened"])
async def test_a_new_run_has_the_settings_of_another_one(app: TuitrainApp, session: FakeSession, runs: Path, opened: bool) -> None:
    had = changed(lr=0.3, optimizer="adam", batch_size=32, name="first try", note="too fast", device="cpu", strategy="single")
    keep(runs, RUN, config=had)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "first try")
        if opened:
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, OpenedScreen) and app.screen.opened.record is not None)
        await pilot.press("u")
        await until_told(pilot, f"The settings are those of {RUN}.")
        await until(pilot, lambda: app.screen is app.main)
        assert app.main.view == "launch"
        assert "batch size     32" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: session.started != [])
        assert session.started == [changed(lr=0.3, optimizer="adam", batch_size=32, name="first try", device="cpu", strategy="single")]


@pytest.mark.parametrize("best", [True, False])
async def test_a_new_run_begins_with_the_weights_of_another_one(app: TuitrainApp, runs: Path, best: bool) -> None:
    checkpoints = keep(runs, RUN, steps=40) / "checkpoints"
    (checkpoints / "step-00000020").mkdir()
    (checkpoints / "step-00000020" / "manifest.json").write_text('{"step": 20, "kind": "epoch"}')
    (checkpoints / "step-00000060").mkdir()  # which is being removed
    if best:
        (checkpoints / "best").write_text("step-00000020")
    name = "step-00000020" if best else "step-00000040"
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        await until_shown(pilot, RUN)
        await pilot.press("U")
        await until_told(pilot, f"those of {RUN}, and so are the weights to begin with, the {'best' if best else 'newest'}: {name}.")
        assert launcher(app).form.config.weights == str(checkpoints / name / "model.safetensors")


async def test_a_run_of_the_app_itself_is_one_too(app: TuitrainApp, session: FakeSession, runs: Path) -> None:
    path = keep(runs, RUN, config=changed(lr=0.3))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("enter")
        session.begin()
        await pilot.press("u")
        await pilot.pause()
        assert app.main.view == "run", "it has no folder yet"
        assert session.record is not None
        session.record.path = path
        await pilot.press("U")
        await until_told(pilot, f"those of {RUN}, and so are the weights to begin with, the newest: step-00000040.")
        assert app.main.view == "launch"
        assert launcher(app).form.config.lr == 0.3


async def test_a_run_without_weights_or_settings_says_so(app: TuitrainApp, runs: Path) -> None:
    path = keep(runs, RUN, steps=0)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until_shown(pilot, RUN)
        await pilot.press("U")
        await until_told(pilot, f"{RUN} has kept no weights with which a new run could begin.")
        (path / "run.toml").write_text("lr = fast")
        await pilot.press("u")
        await until_told(pilot, "run.toml")
        assert isinstance(app.screen, RunsScreen)
        assert launcher(app).form.config == seed_cnn()


async def test_what_was_typed_in_the_launcher_is_gone(app: TuitrainApp, runs: Path) -> None:
    keep(runs, RUN, config=changed(lr=0.3))
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "Enter trains")
        await pilot.press("end", "up", "up", "up", *"7x")
        await until_shown(pilot, "lr: '7x' is not allowed")
        # As from the palette, whose keys a field leaves to it.
        await app.run_action("runs")
        await until_shown(pilot, RUN)
        await pilot.press("u")
        await until_told(pilot, "The settings are those of")
        assert not launcher(app).editing
        assert (launcher(app).form.drafts, launcher(app).form.config) == ({}, changed(lr=0.3))


async def test_seed_says_what_it_draws(app: TuitrainApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "seed           0                the weights; the order is fixed")
        app.main.propose(changed(weights="best.pt"))
        await until_shown(pilot, "seed           0                weights without a file; the order is fixed")
