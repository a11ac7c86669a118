"""`R`, `b`, and what `q` makes of a run: going on here, there, or later."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest
from fakes import RUN, FakeOutside, FakeSampler, FakeSession, screen_text, seed_cnn, settle
from kept_runs import here, keep, until, until_shown, until_told
from textual.pilot import Pilot

from tuitrain.config import RunConfig, with_changes
from tuitrain.events import Checkpoint, EndState
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.hosts.going_on import More
from tuitrain.tui.screens.more import MoreDialog
from tuitrain.tui.screens.training import TrainingScreen

WIDE = (120, 40)
SIZES = [(80, 24), (120, 40), (200, 60)]
ID = "20261121-0413-seed-cnn-aaa"
OTHER = "20261120-0413-seed-cnn-bbb"


@pytest.fixture
def app(session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), runs_dir, outside=outside)


async def train(pilot: Pilot[None], session: FakeSession) -> None:
    """A run in the app itself."""
    await pilot.press("enter")
    session.begin()
    session.steps(40)
    await settle(pilot)


async def resume_second(pilot: Pilot[None]) -> None:
    """Three keys from the first screen: the runs, the second one, on with it."""
    await pilot.press("r")
    await until_shown(pilot, "Selected", OTHER)
    await pilot.press("down", "R")


def with_epochs(runs_dir: Path, run: str, **status: object) -> RunConfig:
    """A kept run of 3 epochs."""
    config = with_changes(seed_cnn(), {"epochs": 3, "name": run[-3:]})
    keep(runs_dir, run, config=config, **status)
    return config


# -- R ------------------------------------------------------------------------------------------------------------------


async def test_a_run_that_is_refused_to_go_on_is_named_and_marks_no_field(app: TuitrainApp, session: FakeSession, runs_dir: Path) -> None:
    keep(runs_dir, ID)
    with_epochs(runs_dir, OTHER, state="failed")
    async with app.run_test(size=(200, 60)) as pilot:
        await resume_second(pilot)
        await until(pilot, lambda: bool(session.started))
        session.refuse("data: there is no module bad.")
        await until_shown(pilot, f"✗ {OTHER} does not go on: data: there is no")
        assert list(app.main._launcher.form.errors) == [""]


@pytest.mark.parametrize("state", ["stopped", "failed", "interrupted", "lost"])
async def test_an_ended_run_goes_on_here_in_three_keys(app: TuitrainApp, session: FakeSession, runs_dir: Path, state: str) -> None:
    keep(runs_dir, ID)
    config = with_epochs(runs_dir, OTHER, state=state)
    async with app.run_test(size=(200, 60)) as pilot:
        await resume_second(pilot)
        await until(pilot, lambda: session.started == [config])
        assert session.resumed == [runs_dir / OTHER]
        assert app.screen is app.main
        assert app.main.view == "run"
        assert app.main._launcher.last_launch is None, "going on is no launch"


async def test_a_run_of_another_host_whose_clock_is_ahead_goes_on_where_taking_it_shows_that_it_is_gone(
    app: TuitrainApp, session: FakeSession, runs_dir: Path
) -> None:
    keep(runs_dir, ID)
    config = with_epochs(runs_dir, OTHER, state="running", host="gpu-2", heartbeat=time.time() + 3600)
    async with app.run_test(size=(200, 60)) as pilot:
        await resume_second(pilot)
        await until(pilot, lambda: session.started == [config])


async def test_while_a_run_trains_here_another_goes_on_in_the_background(
    app: TuitrainApp, session: FakeSession, runs_dir: Path, outside: FakeOutside
) -> None:
    keep(runs_dir, ID)
    config = with_epochs(runs_dir, OTHER, state="stopped")
    async with app.run_test(size=(200, 60)) as pilot:
        await train(pilot, session)
        await resume_second(pilot)
        await until_told(pilot, f"{OTHER} goes on in the background.")
        assert outside.started == [(config, runs_dir / OTHER)]
        assert len(session.started) == 1
        assert "Selected" in screen_text(app), "the list stays where it is"


@pytest.mark.parametrize("size", SIZES)
async def test_a_finished_run_asks_how_many_epochs_more(
    app: TuitrainApp, session: FakeSession, runs_dir: Path, size: tuple[int, int]
) -> None:
    keep(runs_dir, ID)
    config = with_epochs(runs_dir, OTHER)
    async with app.run_test(size=size) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Selected", "bbb")
        await pilot.press("down", "R")
        text = await until_shown(pilot, f"{OTHER} is finished: 3 epochs done.", "epochs more", "Enter goes on · Esc goes back")
        assert {len(line) for line in text.splitlines()} == {size[0]}
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, MoreDialog))
        assert not session.started
        await pilot.press("R")
        await until_shown(pilot, "epochs more")
        await pilot.press("end", *["backspace"] * 4, "x", "enter")
        await until_shown(pilot, "It must be a whole number from 1.")
        await pilot.press("backspace", *"9" * 12, "enter")
        await until_shown(pilot, "It must be 1,000,000,000 at most.")
        await pilot.press(*["backspace"] * 12, "x")
        await pilot.press("backspace", "5", "enter")
        await until(pilot, lambda: session.started == [with_changes(config, {"epochs": 8})])


async def test_a_key_held_down_asks_for_more_once(app: TuitrainApp, runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[More] = []

    async def go_back(more: More) -> None:
        asked.append(more)

    monkeypatch.setattr(app, "ask_for_more", go_back)
    path = keep(runs_dir, ID)
    await asyncio.gather(*(app.beside.go_on(path) for _ in range(3)))
    assert len(asked) == 1
    await app.beside.go_on(path)
    assert len(asked) == 2


async def test_enter_trains_a_finished_run_as_long_again(app: TuitrainApp, session: FakeSession, runs_dir: Path) -> None:
    config = with_epochs(runs_dir, OTHER)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Selected", "bbb")
        await pilot.press("R")
        await until_shown(pilot, "epochs more", " 3 ")
        await pilot.press("enter")
        await until(pilot, lambda: session.started == [with_changes(config, {"epochs": 6})])


async def test_a_finished_run_whose_end_could_not_be_saved_goes_on_to_make_it(
    app: TuitrainApp, session: FakeSession, runs_dir: Path
) -> None:
    keep(runs_dir, ID)
    config = with_epochs(runs_dir, OTHER)
    saved = runs_dir / OTHER / "checkpoints"
    (saved / "step-00000040").rename(saved / "step-00000039")
    async with app.run_test(size=(200, 60)) as pilot:
        await resume_second(pilot)
        await until(pilot, lambda: session.started == [config])
        assert session.resumed == [runs_dir / OTHER]
        assert app.screen is app.main


async def test_a_run_that_max_steps_ended_asks_for_steps(app: TuitrainApp, session: FakeSession, runs_dir: Path) -> None:
    # 40 steps are one epoch of this run, and all that it may do.
    config = with_changes(seed_cnn(), {"epochs": 1, "max_steps": 40})
    keep(runs_dir, ID, config=config)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Selected", ID)
        await pilot.press("R")
        await until_shown(pilot, "40 steps done", "steps more")
        await pilot.press("enter")
        await until(pilot, lambda: session.started == [with_changes(config, {"epochs": 2, "max_steps": 80})])


async def test_a_paused_run_of_another_process_goes_on_where_it_is(
    app: TuitrainApp, session: FakeSession, runs_dir: Path, outside: FakeOutside
) -> None:
    keep(runs_dir, ID, **here(state="paused"))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Selected", ID)
        await pilot.press("R")
        await until_told(pilot, f"{ID} goes on.")
        assert outside.asked == [(ID, "resume")]
        assert not session.started


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"state": "running"}, "): Enter in the list of runs opens it."),
        ({"state": "paused", "host": "gpu-box-3"}, "is paused on gpu-box-3, and only there it can be told anything."),
    ],
)
async def test_what_cannot_go_on_says_why(
    app: TuitrainApp, session: FakeSession, runs_dir: Path, outside: FakeOutside, status: dict[str, object], words: str
) -> None:
    keep(runs_dir, ID, **here(heartbeat=time.time(), **status))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Selected", ID)
        await pilot.press("R")
        await until_told(pilot, words)
        assert not session.started
        assert not outside.asked


async def test_a_broken_folder_and_a_refusal_are_sentences(
    app: TuitrainApp, session: FakeSession, runs_dir: Path, outside: FakeOutside
) -> None:
    path = keep(runs_dir, ID, state="stopped")
    outside.refusal = "RUN: [i]no checkpoint is valid."
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Selected", ID)
        await pilot.press("R")
        await until_told(pilot, "[i]no checkpoint is valid.")
        (path / "state.json").write_text("{")
        await until_shown(pilot, "state.json is damaged")
        await pilot.press("R")
        await until_told(pilot, "state.json is damaged")
        assert not session.started


async def test_the_own_run_goes_on_after_it_was_stopped(app: TuitrainApp, session: FakeSession, runs_dir: Path) -> None:
    keep(runs_dir, RUN, state="stopped")
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        assert "R Resume" not in screen_text(app)
        await pilot.press("x")
        assert session.record is not None
        session.record.path = runs_dir / RUN
        await until_shown(pilot, "R goes on", "R Resume")
        await pilot.press("R")
        await until(pilot, lambda: session.resumed == [None, runs_dir / RUN])


@pytest.mark.parametrize("state", ["stopped", "interrupted"])
async def test_an_own_run_that_could_not_be_saved_is_not_said_to_go_on(app: TuitrainApp, session: FakeSession, state: EndState) -> None:
    async with app.run_test(size=(200, 60)) as pilot:
        await train(pilot, session)
        session.end(state)
        shown = await until_shown(pilot, f"■ {state} · n starts it anew")
        assert "R Resume" not in shown


async def test_r_on_a_run_that_another_process_is_about_to_go_on_with(app: TuitrainApp, runs_dir: Path) -> None:
    keep(runs_dir, ID, **here(state="queued"))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Selected", ID)
        await pilot.press("R")
        await until_told(pilot, f"{ID} is about to go on already (pid ")


async def test_r_on_the_own_run_while_it_is_paused_or_trains(app: TuitrainApp, session: FakeSession, runs_dir: Path) -> None:
    keep(runs_dir, RUN, **here())
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        assert session.record is not None
        session.record.path = runs_dir / RUN
        await pilot.press("r")
        await until_shown(pilot, "Selected", RUN)
        await pilot.press("R")
        await until_told(pilot, "It is running in this app: t shows it.")
        session.pause()
        await pilot.press("R")
        await until(pilot, lambda: session.asked == ["pause", "resume"])


# -- b, and Enter while a run trains --------------------------------------------------------------------------------------


async def test_b_starts_in_the_background(app: TuitrainApp, session: FakeSession, outside: FakeOutside) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await until_shown(pilot, "b In background")
        await pilot.press("b")
        await until_told(pilot, f"Started {RUN} in the background.")
        assert outside.started == [(seed_cnn(), None)]
        assert not session.started
        assert app.main.view == "launch"


async def test_a_key_held_down_starts_one_run_in_the_background(app: TuitrainApp, outside: FakeOutside) -> None:
    outside.may_go_on.clear()
    async with app.run_test(size=WIDE) as pilot:
        for _ in range(3):
            app.main.action_start_beside()
        await until_told(pilot, "Starting seed-cnn in the background")
        await pilot.press("b")
        await until_told(pilot, "seed-cnn is being started already.")
        outside.may_go_on.set()
        await until_told(pilot, f"Started {RUN} in the background.")
        assert len(outside.started) == 1
        await pilot.press("b")
        await until(pilot, lambda: len(outside.started) == 2)


async def test_enter_starts_another_run_beside_the_one_that_trains(app: TuitrainApp, session: FakeSession, outside: FakeOutside) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        await pilot.press("n")
        await until_shown(pilot, "Enter trains seed-cnn in the background on cpu", "Enter Start in background")
        await pilot.press("enter")
        await until_told(pilot, f"Started {RUN} in the background.")
        assert outside.started == [(seed_cnn(), None)]
        assert len(session.started) == 1


async def test_a_refused_start_stands_beside_its_field(app: TuitrainApp, session: FakeSession, outside: FakeOutside) -> None:
    outside.refusal = "data: [b]no class folders in there"
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("b")
        await until_shown(pilot, "✗ data: [b]no class folders in there")
        await until_told(pilot, "was not started: data: [b]no class folders")
        outside.refusal = None
        await pilot.press("b")
        await until(pilot, lambda: bool(outside.started))
        await until(pilot, lambda: "✗ data" not in screen_text(app))


async def test_a_wrong_field_starts_nothing(app: TuitrainApp, outside: FakeOutside) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press(*["down"] * 6, "0", "up", "b")
        await until_told(pilot, "A field is not right yet")
        assert not outside.started


async def test_q_keeps_a_paused_run_paused_in_the_background(app: TuitrainApp, session: FakeSession, outside: FakeOutside) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await train(pilot, session)
        await pilot.press("space")
        await until(pilot, lambda: session.state == "paused")
        await pilot.press("q")
        await until_shown(pilot, "A run is paused", "Keep it paused in the background")
        await pilot.press("down", "enter")
        await until(pilot, lambda: app._exit)
    assert outside.handed == [session]
    assert app.leaving.farewell == f"{RUN} stays paused in the background: tuitrain attach {RUN}"


async def test_q_waits_for_a_start_in_the_background(app: TuitrainApp, outside: FakeOutside) -> None:
    outside.may_go_on.clear()
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("b")
        await until(pilot, lambda: app.beside.starting == 1)
        await pilot.press("q")
        await until_told(pilot, "q again leaves without it")
        assert app.is_running
        outside.may_go_on.set()
        await until(pilot, lambda: app._exit)
    assert outside.started


@pytest.mark.parametrize("answer", [["enter"], ["down", "enter"]], ids=["stop", "background"])
async def test_whoever_leaves_the_run_that_trains_here_waits_for_a_start_in_the_background_too(
    app: TuitrainApp, session: FakeSession, outside: FakeOutside, monkeypatch: pytest.MonkeyPatch, answer: list[str]
) -> None:
    def hand_over(handed: object) -> str:
        session.end("stopped")
        return RUN

    monkeypatch.setattr(outside, "hand_over", hand_over)
    outside.may_go_on.clear()
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        await pilot.press("n", "b")
        await until(pilot, lambda: app.beside.starting == 1)
        await pilot.press("q")
        await until_shown(pilot, "▸ Stop and save")
        await pilot.press(*answer)
        await until(pilot, lambda: app._exit or any("q again leaves without it" in one.message for one in app._notifications))
        assert not app._exit
        assert isinstance(app.screen, TrainingScreen)
        outside.may_go_on.set()
        await until(pilot, lambda: app._exit)
    assert outside.started == [(seed_cnn(), None)]


async def test_q_twice_does_not_wait_for_it(app: TuitrainApp, outside: FakeOutside) -> None:
    outside.may_go_on.clear()
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("b")
        await until(pilot, lambda: app.beside.starting == 1)
        await pilot.press("q", "q")
        await until(pilot, lambda: app._exit)
    assert not outside.started
    outside.may_go_on.set()


# -- q ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        ((), "stopped at step 40 without a checkpoint of that step; there is none to go on from."),
        ((20,), "stopped at step 40 without a checkpoint of that step; it goes on from step 20."),
        ((20, 40), ""),
    ],
)
async def test_whoever_stops_and_saves_hears_at_the_prompt_what_could_not_be_saved(
    app: TuitrainApp, session: FakeSession, saved: tuple[int, ...], words: str
) -> None:
    session.slow_stop = True
    async with app.run_test(size=(80, 24)) as pilot:
        await train(pilot, session)
        await pilot.press("q")
        await until_shown(pilot, "▸ Stop and save")
        await pilot.press("enter")
        await until_told(pilot, "Stopping: tuitrain closes")
        session.say(*(Checkpoint(step=step, path=f"checkpoints/step-{step:08}", kind="last") for step in saved))
        session.end("stopped")
        await until(pilot, lambda: app._exit)
    assert app.leaving.farewell == (words and f"{RUN} {words}")


@pytest.mark.parametrize("size", SIZES)
async def test_q_hands_the_run_over(app: TuitrainApp, session: FakeSession, outside: FakeOutside, size: tuple[int, int]) -> None:
    outside.may_go_on.clear()
    async with app.run_test(size=size) as pilot:
        await train(pilot, session)
        await pilot.press("q")
        await until_shown(pilot, "▸ Stop and save", "Keep running in the background", "Cancel")
        await pilot.press("down", "enter")
        await until_shown(pilot, "Handing over…")
        await pilot.press("x", "q", "enter", "escape")
        assert session.asked == []
        outside.may_go_on.set()
        await until(pilot, lambda: app._exit)
    assert outside.handed == [session]
    assert app.leaving.farewell == f"{RUN} goes on in the background: tuitrain attach {RUN}"
    assert (app.return_code or 0) == 0


async def test_a_run_that_cannot_be_handed_over_stays(app: TuitrainApp, session: FakeSession, outside: FakeOutside) -> None:
    outside.refusal = "no process can be started in the background: [b]too many."
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        await pilot.press("q", "down", "enter")
        await until_told(pilot, "Not handed over: no process can be started in the background: [b]too many.")
        await until(pilot, lambda: app.screen is app.main)
        assert not app.leaving.farewell
        await pilot.press("q")
        await until_shown(pilot, "▸ Stop and save")


async def test_a_run_whose_handing_over_fails_as_nobody_foresaw_stays(app: TuitrainApp, session: FakeSession, outside: FakeOutside) -> None:
    outside.surprise = OSError(24, "Too many open files")
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        await pilot.press("q", "down", "enter")
        await until_told(pilot, "Not handed over: [Errno 24] Too many open files.")
        await until(pilot, lambda: app.screen is app.main)
        await pilot.press("q")
        await until_shown(pilot, "▸ Stop and save")


async def test_the_run_lives_on_where_something_beside_it_fails_as_nobody_foresaw(
    app: TuitrainApp, session: FakeSession, outside: FakeOutside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a worker of the app, of a screen, and of a widget."""

    def broken(*_: object) -> None:
        raise ValueError("an [odd] disk.")

    monkeypatch.setattr("tuitrain.tui.screens.training.load_plotext", broken)
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        await until_told(pilot, "This did not work: an [odd] disk.")
        outside.surprise = OSError(24, "Too many open files")
        await pilot.press("n", "b")
        await until_told(pilot, "This did not work: [Errno 24] Too many open files.")
        monkeypatch.setattr("tuitrain.tui.widgets.launcher.look", lambda data: broken())
        app._notifications.clear()
        app.main._launcher.look_at_disk()
        await until_told(pilot, "This did not work: an [odd] disk.")
        assert session.record is not None
        assert session.record.live


