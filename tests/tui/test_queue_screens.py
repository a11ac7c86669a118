"""The queue in the app: the question where a device is in use, queued runs in the list and opened, and those that wait again."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from fakes import RUN, FakeOutside, FakeSampler, FakeSession, card, said, screen_text, seed_cnn
from kept_runs import here, keep, until, until_shown, until_told
from textual.pilot import Pilot

from tuitrain.config import with_changes
from tuitrain.events import Notice, State
from tuitrain.runs.status import InQueue
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.ask import Ask, QueueDialog

WIDE = (120, 40)
SIZES = [(80, 24), (120, 40), (200, 60)]
TRAINS, SECOND, LEFT = "20261121-0413-seed-cnn-aaa", "20261121-0415-seed-cnn-bbb", "20261121-0416-seed-cnn-ccc"


@pytest.fixture
def app(session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), runs_dir, outside=outside)


def trains(runs_dir: Path, **status: object) -> Path:
    """A run that this very process seems to train on the CPU."""
    return keep(runs_dir, TRAINS, **here(**status))


def waits(runs_dir: Path, run: str, **status: object) -> Path:
    """A run in the queue for which this very process seems to wait."""
    queue = InQueue(since=float(run[9:13]), words=f"waits for cpu: {TRAINS} trains there")
    fields = {"state": "queued", "queue": queue, "strategy": "auto", "steps_per_epoch": 0, "total_steps": 0, **status}
    return keep(runs_dir, run, steps=0, **here(**fields))


def change(path: Path, **status: object) -> None:
    """Another state in a run's folder."""
    (path / "state.json").write_bytes(msgspec.json.encode({**msgspec.json.decode((path / "state.json").read_bytes()), **status}))


async def list_of(pilot: Pilot[None], *texts: str) -> str:
    await pilot.press("r")
    return await until_shown(pilot, "Selected", *texts)


# -- the question ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_b_asks_where_the_device_is_in_use_and_queues(
    app: TuitrainApp, outside: FakeOutside, runs_dir: Path, size: tuple[int, int]
) -> None:
    trains(runs_dir)
    waits(runs_dir, SECOND)
    async with app.run_test(size=size) as pilot:
        await pilot.press("b")
        text = await until_shown(pilot, "cpu is in use", f"{TRAINS} trains there; 1 queued run waits.")
        assert [line in text for line in ("▸ Queue it (starts when cpu is free)", "  Start it beside", "  Cancel")] == [True] * 3
        assert {len(line) for line in text.splitlines()} == {size[0]}
        await pilot.press("enter")
        await until_told(pilot, f"Queued {RUN}: r shows what it waits for.")
        # One sentence takes the place of the other.
        await until(pilot, lambda: [one.message.split()[0] for one in app._notifications] == ["Queued"])
    assert outside.queued == [(seed_cnn(), None)]
    assert not outside.started


@pytest.mark.parametrize(("keys", "started"), [(("down", "enter"), 1), (("down", "down", "enter"), 0), (("escape",), 0)])
async def test_the_other_answers(app: TuitrainApp, outside: FakeOutside, runs_dir: Path, keys: tuple[str, ...], started: int) -> None:
    trains(runs_dir, state="paused")
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, QueueDialog))
        await pilot.press(*keys)
        await until(pilot, lambda: app.screen is app.main and len(outside.started) == started)
        assert not outside.queued
        assert not app.main._launcher.form.errors


@pytest.mark.parametrize("status", [{"state": "finished"}, {"device": ["cuda:0"]}, {"host": "elsewhere"}, {"pid": 2**22 + 1}])
async def test_a_device_that_is_free_is_no_question(
    app: TuitrainApp, outside: FakeOutside, runs_dir: Path, status: dict[str, object]
) -> None:
    change(trains(runs_dir), **status)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("b")
        await until_told(pilot, f"Started {RUN} in the background.")
        assert not outside.queued


async def test_the_devices_are_those_that_a_start_would_take(session: FakeSession, outside: FakeOutside, runs_dir: Path) -> None:
    trains(runs_dir, device=["cuda:1"])
    config = with_changes(seed_cnn(), {"device": "auto:2"})
    app = TuitrainApp(session, FakeSampler(card(0), card(1)), config, runs_dir, outside=outside)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("b")
        await until_shown(
            pilot, "The devices are not all free", f"cuda:0, cuda:1: {TRAINS} trains there.", "Queue it (starts when all are free)"
        )


