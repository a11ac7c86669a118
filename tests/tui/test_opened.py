"""A run opened from its folder: what it shows at each size, while another process trains it, and when files go away."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

import msgspec
import pytest
from fakes import GIB, FakeSampler, FakeSession, card, screen_text, seed_cnn
from kept_runs import here, keep, resize, until, until_shown, until_told
from textual.pilot import Pilot

from tuitrain.config import with_changes
from tuitrain.devices import ProcessSample
from tuitrain.events import GpuSample, Parameter, Parameters, Predictions
from tuitrain.paths import METRICS
from tuitrain.recipes import load_recipe
from tuitrain.runs.label import annotate
from tuitrain.runs.network import write_network
from tuitrain.runs.process import start_time
from tuitrain.runs.settings import changed, left_open, settings_of
from tuitrain.runs.store import MetricsWriter
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.browse.opened_run import OpenedRun
from tuitrain.tui.screens.help import HelpScreen
from tuitrain.tui.screens.log import LogScreen
from tuitrain.tui.screens.opened import OpenedScreen
from tuitrain.tui.screens.runs import RunsScreen
from tuitrain.tui.screens.settings import SettingsScreen
from tuitrain.tui.widgets.curve import Curve

SIZES = [(80, 24), (120, 40), (200, 60)]
WIDE = (120, 40)
ID = "20261121-0413-seed-cnn-aaa"


def make(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), runs_dir)


async def open_first(pilot: Pilot[None], *texts: str) -> str:
    """Open the newest run, and wait for what it shows."""
    await pilot.press("r")
    await until_shown(pilot, "Selected")
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, OpenedScreen))
    return await until_shown(pilot, *texts)


@pytest.mark.parametrize("size", SIZES)
async def test_everything_that_is_known_of_the_run(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int]
) -> None:
    keep(runs_dir, ID, config=with_changes(seed_cnn(), {"name": "alpha", "lr": 0.05, "device": "cpu"}))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=size) as pilot:
        text = await open_first(pilot, f"✓ {ID}  finished", "┤", "●")
        for words in ("alpha · built-in synthetic data (640)", "step 40/40", "accuracy 62.5 %", "[64, 3, 32, 32] → [64, 10]", "Loss"):
            assert words in text
        settings = ("Changed from seed-cnn", "lr ", "0.05", "Left open by seed-cnn", "s all of it")
        for words in (*settings, "Checkpoints", "3.0 MiB", "finished at step 40"):
            assert (words in text) == (size[0] >= 100), words
        lines = text.splitlines()
        assert (len(lines), {len(line) for line in lines}) == (size[1], {size[0]})
        assert app.screen.focused is app.screen.query_one(Curve)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))


@pytest.mark.parametrize("size", SIZES)
async def test_settings_and_checkpoints_in_full(session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int]) -> None:
    path = keep(runs_dir, ID, config=with_changes(seed_cnn(), {"max_steps": 40}))
    annotate(path, "a note that is quite long " * 8)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=size) as pilot:
        await open_first(pilot, "step 40/40")
        await pilot.press("s")
        text = await until_shown(pilot, "Settings and checkpoints", "checkpoints/step-00000040")
        assert text.count("max steps") == 1, "what differs from the recipe is not said to be as in it"
        assert isinstance(app.screen, SettingsScreen)
        seen = text
        for _ in range(8):
            await pilot.press("pagedown")
            seen += screen_text(app)
        for words in ("As in seed-cnn", "optimizer", "Environment", "threads", "torch", "2.9.0", str(path)[:20]):
            assert words in seen
        end = screen_text(app)
        assert "more" not in end.splitlines()[1]
        await pilot.press("home", "down", "up", "j", "k", "end")
        assert screen_text(app) == end
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, OpenedScreen))


async def test_the_keys_of_the_curve_work(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    keep(runs_dir, ID)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_first(pilot, "linear")
        await pilot.press("l")
        await until_shown(pilot, "l log")
        await pilot.press("left")
        await until_shown(pilot, "step 40 · epoch 1")
        await pilot.press("escape")
        await until(pilot, lambda: "step 40 · epoch 1" not in screen_text(app))
        assert isinstance(app.screen, OpenedScreen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))


async def test_log_and_copy(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    keep(runs_dir, ID, config=with_changes(seed_cnn(), {"name": "alpha"}))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_first(pilot, "step 40/40")
        await pilot.press("y")
        assert app.clipboard == "tuitrain run seed-cnn --name alpha"
        await until_told(pilot, "copied")
        await pilot.press("o")
        await until_shown(pilot, "finished at step 40", ID)
        assert isinstance(app.screen, LogScreen)
        await pilot.press("escape")
        assert isinstance(app.screen, OpenedScreen)


async def test_a_run_of_another_process_is_followed(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    path = keep(runs_dir, ID, **here())
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(200, 60)) as pilot:
        await open_first(pilot, f"● {ID}  running", "ETA")
        state = msgspec.json.decode((path / "state.json").read_bytes())
        (path / "state.json").write_bytes(msgspec.json.encode({**state, "state": "paused"}))
        await until_shown(pilot, "‖ paused · by another process")
        (path / "state.json").write_bytes(msgspec.json.encode({**state, "state": "failed", "error": "step 40: out of memory"}))
        await until_shown(pilot, "✗ failed", "step 40: out of memory", "o shows the log")
        await pilot.press("space", "x", "escape")
        assert not session.asked


async def test_its_card_is_not_called_busy_with_the_process_that_trains_it(session: FakeSession, runs_dir: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as host:
        keep(runs_dir, ID, **here(pid=host.pid, pid_started=start_time(host.pid)))
        theirs = ProcessSample(pid=host.pid, name="tuitrain", user="me", memory=GIB)
        alices = ProcessSample(pid=2**22 + 1, name="python", user="alice", memory=GIB)
        app = make(session, FakeSampler(card(0, processes=(theirs,)), card(1, processes=(alices,))), runs_dir)
        async with app.run_test(size=WIDE) as pilot:
            await until_shown(pilot, "busy: me tuitrain", "busy: alice python")
            await open_first(pilot, "busy: alice python")
            await until(pilot, lambda: "busy: me" not in screen_text(app))


async def test_what_shows_more_of_a_run_of_another_process_follows_it(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log, the predictions and the parameters lie over the screen that reads the run."""
    monkeypatch.setattr("tuitrain.tui.screens.base.BEAT_SECONDS", 0.1)
    path = keep(runs_dir, ID, **here())
    state = msgspec.json.decode((path / "state.json").read_bytes())
    app = make(session, sampler, runs_dir)

    def trains_for(minutes: int) -> str:
        (path / "state.json").write_bytes(msgspec.json.encode({**state, "running_seconds": 60.0 * minutes}))
        return f"running 00:{minutes:02}:00"

    async with app.run_test(size=(80, 24)) as pilot:
        await open_first(pilot, f"● {ID}  running")
        await pilot.press("o")
        await until_shown(pilot, "following", "step 40")
        with (path / "log.txt").open("a") as log:
            log.write("2026-11-21T04:13:00.000Z output printed by the other process\n")
        await until_shown(pilot, "printed by the other process", trains_for(1))
        await pilot.press("escape", "p")
        await until_shown(pilot, "The next evaluation")
        write_network(path, Predictions(step=80, epoch=2, classes=("cat", "dog"), confusion=((3, 1), (0, 4)), samples=()))
        await until_shown(pilot, "after epoch 2 · step 80", trains_for(2))
        await pilot.press("escape", "w")
        await until_shown(pilot, "Parameters")
        write_network(path, Parameters(rows=(Parameter(name="head.weight", shape=(10, 64), count=640, device="cpu", trainable=True),)))
        await until_shown(pilot, "head.weight", trains_for(3))


