"""Recipes of the person's own in the launcher: which files are offered, what they bring, and what is said of wrong and edited ones."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn
from kept_runs import until, until_shown, until_told
from textual.pilot import Pilot

from tuitrain.config import RECIPES, RunConfig
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.launch.own_recipes import own_recipes
from tuitrain.tui.widgets.launcher import Launcher

GOOD = 'recipe = "seed-cnn"\nlr = 0.05\nepochs = 2\n'
WRONG = 'recipe = "seed-cnn"\nlr = "fast"\n'
SENTENCE = "wrong.toml: lr: 'fast' is not allowed; it must be a number above 0."


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which tuitrain was started."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@asynccontextmanager
async def chosen(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Pilot[None], Launcher]]:
    """The app with the folder's only recipe chosen, and its launcher."""
    app = TuitrainApp(session, sampler, seed_cnn(), Path("runs"))
    async with app.run_test(size=size) as pilot:
        launcher = app.screen.query_one(Launcher)
        await until(pilot, lambda: len(launcher.form.options("recipe")) == len(RECIPES) + 1)
        await pilot.press("left")
        yield pilot, launcher


# -- which files ------------------------------------------------------------------------------------------------------


def test_files_that_set_a_field_are_recipes_and_others_are_not(here: Path) -> None:
    (here / "good.toml").write_text(GOOD)
    (here / "wrong.toml").write_text(WRONG)
    (here / "broken.toml").write_text('lr = "0.1\n')
    (here / "bare.toml").write_text("  epochs=3")
    (here / "pyproject.toml").write_text('[project]\nname = "x"\nlr = 3\n')
    (here / "named.toml").write_text('name = "x"\nversion = "1"\n')
    (here / "a\x1b[2J.toml").write_text(GOOD)
    (here / "large.toml").write_text(GOOD + "#" * 70_000)
    (here / "folder.toml").mkdir()
    os.mkfifo(here / "pipe.toml")
    (here / "gone.toml").symlink_to(here / "nowhere.toml")
    (here / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    found = {recipe.name: (recipe.config is not None, recipe.problem) for recipe in own_recipes()}
    assert list(found) == ["bare.toml", "broken.toml", "good.toml", "wrong.toml"]
    assert found["good.toml"] == (True, "")
    assert found["wrong.toml"] == (False, SENTENCE)
    assert found["broken.toml"][1].startswith("broken.toml: this is not valid TOML")


def test_of_a_folder_that_cannot_be_read_there_are_none(here: Path) -> None:
    (here / "gone").mkdir()
    os.chdir(here / "gone")
    (here / "gone").rmdir()
    assert own_recipes() == ()


def test_of_many_files_some_are_read(here: Path) -> None:
    for number in range(60):
        (here / f"{number:02}.toml").write_text(GOOD)
    assert [recipe.name for recipe in own_recipes()] == [f"{number:02}.toml" for number in range(50)]


# -- in the launcher --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_recipe_of_ones_own_is_chosen_and_started(
    session: FakeSession, sampler: FakeSampler, here: Path, size: tuple[int, int]
) -> None:
    (here / "good.toml").write_text(GOOD)
    async with chosen(session, sampler, size) as (pilot, _):
        text = await until_shown(pilot, "‹ good.toml ›", "for sgd; seed-cnn has 0.01", "400 steps", "tuitrain run seed-cnn --epochs 2")
        assert size[0] == 80 or "good.toml: a recipe of your own" in text
        await pilot.press("enter")
        assert [(config.name, config.lr, config.epochs) for config in session.started] == [("good", 0.05, 2)]


async def test_another_recipe_brings_its_own_values_back(session: FakeSession, sampler: FakeSampler, here: Path) -> None:
    (here / "good.toml").write_text(f'{GOOD}device = "cpu,cpu"\nmodel = "nets:make"\n')
    async with chosen(session, sampler) as (pilot, launcher):
        form = launcher.form
        assert (form.config.model, form.config.device, form.config.name) == ("nets:make", "cpu,cpu", "good")
        await pilot.press("right")
        assert form.config == seed_cnn()
        # What the person has typed and chosen stays.
        form.set_text("name", "mine")
        form.set_text("device", "cpu")
        await pilot.press("left")
        assert (form.config.model, form.config.device, form.config.name) == ("nets:make", "cpu", "mine")


async def test_a_wrong_one_says_what_is_wrong_and_does_not_start_until_it_is_mended(
    session: FakeSession, sampler: FakeSampler, here: Path
) -> None:
    (here / "wrong.toml").write_text(WRONG)
    async with chosen(session, sampler) as (pilot, launcher):
        text = await until_shown(pilot, "‹ wrong.toml ›", "✗ see the sentence below")
        assert f"✗ recipe: {SENTENCE}"[:60] in text
        await pilot.press("enter")
        await until_told(pilot, "A field is not right yet")
        assert session.started == []
        (here / "wrong.toml").write_text(GOOD)
        pilot.app.screen.beat()  # type: ignore[attr-defined]
        await until(pilot, lambda: launcher.form.config.lr == 0.05)
        assert launcher.form.ready
        assert "✗" not in screen_text(pilot.app)


async def test_a_wrong_one_is_left_by_the_next_choice(session: FakeSession, sampler: FakeSampler, here: Path) -> None:
    (here / "wrong.toml").write_text(WRONG)
    async with chosen(session, sampler) as (pilot, launcher):
        await pilot.press("right")
        assert launcher.form.ready
        assert launcher.form.text("recipe") == "seed-cnn"


@pytest.mark.parametrize(("rows_changed", "lr"), [(False, 0.2), (True, 0.05)])
async def test_an_edited_one_is_read_again_where_nothing_was_changed_since(
    session: FakeSession, sampler: FakeSampler, here: Path, rows_changed: bool, lr: float
) -> None:
    (here / "good.toml").write_text(GOOD)
    async with chosen(session, sampler) as (pilot, launcher):
        if rows_changed:
            launcher.form.set_text("seed", "3")
        (here / "good.toml").write_text(GOOD.replace("0.05", "0.2"))
        pilot.app.screen.beat()  # type: ignore[attr-defined]
        await until(pilot, lambda: getattr(launcher.form._own["good.toml"].config, "lr", None) == 0.2)
        assert launcher.form.config.lr == lr
        await pilot.press("enter")
        assert [config.lr for config in session.started] == [lr]
        told = "good.toml was edited since tuitrain read it: this run has what the launcher shows."
        if rows_changed:
            await until_told(pilot, told)


async def test_the_last_launch_is_no_file(session: FakeSession, sampler: FakeSampler, here: Path) -> None:
    (here / "good.toml").write_text(GOOD)
    async with chosen(session, sampler) as (_, launcher):
        launcher.form.take(RunConfig(recipe="transformer"))
        assert launcher.form.text("recipe") == "transformer"
        assert launcher.form.recipe_file is None