@pytest.mark.parametrize("size", SIZES)
async def test_many_devices_are_all_named(session: FakeSession, outside: FakeOutside, runs_dir: Path, size: tuple[int, int]) -> None:
    trains(runs_dir, device=["cuda:1"])
    config = with_changes(seed_cnn(), {"device": "auto:8"})
    app = TuitrainApp(session, FakeSampler(*(card(index) for index in range(8))), config, runs_dir, outside=outside)
    async with app.run_test(size=size) as pilot:
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, QueueDialog))
        await pilot.pause()
        devices = ", ".join(f"cuda:{index}" for index in range(8))
        assert f"{devices}: {TRAINS} trains there." in said(app)
        assert "▸ Queue it (starts when all are free)" in said(app)


async def test_a_queued_run_that_is_refused_says_why(app: TuitrainApp, outside: FakeOutside, runs_dir: Path) -> None:
    trains(runs_dir)
    outside.refusal = "data: [b]not here"
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("b")
        await until_shown(pilot, "cpu is in use")
        await pilot.press("enter")
        await until_shown(pilot, "✗ data: [b]not here")


async def test_the_app_lets_left_runs_wait_again(app: TuitrainApp, outside: FakeOutside) -> None:
    outside.revived = [SECOND, LEFT]
    async with app.run_test(size=WIDE) as pilot:
        await until_told(pilot, "2 queued runs wait for a free device again: r shows more.")


# -- the list -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_queued_rows_say_their_place_and_what_they_wait_for(app: TuitrainApp, runs_dir: Path, size: tuple[int, int]) -> None:
    trains(runs_dir, attached=1)
    waits(runs_dir, SECOND)
    waits(runs_dir, LEFT, pid=0)
    async with app.run_test(size=size) as pilot:
        text = await list_of(pilot, "○ queued, 1st", "○ queued, nobody waits · R lets it wait again")
        assert "detached" not in text
        assert "x Take out" in text.splitlines()[-1]
        assert "R Resume" in text.splitlines()[-1]
        await pilot.press("down")
        text = await until_shown(pilot, f"○ queued, 1st for cpu · waits for cpu: {TRAINS}")
        assert {len(line) for line in text.splitlines()} == {size[0]}
        assert f" queued   {SECOND[:4]}-" in text
        assert "R Resume" not in text.splitlines()[-1]
        await pilot.press("down")
        await until_shown(pilot, "● running", f"run      {TRAINS}", " started  ")
        assert "Take out" not in screen_text(app).splitlines()[-1]
        assert "R Resume" not in screen_text(app).splitlines()[-1]
        await pilot.press("x")
        await pilot.pause()
    assert isinstance(app.outside, FakeOutside)
    assert not app.outside.asked


async def test_x_takes_it_out(app: TuitrainApp, outside: FakeOutside, runs_dir: Path) -> None:
    waits(runs_dir, SECOND)
    async with app.run_test(size=WIDE) as pilot:
        await list_of(pilot, "○ queued, 1st")
        await pilot.press("x")
        await until_told(pilot, f"{SECOND} is taken out of the queue.")
        assert outside.asked == [(SECOND, "stop")]
        await until_shown(pilot, "■ stopped")
        await until(pilot, lambda: "Take out" not in screen_text(app))


async def test_x_does_not_stop_a_run_that_has_begun_meanwhile(app: TuitrainApp, outside: FakeOutside, runs_dir: Path) -> None:
    path = waits(runs_dir, SECOND)
    async with app.run_test(size=WIDE) as pilot:
        await list_of(pilot, "○ queued, 1st")
        change(path, state="running", queue=None)
        await pilot.press("x")
        await until_told(pilot, f"{SECOND} is not in the queue any more: it is running, detached.")
        assert not outside.asked


async def test_x_does_not_stop_a_run_that_begins_at_this_moment(app: TuitrainApp, outside: FakeOutside, runs_dir: Path) -> None:
    path = waits(runs_dir, SECOND)
    async with app.run_test(size=WIDE) as pilot:
        await list_of(pilot, "○ queued, 1st")
        change(path, queue={"since": 1.0, "turn": True})
        await pilot.press("x")
        await until_told(pilot, f"{SECOND} is not in the queue any more: it begins at this moment.")
        assert not outside.asked


