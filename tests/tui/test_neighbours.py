"""The runs of other processes in the line that says what Enter does."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from fakes import FakeOutside, FakeSampler, FakeSession, card, cpu_sampler, said, screen_text, seed_cnn
from kept_runs import here, keep, until
from textual.pilot import Pilot

from tuitrain.config import RunConfig
from tuitrain.runs import queue
from tuitrain.runs.status import InQueue
from tuitrain.runs.summary import RunSummary
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.launch import neighbours
from tuitrain.tui.launch.neighbours import Neighbours

SIZES = [(80, 24), (100, 30), (120, 40), (200, 60)]
OTHER, SECOND = "20261121-0413-seed-cnn-aaa", "20261121-0415-seed-cnn-bbb"


@pytest.fixture(autouse=True)
def _at_each_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(neighbours, "_SHARE", 1.0)


def make(session: FakeSession, runs_dir: Path, *, sampler: FakeSampler | None = None, config: RunConfig | None = None) -> TuitrainApp:
    return TuitrainApp(session, sampler or cpu_sampler(), config or seed_cnn(), runs_dir, outside=FakeOutside())


def trains(runs_dir: Path, run: str = OTHER, **status: object) -> Path:
    """A run that another live process seems to train on the CPU."""
    return keep(runs_dir, run, **here(**{"pid": os.getppid(), "pid_started": None, **status}))


async def looked(pilot: Pilot[None]) -> None:
    """A beat, and what it lets read."""
    app = pilot.app
    assert isinstance(app, TuitrainApp)
    app.main.beat()
    await pilot.pause()
    await app.workers.wait_for_complete()
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
async def test_enter_says_beside_whom_it_trains_and_trains(session: FakeSession, runs_dir: Path, size: tuple[int, int]) -> None:
    folder = trains(runs_dir)
    app = make(session, runs_dir)
    async with app.run_test(size=size) as pilot:
        sentence = f"Enter trains seed-cnn on cpu, beside {OTHER}, which trains there, with the built-in synthetic data"
        await until(pilot, lambda: sentence in " ".join(strip.text.strip("│ ") for strip in app.main._launcher._shown))
        status = msgspec.json.decode((folder / "state.json").read_bytes())
        (folder / "state.json").write_bytes(msgspec.json.encode({**status, "state": "finished"}))
        await looked(pilot)
        assert "beside" not in screen_text(app)
        await pilot.press("enter")
        assert len(session.started) == 1
        assert app.screen is app.main


@pytest.mark.parametrize(
    "status",
    [
        {"state": "finished"},
        {"device": ["cuda:0"]},
        {"host": "elsewhere"},
        {"pid": 2**22 + 1},
        {"pid": os.getpid()},
        {"state": "queued", "queue": InQueue(since=1.0, words="waits for cpu")},
    ],
    ids=["ended", "other-device", "other-host", "gone", "own", "waits"],
)
async def test_whoever_is_in_nobodys_way_is_not_named(session: FakeSession, runs_dir: Path, status: dict[str, object]) -> None:
    folder = trains(runs_dir, SECOND)
    trains(runs_dir, **status)
    app = make(session, runs_dir)
    async with app.run_test(size=(200, 60)) as pilot:
        await looked(pilot)
        assert f"on cpu, beside {SECOND}, which trains there, with" in screen_text(app)
        (folder / "state.json").unlink()
        await looked(pilot)
        assert "Enter trains seed-cnn on cpu with" in screen_text(app)


async def test_beside_the_apps_own_run_enter_asks_and_names_nobody_before(session: FakeSession, runs_dir: Path) -> None:
    trains(runs_dir)
    app = make(session, runs_dir)
    async with app.run_test(size=(200, 60)) as pilot:
        await looked(pilot)
        await pilot.press("enter")
        session.begin()
        await until(pilot, lambda: app.main.view == "run")
        await pilot.press("n")
        await until(pilot, lambda: "Enter trains seed-cnn in the background on cpu with" in said(app))


async def test_a_disk_that_does_not_answer_holds_no_key_up_and_is_asked_once(
    session: FakeSession, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers, live_here = [], threading.Event(), queue.live_here

    def slow(folder: Path) -> list[RunSummary]:
        asked.append(folder)
        assert answers.wait(60)
        return live_here(folder)

    monkeypatch.setattr(queue, "live_here", slow)
    trains(runs_dir)
    app = make(session, runs_dir)
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: bool(asked))
        for _ in range(3):
            app.main.beat()
            await pilot.press("down")
        assert app.main._launcher.cursor == 3
        assert len(asked) == 1
        answers.set()
        await until(pilot, lambda: f"beside {OTHER}" in screen_text(app))


async def test_a_folder_that_cannot_be_read_names_nobody(session: FakeSession, runs_dir: Path) -> None:
    runs_dir.touch()
    app = make(session, runs_dir)
    async with app.run_test(size=(200, 60)) as pilot:
        await looked(pilot)
        assert "Enter trains seed-cnn on cpu with" in screen_text(app)
        assert not app._notifications


async def test_many_runs_are_looked_at_less_often(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(neighbours, "_LEAST_SECONDS", 5.0)
    monkeypatch.setattr(neighbours, "_SHARE", 0.01)
    monkeypatch.setattr(neighbours, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def slow(folder: Path) -> list[RunSummary]:
        clock[0] += 0.2
        return []

    monkeypatch.setattr(queue, "live_here", slow)
    seen = Neighbours(runs_dir)
    assert seen.due
    await seen.look()
    clock[0] = 119.0
    assert not seen.due
    seen.expire()
    assert seen.due
    clock[0] = 120.5
    assert seen.due


async def test_of_several_devices_those_are_named_on_which_others_train(session: FakeSession, runs_dir: Path) -> None:
    trains(runs_dir, device=["cuda:1"], state="paused")
    trains(runs_dir, SECOND, device=["cuda:1", "cuda:3"])
    config = msgspec.structs.replace(seed_cnn(), device="cuda:0,cuda:1")
    app = make(session, runs_dir, sampler=FakeSampler(*(card(index) for index in range(4))), config=config)
    async with app.run_test(size=(200, 60)) as pilot:
        await looked(pilot)
        words = app.main._launcher._neighbours.words
        assert f"on cuda:0, cuda:1 (ddp), beside {OTHER}, which is paused on cuda:1, and 1 more, with" in screen_text(app)
        assert words(("cuda:3",)) == f", beside {SECOND}, which trains there,"
        assert words(("cuda:0", "cuda:2")) == ""