async def test_what_the_devices_of_a_long_run_did_is_read_on_while_the_run_is_shown(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("reader", "stored"):
        monkeypatch.setattr(f"tuitrain.runs.{module}.PAGE_ROWS", 10)
    writer = MetricsWriter(keep(runs_dir, ID) / METRICS)
    fields = {"device": "cpu", "memory_used": 5, "utilization": 50, "power": None, "temperature": None}
    writer.append([GpuSample(time=1000.0 + second, **fields) for second in range(35)])
    writer.close()
    async with make(session, sampler, runs_dir).run_test(size=WIDE) as pilot:
        await open_first(pilot, f"✓ {ID}  finished")
        screen = pilot.app.screen
        assert isinstance(screen, OpenedScreen)
        await until(pilot, lambda: len(screen.opened.record.devices["cpu"]) == 35)


async def test_a_live_run_whose_folder_goes_away_stays_as_it_was(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    path = keep(runs_dir, ID, **here())
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await open_first(pilot, f"● {ID}  running")
        shutil.rmtree(path)
        screen = app.screen
        assert isinstance(screen, OpenedScreen)
        await until(pilot, lambda: screen.opened.problem is not None)
        await until_told(pilot, f"{ID} is not there any more.")
        await until_shown(pilot, f" view only {ID} is not there any more.")
        await pilot.press("l", "plus", "m", "left", "s", "escape", "escape", "escape")
        assert app.is_running


@pytest.mark.parametrize("size", SIZES)
async def test_a_run_without_a_step(session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int]) -> None:
    keep(runs_dir, ID, steps=0, state="lost")
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=size) as pilot:
        text = await open_first(pilot, "◌ lost", "The process that trained it is gone", "no step was made, so there are no shapes")
        assert "no checkpoint was written" in text or size[0] < 100
        await pilot.press("l", "plus", "m", "z", "left", "s", "down", "end", "s", "y", "w", "escape", "o", "escape")
        assert app.is_running


