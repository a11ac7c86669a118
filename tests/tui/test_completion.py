"""The rest of a path that is typed as the data, or as a file of weights."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn
from kept_runs import until, until_shown

from tuitrain.paths import WEIGHTS
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.launch.completion import begun
from tuitrain.tui.widgets.form_pane import PATHS
from tuitrain.tui.widgets.launcher import Launcher


@pytest.fixture
def places(tmp_path: Path) -> Path:
    for name in ("data/animals/train", "data/animals/test", "data/anthill", "data/.hidden", "data/bad\x1b[31m", "data/spa ce"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data" / "animal.txt").write_text("a file")
    os.mkdir(os.fsencode(tmp_path) + b"/data/caf\xe9")
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "rest"),
    [
        ("a", "nimals"),
        ("an", "imals"),
        ("ant", "hill"),
        ("animals/te", "st"),
        ("animals", ""),
        (".h", "idden"),
        ("spa", " ce"),
        ("b", None),
        ("c", None),
        ("x", None),
        ("", None),
        ("animals/", None),
        ("nowhere/a", None),
        ("animal.txt/a", None),
        ("a\0b/c", None),
    ],
)
def test_the_first_folder_that_begins_so(places: Path, typed: str, rest: str | None) -> None:
    assert begun(f"{places}/data/{typed}") == (None if rest is None else f"{places}/data/{typed}{rest}")


def test_files_of_weights_are_offered_where_they_are_asked_for(places: Path) -> None:
    for name in ("an.txt", "ana.pt", "anb.safetensors"):
        (places / "data" / name).touch()
    assert begun(f"{places}/data/an") == f"{places}/data/animals"
    assert begun(f"{places}/data/an", WEIGHTS) == f"{places}/data/ana.pt"
    assert begun(f"{places}/data/anb", WEIGHTS) == f"{places}/data/anb.safetensors"
    assert begun(f"{places}/data/ani", WEIGHTS) == f"{places}/data/animals"


def test_the_data_row_offers_files_of_arrays_too(places: Path) -> None:
    (places / "data" / "digits.npz").touch()
    assert begun(f"{places}/data/di", PATHS["data"]) == f"{places}/data/digits.npz"
    assert begun(f"{places}/data/di", PATHS["weights"]) is None


def test_a_word_is_no_path_and_the_home_is_known(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(places / "data"))
    monkeypatch.chdir(places)
    assert begun("dat") is None
    assert begun("~") is None
    assert begun("./dat") == "./data"
    assert begun("~/ani") == "~/animals"
    assert begun("/") is None


def test_a_folder_of_very_many_files_is_not_read_to_its_end(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuitrain.files._MOST_ENTRIES", 0)
    assert begun(f"{places}/data/a") is None


async def test_tab_takes_the_rest_that_is_shown(
    session: FakeSession, sampler: FakeSampler, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(places)
    app = TuitrainApp(session, sampler, seed_cnn(), places / "runs")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", *"./data/a")
        await until_shown(pilot, "./data/animals", "Tab completes it")
        await pilot.press("tab")
        launcher = app.main.query_one(Launcher)
        await until(pilot, lambda: launcher.form.text("data") == "./data/animals")
        await until_shown(pilot, "data: a folder with train/ and test/")
        assert launcher.editing
        await pilot.press("tab")
        await until(pilot, lambda: not launcher.editing)
        assert launcher.form.config.data == "./data/animals"
        await until_shown(pilot, "▸device")
        assert "--data ./data/animals" in " ".join(screen_text(app).split())