async def test_a_signal_while_a_run_is_handed_over_that_stays_here_ends_it_with_its_checkpoint(
    app: TuitrainApp, session: FakeSession, outside: FakeOutside
) -> None:
    outside.may_go_on.clear()
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        await pilot.press("q", "down", "enter")
        await until_shown(pilot, "Handing over…")
        app.terminate(15)
        assert session.asked == []
        outside.refusal = "the run stays here. The checkpoint at step 40 could not be saved: No space left on device."
        outside.may_go_on.set()
        await until_told(pilot, "Ending after this step, with a checkpoint.")
        assert session.asked == ["interrupt"]
        session.end("interrupted")
        await until(pilot, lambda: app._exit)
    assert app.return_code == 143


async def test_a_run_that_prepares_is_handed_over_when_it_has_begun(app: TuitrainApp, session: FakeSession, outside: FakeOutside) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter", "q", "down", "enter")
        await until_told(pilot, "as soon as it has begun")
        assert not outside.handed
        session.begin()
        await until(pilot, lambda: app._exit)
    assert outside.handed == [session]


async def test_a_signal_is_stronger_than_a_handing_over_that_waits(app: TuitrainApp, session: FakeSession, outside: FakeOutside) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter", "q", "down", "enter")
        await until_told(pilot, "as soon as it has begun")
        app.terminate(15)
        await until_told(pilot, "Ending before the next step.")
        session.begin()
        session.end("interrupted")
        await until(pilot, lambda: app._exit)
    assert app.return_code == 143
    assert not outside.handed