async def test_d_takes_it_out_and_deletes_it_after_its_question(app: TuitrainApp, outside: FakeOutside, runs_dir: Path) -> None:
    path = waits(runs_dir, SECOND)
    async with app.run_test(size=(80, 24)) as pilot:
        await list_of(pilot, "○ queued, 1st")
        await pilot.press("D")
        await until_shown(pilot, "Delete seed-cnn?", "it is taken out of the queue, and", "its folder removed from disk")
        assert isinstance(app.screen, Ask)
        await pilot.press("down", "enter")
        await until_told(pilot, f"Deleted {SECOND}.")
        assert outside.asked == [(SECOND, "stop")]
        assert not path.exists()


async def test_r_lets_a_left_one_wait_again(app: TuitrainApp, session: FakeSession, outside: FakeOutside, runs_dir: Path) -> None:
    waits(runs_dir, LEFT, pid=0)
    async with app.run_test(size=WIDE) as pilot:
        await list_of(pilot, "nobody waits")
        await pilot.press("R")
        await until_told(pilot, f"{LEFT} waits for cpu.")
        assert outside.asked == [(LEFT, "wait")]
        assert not session.started


# -- opened ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_an_opened_one_says_what_it_waits_for_until_it_trains(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, size: tuple[int, int]
) -> None:
    outside.answers = True
    path = waits(runs_dir, SECOND)
    app = TuitrainApp(session, sampler, seed_cnn(), runs_dir, attach=path, outside=outside)
    async with app.run_test(size=size) as pilot:
        text = await until_shown(pilot, f"waits for cpu: {TRAINS} trains there…", "○ queued · x takes it out of the queue", "x Take out")
        assert {len(line) for line in text.splitlines()} == {size[0]}
        assert "view only" not in text
        assert "auto" not in text.splitlines()[1], "what it takes is not known yet"
        assert "Zoom" not in text, "there is nothing to read yet"
        change(path, queue={"since": 1.0, "words": f"waits for cpu: {LEFT} is before it"})
        outside.lines[-1].says.put(Notice(text="It waits."))
        await until_shown(pilot, f"waits for cpu: {LEFT} is before it…")
        await pilot.press("x")
        await until_told(pilot, "It ends before it has begun.")
        assert outside.asked == [(SECOND, "stop")]
        change(path, state="running", queue=None, steps_per_epoch=10, total_steps=10)
        outside.lines[-1].says.put(State(state="running"))
        await until_shown(pilot, "space Pause", f"● {SECOND}  running")
        assert "waits for" not in screen_text(app)


async def test_an_opened_one_that_nobody_waits_for_says_what_to_press(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside
) -> None:
    path = waits(runs_dir, LEFT, pid=0)
    app = TuitrainApp(session, sampler, seed_cnn(), runs_dir, attach=path, outside=outside)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await until_shown(pilot, "nobody waits for its turn", "○ queued · R lets it wait again", "R Resume")
        assert "does not answer" not in text
        assert "x Take out" not in text
        await pilot.press("R")
        await until_told(pilot, f"{LEFT} waits for cpu.")
        outside.answers = True
        change(path, pid=os.getpid())
        await until_shown(pilot, f"waits for cpu: {TRAINS} trains there…", "x Take out")


async def test_one_that_was_taken_out_opens_like_any_other(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside
) -> None:
    path = waits(runs_dir, SECOND, state="stopped", queue=None)
    app = TuitrainApp(session, sampler, seed_cnn(), runs_dir, attach=path, outside=outside)
    async with app.run_test(size=WIDE) as pilot:
        await until_shown(pilot, "■ stopped", "never saved")
        assert "R Resume" not in screen_text(app)


async def test_a_queued_run_is_not_said_to_be_prepared_or_over(app: TuitrainApp, runs_dir: Path) -> None:
    waits(runs_dir, LEFT, pid=0)
    async with app.run_test(size=WIDE) as pilot:
        await list_of(pilot, LEFT)
        await pilot.press("enter")
        await until_shown(pilot, "nobody waits for its turn")
        await pilot.press("p")
        await until_shown(pilot, "The run waits in the queue; after its first epoch")
        await pilot.press("escape", "i")
        await until_shown(pilot, "The run waits in the queue; the times come within its first second of steps.")