async def test_a_damaged_configuration_is_a_sentence(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    path = keep(runs_dir, ID)
    (path / "run.toml").write_text("lr = [red]")
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_first(pilot, "✗ ", "run.toml", "this is not valid TOML")
        await pilot.press("s", "c", "y", "l", "plus", "o", "escape", "w", "p", "escape")
        assert app.is_running


async def test_resizing_and_a_terminal_that_is_too_small(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    keep(runs_dir, ID)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await open_first(pilot, "Settings")
        await resize(pilot, 60, 20)
        await until_shown(pilot, "tuitrain needs 72×20", "finished")
        for width, height in [(80, 24), (200, 60), (99, 24), (100, 24)]:
            await resize(pilot, width, height)
            # What was there before the new size came has these words too.
            await until(pilot, lambda size=(height, {width}): size_of(screen_text(app)) == size)
            await until_shown(pilot, "step 40/40", "→ [64, 10]")


def size_of(text: str) -> tuple[int, set[int]]:
    lines = text.splitlines()
    return len(lines), {len(line) for line in lines}


def test_what_auto_stood_for_is_no_change() -> None:
    resolved = with_changes(seed_cnn(), {"device": "cpu", "data": "synthetic", "strategy": "single", "epochs": 3})
    assert changed(settings_of(resolved)) == ["epochs"]
    assert left_open(settings_of(resolved)) == ["data", "device", "strategy"]
    assert left_open(settings_of(with_changes(load_recipe("multi-gpu"), {"device": "cuda:0,cuda:1"}))) == ["device"]
    for data in ("/data/animals", "my_data:make"):
        assert changed(settings_of(with_changes(resolved, {"data": data}))) == ["data", "epochs"]
        assert left_open(settings_of(with_changes(resolved, {"data": data}))) == ["device", "strategy"]
    assert changed(settings_of(with_changes(resolved, {"epochs": seed_cnn().epochs}))) == []
    assert "recipe" not in changed(settings_of(msgspec.structs.replace(resolved, recipe="custom")))


async def test_how_old_a_checkpoint_is_has_room_beside_a_narrow_curve(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    keep(runs_dir, ID)
    async with make(session, sampler, runs_dir).run_test(size=(100, 30)) as pilot:
        await open_first(pilot, "epoch    3.0 MiB     now ")


def test_checkpoints_are_those_on_disk(runs_dir: Path) -> None:
    path = keep(runs_dir, ID)
    (path / "checkpoints" / "step-00000010").mkdir()
    (path / "checkpoints" / "best").write_text("step-00000040")
    run = OpenedRun(path)
    run.take(run.read())
    [kept] = run.checkpoints
    assert (kept.step, kept.kind, kept.path) == (40, "best", "checkpoints/step-00000040")
    assert 3 * 2**20 < kept.size < 3 * 2**20 + 1000
    assert run.environment == {"threads": 2, "torch": "2.9.0"}
    shutil.rmtree(path)
    before = run.record
    run.take(run.read())
    assert run.record is before
    assert run.problem is not None


async def test_a_look_that_is_late_opens_nothing_over_the_screen_that_one_has_gone_to(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(runs_dir, ID)
    may_read, read = threading.Event(), OpenedRun.read
    monkeypatch.setattr(OpenedRun, "read", lambda run: may_read.wait(60) and read(run))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Selected", ID)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, OpenedScreen))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        opened = app.screen_stack[-2]
        assert isinstance(opened, OpenedScreen)
        may_read.set()
        await until(pilot, lambda: opened.opened.record is not None)
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)


async def test_a_long_reason_of_a_failure_is_cut_off_with_a_sign(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    keep(runs_dir, ID, state="failed", error="it broke because of " + "very " * 40 + "bad luck")
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await open_first(pilot, "it broke because of")
        lines = text.splitlines()
        first = next(index for index, line in enumerate(lines) if "it broke" in line)
        assert lines[first + 1].rstrip("│ ").endswith("…")
