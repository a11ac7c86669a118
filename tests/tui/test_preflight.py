"""The preflight's screen through its keys, with made-up trials."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec
import psutil
import pytest
from fake_trials import FakeTrials, took
from fakes import FakeSampler, FakeSession, card, screen_text, seed_cnn
from kept_runs import until, until_shown, until_told
from rich.cells import cell_len
from textual.pilot import Pilot

from tuitrain.session.preflight.plans import Plan
from tuitrain.session.preflight.trials import ProcessTrials
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens import preflight as module
from tuitrain.tui.screens.preflight import PreflightScreen
from tuitrain.tui.widgets.preflight_lines import memory_words
from tuitrain.wire import Measured

SIZES = [(80, 24), (120, 40), (200, 60)]
SMALL, WIDE = SIZES[:2]
CPU, TWICE, PAIR = Plan("single", ("cpu",)), Plan("split", ("cpu", "cpu")), Plan("ddp", ("cpu", "cpu"))
ONE, SPLIT, DP = Plan("single", ("cuda:0",)), Plan("split", ("cuda:0", "cuda:1")), Plan("dp", ("cuda:0", "cuda:1"))
DDP = Plan("ddp", ("cuda:0", "cuda:1"))
DONE = "Enter takes"


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> FakeTrials:
    fake = FakeTrials()

    def make(*, free: list[int]) -> FakeTrials:
        fake.free = tuple(free)
        return fake

    monkeypatch.setattr(module, "ProcessTrials", make)
    return fake


@pytest.fixture
def app(session: FakeSession, trials: FakeTrials) -> TuitrainApp:
    return TuitrainApp(session, FakeSampler(card(0), card(1)), seed_cnn(), Path("runs"))


def screen_of(app: TuitrainApp) -> PreflightScreen:
    assert isinstance(app.screen, PreflightScreen)
    return app.screen


async def measured(pilot: Pilot[None], app: TuitrainApp) -> str:
    """The screen with all its rows."""
    await pilot.press("p")
    await until(pilot, lambda: isinstance(app.screen, PreflightScreen))
    await until(pilot, lambda: not screen_of(app).measuring.busy)
    return await until_shown(pilot, DONE)


# -- while it measures ---------------------------------------------------------------------------------------------------


async def test_rows_fill_in_one_after_the_other(app: TuitrainApp, trials: FakeTrials) -> None:
    trials.gate = threading.Semaphore(0)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("p")
        text = await until_shown(pilot, "measuring single on cpu …", "○ measuring …", "· waits")
        assert "Esc ends it at any moment" in " ".join(text.split())
        # No key that needs a result does anything yet.
        await pilot.press("enter", "e", "up", "down", "home", "end")
        assert isinstance(app.screen, PreflightScreen)
        assert trials.measured == [CPU]
        trials.gate.release()
        text = await until_shown(pilot, "measuring split on cpu,cpu …", "3,200", "✓ best so far")
        assert text.count("· waits") == 1
        trials.gate.release()
        trials.gate.release()
        text = await until_shown(pilot, "✓ best · one device", "50 %", "they share a device")
        assert "measuring" not in text
        assert trials.measured == [CPU, TWICE, PAIR]


async def test_leaving_ends_it_and_its_thread(app: TuitrainApp, trials: FakeTrials) -> None:
    trials.gate = threading.Semaphore(0)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("p")
        await until_shown(pilot, "measuring single on cpu …")
        measuring = screen_of(app).measuring
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main and measuring.join(0))
        assert trials.cancelled
        assert app.main._launcher.form.config.device == "auto"


async def test_leaving_kills_the_process_of_the_trial(
    session: FakeSession, sampler: FakeSampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging_torch: Path
) -> None:
    monkeypatch.setattr(module, "ProcessTrials", ProcessTrials)
    app = TuitrainApp(session, sampler, seed_cnn(), tmp_path / "runs")
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("p")
        await until(pilot, hanging_torch.exists)
        assert "asking torch which devices there are" in screen_text(app)
        pid = int(hanging_torch.read_text())
        assert os.getpriority(os.PRIO_PROCESS, pid) >= 10
        await pilot.press("escape")
        await until(pilot, lambda: not psutil.pid_exists(pid))


async def test_quitting_in_the_middle_ends_it_too(app: TuitrainApp, trials: FakeTrials) -> None:
    trials.gate = threading.Semaphore(0)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("p")
        await until_shown(pilot, "measuring single on cpu …")
        measuring = screen_of(app).measuring
        await pilot.press("q")
    assert measuring.join(60)
    assert trials.cancelled


async def test_nothing_is_measured_while_a_run_trains(app: TuitrainApp, trials: FakeTrials, session: FakeSession) -> None:
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("enter")
        session.begin()
        await pilot.press("n", "p")
        await until_told(pilot, "A run is training")
        assert app.screen is app.main
        assert trials.asked == []


async def test_a_field_that_is_not_right_comes_first(app: TuitrainApp, trials: FakeTrials) -> None:
    async with app.run_test(size=SMALL) as pilot:
        app.main._launcher.form.set_text("lr", "fast")
        await pilot.press("p")
        await until_told(pilot, "A field is not right yet")
        assert trials.asked == []


# -- the rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_two_gpus_in_words_and_numbers(app: TuitrainApp, trials: FakeTrials, size: tuple[int, int]) -> None:
    trials.pool = ("cuda:0", "cuda:1")
    trials.results[DP] = took(DP, 0.0125)
    trials.results[DDP] = took(DDP, 0.0125)
    async with app.run_test(size=size) as pilot:
        text = await measured(pilot, app)
        assert all(cell_len(line) == size[0] for line in text.split("\n"))
        words = " ".join(text.replace("│", " ").split())
        for expected in ("1.6× of one device, 81 % of ideal", "1.3× of one device, 64 % of ideal", "2.1/0.9 GiB", "about 8,192"):
            assert expected in words
        assert text.count("✓ best") == 1
        assert "▸ split" in text
        assert "Enter takes split on cuda:0,cuda:1 into the launcher" in text
        assert ("peak memory" in text.split("\n")[4]) == (size != SMALL)
        assert trials.asked[0].device == "auto:all"


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ((69 << 20, 69 << 20), "69 MiB"),
        ((140 << 20, 38 << 20), "140/38 MiB"),
        ((2 << 30, 140 << 20), "2.0/0.1 GiB"),
        ((140 << 20, 38 << 20, 99 << 20, 38 << 20), "38 to 140 MiB"),
        ((18 << 30, 9 << 30, 9 << 30), "9.0 to 18.0 GiB"),
        ((None,), "n/a"),
    ],
)
def test_peaks_are_told_in_the_unit_of_the_largest(memory: tuple[int | None, ...], said: str) -> None:
    assert memory_words(Measured(devices=tuple(f"cuda:{ordinal}" for ordinal in range(len(memory))), memory=memory)) == said


async def test_eight_gpus_scroll_and_the_selected_row_is_always_in_view(app: TuitrainApp, trials: FakeTrials) -> None:
    trials.pool = tuple(f"cuda:{ordinal}" for ordinal in range(8))
    async with app.run_test(size=SMALL) as pilot:
        await measured(pilot, app)
        plans = screen_of(app).measuring.plans
        assert [len(plan.devices) for plan in plans] == [1, 2, 2, 2, 4, 4, 4, 8, 8, 8]
        await pilot.press("home")
        for plan in plans:
            await pilot.pause()
            marked = [line for line in screen_text(app).split("\n") if "▸" in line]
            assert len(marked) == 1
            assert plan.strategy in marked[0]
            await pilot.press("down")
        assert "cuda:0-7" in screen_text(app)


async def test_what_fails_is_one_sentence_and_the_rest_goes_on(app: TuitrainApp, trials: FakeTrials) -> None:
    trials.pool = ("cuda:0", "cuda:1")
    trials.results[SPLIT] = Measured(error="cuda:1 ran out of memory while training; a smaller batch_size needs less.")
    async with app.run_test(size=SMALL) as pilot:
        text = await measured(pilot, app)
        assert "✗ failed" in text
        assert "cuda:1 ran out of memory while training" in text
        await pilot.press("home", "down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, PreflightScreen), "there is nothing to take"
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.screen is app.main)
        assert app.main._launcher.form.config.strategy == "dp"


async def test_devices_that_are_not_there_are_said_and_can_be_tried_again(app: TuitrainApp, trials: FakeTrials) -> None:
    trials.refusal = "device: 'cuda:7' is not there: torch sees 1 GPU (cuda:0)."
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("p")
        await until_shown(pilot, "✗ device: 'cuda:7' is not there", "e measures again")
        trials.refusal = None
        await pilot.press("e")
        text = await until_shown(pilot, DONE)
        assert "cuda:7" not in text


async def test_measuring_again_measures_all_again(app: TuitrainApp, trials: FakeTrials) -> None:
    async with app.run_test(size=SMALL) as pilot:
        await measured(pilot, app)
        trials.results = {CPU: took(CPU, 0.04), TWICE: took(TWICE, 0.02)}
        await pilot.press("e")
        await until_shown(pilot, "1,600", "▸ split")
        assert trials.measured == [CPU, TWICE, PAIR] * 2


# -- taking it -----------------------------------------------------------------------------------------------------------


async def test_enter_takes_the_best_into_the_launcher(app: TuitrainApp, trials: FakeTrials) -> None:
    trials.pool = ("cuda:0", "cuda:1")
    async with app.run_test(size=WIDE) as pilot:
        app.main._launcher.form.set_text("lr", "0.5")
        await measured(pilot, app)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main)
        config = app.main._launcher.form.config
        assert (config.device, config.strategy, config.lr) == ("cuda:0,cuda:1", "split", 0.5)
        assert "--device cuda:0,cuda:1 --strategy split" in " ".join(screen_text(app).replace("│", " ").split())


async def test_another_row_can_be_taken(app: TuitrainApp, trials: FakeTrials) -> None:
    async with app.run_test(size=SMALL) as pilot:
        await measured(pilot, app)
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.screen is app.main)
        config = app.main._launcher.form.config
        assert (config.device, config.strategy) == ("cpu,cpu", "split")


async def test_a_row_can_be_taken_before_all_are_measured(app: TuitrainApp, trials: FakeTrials) -> None:
    trials.gate = threading.Semaphore(1)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("p")
        await until_shown(pilot, "measuring split on cpu,cpu …")
        measuring = screen_of(app).measuring
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main and measuring.join(0))
        assert trials.cancelled
        assert app.main._launcher.form.config.strategy == "single"


async def test_it_measures_what_the_launcher_holds(session: FakeSession, trials: FakeTrials) -> None:
    config = msgspec.structs.replace(seed_cnn(), device="cuda:1,cuda:0", batch_size=256)
    app = TuitrainApp(session, FakeSampler(card(0), card(1)), config, Path("runs"))
    async with app.run_test(size=SMALL) as pilot:
        text = await measured(pilot, app)
        assert "batch 256" in text
        assert trials.asked == [config]
        assert trials.measured[0] == Plan("single", ("cuda:1",))
        assert set(trials.free) == {0, 1}


async def test_a_click_selects(app: TuitrainApp, trials: FakeTrials) -> None:
    async with app.run_test(size=SMALL) as pilot:
        text = await measured(pilot, app)
        row = next(place for place, line in enumerate(text.split("\n")) if "cpu,cpu" in line)
        await pilot.click(offset=(10, row))
        await until_shown(pilot, "▸ split")