# -- without a key --------------------------------------------------------------------------------------------------------


async def test_when_the_terminal_goes_the_screen_ends_and_the_run_is_left_alone(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        assert session.screen_attached
        app.terminal_gone()
        await until(pilot, lambda: app._exit)
    assert app.leaving.hung_up
    assert not session.screen_attached
    assert session.asked == []
    assert session.state == "running"


async def test_a_signal_ends_the_run_with_its_checkpoint_first(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        app.terminate(15)
        assert session.asked == ["interrupt"]
        await pilot.pause()
        assert not app._exit
        session.end("interrupted")
        await until(pilot, lambda: app._exit)
    assert app.return_code == 143
    assert not app.leaving.at_once


async def test_a_second_signal_ends_at_once_and_without_a_run_the_first(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        app.terminate(15)
        app.terminate(15)
        await until(pilot, lambda: app._exit)
    assert app.leaving.at_once
    assert app.return_code == 143


async def test_sigquit_ends_at_once(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await train(pilot, session)
        app.terminate(signal.SIGQUIT)
        await until(pilot, lambda: app._exit)
    assert app.leaving.at_once
    assert app.return_code == 131


async def test_a_signal_without_a_run(app: TuitrainApp) -> None:
    async with app.run_test(size=WIDE) as pilot:
        app.terminate(15)
        await until(pilot, lambda: app._exit)
    assert app.return_code == 143
    assert not app.leaving.at_once
