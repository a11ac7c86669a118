"""Runs that other processes train: opened, watched and steered; and the app opened on one."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import msgspec
import pytest
from fakes import FakeLine, FakeOutside, FakeSampler, FakeSession, screen_text, seed_cnn
from kept_runs import here, keep, until, until_shown, until_told
from textual.pilot import Pilot

from tuitrain.events import Checkpoint, State, Step
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.hosts.attachment import Attachment
from tuitrain.tui.screens.opened import _BEATS, _QUIET_BEATS, OpenedScreen
from tuitrain.tui.screens.runs import RunsScreen

SIZES = [(80, 24), (120, 40), (200, 60)]
WIDE = (120, 40)
ID = "20261121-0413-seed-cnn-aaa"


def live(runs_dir: Path, **status: object) -> Path:
    """A run that this process seems to train."""
    return keep(runs_dir, ID, **here(**status))


def now(path: Path, outside: FakeOutside, state: str) -> None:
    """Another state in the run's folder, and a word about it on its line."""
    status = msgspec.json.decode((path / "state.json").read_bytes())
    (path / "state.json").write_bytes(msgspec.json.encode({**status, "state": state}))
    outside.lines[-1].says.put(State(state=state))  # type: ignore[arg-type]


def attached_app(session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), runs_dir, attach=runs_dir / ID, outside=outside)


async def key(pilot: Pilot[None], outside: FakeOutside, name: str, command: str) -> None:
    """A key that is shown, and the command that it gives."""
    await pilot.press(name)
    await until(pilot, lambda: outside.asked[-1:] == [(ID, command)])


@pytest.mark.parametrize(("keys", "over"), [("g", 1), ("d", 1), ("gd", 2), ("dgd", 1)])
async def test_a_look_at_the_machine_leads_back_to_the_run(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, keys: str, over: int
) -> None:
    outside.answers = True
    live(runs_dir)
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "space Pause")
        await pilot.press(*keys)
        await until(pilot, lambda: len(app.screen_stack) == 2 + over)
        await pilot.press(*["escape"] * over)
        await until_shown(pilot, f"● {ID}  running", "space Pause")
        await key(pilot, outside, "space", "pause")


@pytest.mark.parametrize("size", SIZES)
async def test_a_live_run_is_watched_and_steered(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, size: tuple[int, int]
) -> None:
    outside.answers = True
    path = live(runs_dir)
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=size) as pilot:
        panes = ("Devices",) if size[0] >= 100 else ()
        text = await until_shown(pilot, f"● {ID}  running", "space Pause", "x Stop", "c Checkpoint", *panes)
        assert ("Devices" in text) == bool(panes)
        lines = text.splitlines()
        assert (len(lines), {len(line) for line in lines}) == (size[1], {size[0]})
        assert "view only" not in text
        await key(pilot, outside, "c", "checkpoint")
        await key(pilot, outside, "space", "pause")
        now(path, outside, "paused")
        text = await until_shown(pilot, "‖ paused", "space Go on")
        assert "by another process" not in text
        await key(pilot, outside, "space", "resume")
        now(path, outside, "running")
        await until_shown(pilot, "space Pause")
        await key(pilot, outside, "x", "stop")
        now(path, outside, "stopped")
        await until_shown(pilot, "■ stopped", "R Resume")
        assert "space" not in screen_text(app).splitlines()[-1]
        assert not session.asked, "the app's own session has nothing to do with it"


async def test_what_the_run_says_shows_before_the_next_second(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuitrain.tui.screens.base.BEAT_SECONDS", 3600.0)
    outside.answers = True
    path = live(runs_dir)
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=WIDE) as pilot:
        await until_shown(pilot, "space Pause")
        now(path, outside, "paused")
        await until_shown(pilot, "‖ paused")


async def test_r_shows_the_runs_also_from_one_that_was_attached_to(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside
) -> None:
    live(runs_dir)
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=WIDE) as pilot:
        await until_shown(pilot, ID)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))


async def with_reads_counted(pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch) -> tuple[OpenedScreen, list[None]]:
    """The screen of a run that is read, and from then on an entry for each time that its folder would be read again."""
    await until_shown(pilot, "space Pause")
    screen, reads = pilot.app.screen, list[None]()
    assert isinstance(screen, OpenedScreen)
    monkeypatch.setattr(screen, "_read", lambda: reads.append(None))
    return screen, reads


async def test_only_what_a_person_may_wait_for_makes_it_read_the_folder_at_once(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuitrain.tui.screens.base.BEAT_SECONDS", 3600.0)
    outside.answers = True
    live(runs_dir)
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=WIDE) as pilot:
        _, reads = await with_reads_counted(pilot, monkeypatch)
        [line] = outside.lines
        for step in range(100):
            line.says.put(Step(step=step, epoch=1, loss=1.0, lr=0.01, samples_per_second=1.0))
        line.says.put(Checkpoint(step=40, path="checkpoints/step-00000040", kind="manual"))
        await until(pilot, line.says.empty)
        line.says.put(State(state="paused"))
        await until(pilot, lambda: bool(reads))
        assert len(reads) == 1


async def test_a_run_that_says_nothing_is_read_seldom(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuitrain.tui.screens.base.BEAT_SECONDS", 3600.0)
    outside.answers = True
    live(runs_dir)
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=WIDE) as pilot:
        screen, reads = await with_reads_counted(pilot, monkeypatch)
        for _ in range(_BEATS):
            screen.beat()
        reads.clear()
        for _ in range(2 * _QUIET_BEATS):
            screen.beat()
        assert len(reads) == 2
        outside.lines[0].says.put(Step(step=41, epoch=1, loss=1.0, lr=0.01, samples_per_second=1.0))
        await until(pilot, lambda: screen._attachment.stirred)
        for _ in range(_BEATS):
            screen.beat()
        assert len(reads) == 3


async def test_leaving_hangs_up_and_an_ended_line_is_looked_for_again(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside
) -> None:
    outside.answers = True
    live(runs_dir)
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=WIDE) as pilot:
        await until_shown(pilot, "space Pause")
        outside.lines[0].says.put(None)  # as when another process takes the run over
        await until(pilot, lambda: len(outside.lines) == 2)
        await until_shown(pilot, "space Pause")
        assert not outside.lines[1].closed.is_set()
        await pilot.press("escape")
        await until(pilot, outside.lines[1].closed.is_set)
        assert len(outside.lines) == 2


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "it stops at the next step, with a checkpoint."),
        ({"state": "paused"}, "it stops now, with a checkpoint."),
        ({"stalled_seconds": 99.0}, "it stops when the step ends in which it hangs."),
    ],
)
async def test_x_in_the_list_stops_a_run_after_its_question(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, status: dict[str, object], said: str
) -> None:
    live(runs_dir, **status)
    app = TuitrainApp(session, sampler, seed_cnn(), runs_dir, outside=outside)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until_shown(pilot, f"run      {ID}", "x Stop")
        await pilot.press("x")
        await until_shown(pilot, "Stop seed-cnn?", "checkpoint, and R goes on with it.", "▸ Stop it")
        await pilot.press("escape", "x", "down", "enter")
        assert not outside.asked
        await pilot.press("x", "enter")
        await until_told(pilot, f"{ID}: {said}")
        assert outside.asked == [(ID, "stop")]
        outside.refusal = f"RUN: {ID} stopped at step 40; there is nothing to stop."
        await pilot.press("x", "enter")
        await until_told(pilot, f"{ID} stopped at step 40; there is nothing to stop.")


async def test_going_on_with_an_opened_run_that_was_never_saved_is_refused_with_a_sentence(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside
) -> None:
    path = keep(runs_dir, ID, state="failed", error="step 3: the loss is NaN")
    shutil.rmtree(path / "checkpoints")
    outside.refusal = f"RUN: {ID} was never saved; start it anew."
    async with attached_app(session, sampler, runs_dir, outside).run_test(size=WIDE) as pilot:
        text = await until_shown(pilot, "failed", "never saved")
        assert "R Resume" not in text
        await pilot.press("R")
        await until_told(pilot, f"{ID} was never saved; start it anew.")


async def test_a_refused_key_says_why(session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside) -> None:
    outside.answers, outside.refusal = True, "RUN: [b]the run's process does not answer."
    live(runs_dir)
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=WIDE) as pilot:
        await until_shown(pilot, "x Stop")
        await pilot.press("x")
        await until_told(pilot, "[b]the run's process does not answer.")
        assert not any("RUN:" in one.message for one in app._notifications)


@pytest.mark.parametrize("size", SIZES)
async def test_another_host_is_view_only_and_says_so(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, size: tuple[int, int]
) -> None:
    import time

    outside.answers = True
    live(runs_dir, host="gpu-box-3\x1b", heartbeat=time.time())
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=size) as pilot:
        text = await until_shown(pilot, "view only it trains on gpu-box-3", "keys are heard only there")
        assert text.splitlines()[-2].startswith("╰")
        assert "\x1b" not in text
        assert "Devices" not in text, "the devices of this machine are none of that run's"
        await pilot.press("space", "x", "c")
        await pilot.pause()
        assert not outside.asked
        assert not outside.lines
        assert "Pause" not in screen_text(app).splitlines()[-1]


async def test_a_process_that_does_not_answer_is_view_only_until_it_does(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside
) -> None:
    live(runs_dir)
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await until_shown(pilot, f"view only the process that trains it (pid {os.getpid()}) does not answer")
        assert len(text.splitlines()) == 24
        outside.answers = True
        await until_shown(pilot, "space Pause")
        assert "view only" not in screen_text(app)


@pytest.mark.parametrize("size", SIZES)
async def test_a_lost_run_says_what_to_press(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, size: tuple[int, int]
) -> None:
    live(runs_dir, pid=2**22 + 1)
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=size) as pilot:
        await until_shown(pilot, "◌ lost", "The process that trained it is gone", "R goes on from its newest checkpoint", "R Resume")
        await pilot.press("R")
        await until(pilot, lambda: session.resumed == [runs_dir / ID])


async def test_an_ended_run_with_which_somebody_goes_on_is_followed(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside
) -> None:
    path = keep(runs_dir, ID, state="stopped")
    outside.answers = True
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=WIDE) as pilot:
        await until_shown(pilot, "■ stopped", "R Resume")
        assert not outside.lines
        status = msgspec.json.decode((path / "state.json").read_bytes())
        (path / "state.json").write_bytes(msgspec.json.encode({**status, **here()}))
        text = await until_shown(pilot, f"● {ID}  running", "space Pause")
        assert "R Resume" not in text


async def test_an_ended_run_is_read_again_only_where_its_state_is_another_one(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuitrain.tui.screens.base.BEAT_SECONDS", 3600.0)
    path = keep(runs_dir, ID, state="stopped")
    app = attached_app(session, sampler, runs_dir, outside)
    async with app.run_test(size=WIDE) as pilot:
        await until_shown(pilot, "■ stopped", "R Resume")
        screen = app.screen
        assert isinstance(screen, OpenedScreen)
        record = screen.opened.record
        for _ in range(2 * _BEATS):
            screen.beat()
            await until(pilot, lambda: not screen._busy)
        assert screen.opened.record is record
        shutil.rmtree(path)
        for _ in range(_BEATS):
            screen.beat()
        await until_told(pilot, f"{ID} is not there any more.")
        assert screen.opened.record is record
        await until(pilot, lambda: "R " not in screen_text(app))


# -- the line ----------------------------------------------------------------------------------------------------------


def test_what_is_closed_connects_no_more(tmp_path: Path, outside: FakeOutside) -> None:
    outside.answers = True
    attachment = Attachment(tmp_path, outside, lambda: None)
    attachment.close()
    attachment.keep()
    assert attachment._thread is None
    assert outside.lines == []


def kept(attachment: Attachment) -> None:
    """Look for a line, and follow it to its end."""
    attachment.keep()
    assert attachment._thread is not None
    attachment._thread.join(60)


def test_it_tells_of_the_line_and_of_what_a_person_may_wait_for(
    tmp_path: Path, outside: FakeOutside, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, told = FakeLine(), list[tuple[bool, bool]]()
    attachment = Attachment(tmp_path, outside, lambda: told.append((attachment.attached, attachment.missed)))
    kept(attachment)
    kept(attachment)
    assert told == [(False, True)], "nobody answers, which is said once"
    said = (Step(step=1, epoch=1, loss=1.0, lr=0.01, samples_per_second=1.0), State(state="paused"))
    for event in (*said, Checkpoint(step=1, path="checkpoints/step-00000001", kind="manual"), None):
        line.says.put(event)
    monkeypatch.setattr(outside, "connect", lambda path: line)
    attachment.stirred = False
    kept(attachment)
    assert told[1:] == [(True, False), (True, False), (False, False)], "it opens, is paused, and ends"
    assert attachment.stirred
    assert line.closed.is_set()


def test_a_line_that_opens_after_the_end_is_hung_up(tmp_path: Path, outside: FakeOutside, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, connects, may_answer = outside.connect, threading.Event(), threading.Event()

    def slowly(path: Path) -> FakeLine | None:
        connects.set()
        assert may_answer.wait(60)
        return connect(path)

    monkeypatch.setattr(outside, "connect", slowly)
    outside.answers = True
    attachment = Attachment(tmp_path, outside, lambda: None)
    attachment.keep()
    assert connects.wait(60)
    attachment.close()
    may_answer.set()
    assert attachment._thread is not None
    attachment._thread.join(60)
    assert outside.lines[0].closed.is_set()
    assert not attachment.attached
