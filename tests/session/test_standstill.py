"""A run that makes no steps where it should: when that is noticed, what is said of it, and what lists and screens are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small_sessions import BOUND, Heard, session_of, started, until

from tuitrain.config import DEFAULTS, RunConfig
from tuitrain.events import Event, Losses, Notice, Progress, RunEnded, RunState, State, Step
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record
from tuitrain.runs.summary import summarize
from tuitrain.session import standstill
from tuitrain.session.control import Control
from tuitrain.session.standstill import Standstill


class Watched:
    """A record, who watches its steps, and the clock of both."""

    def __init__(self, *, steps: int = 100, samples_per_second: float = 1.0, **config: Any) -> None:
        self.now = 1000.0
        self.record = RunRecord(msgspec.structs.replace(DEFAULTS, **config), lambda: self.now)
        self.watch = Standstill(self.record, lambda: self.now)
        self.speed = samples_per_second
        self.said: list[str] = []
        self.record.apply(started(steps))
        self.record.apply(State(state="running"))

    def step(self, step: int) -> None:
        self.record.apply(Losses(first_step=step, epoch=1, losses=(1.0,), times=(self.now,)))
        self.record.apply(Step(step=step, epoch=1, loss=1.0, lr=0.1, samples_per_second=self.speed))
        self.look()

    def look(self) -> None:
        if (notice := self.watch.look()) is not None:
            assert notice.level == "warning", "the newest one shows where the log does not"
            self.said.append(notice.text)

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            self.look()


def test_a_step_that_does_not_end_is_shown_then_told_and_told_again_when_it_has() -> None:
    run = Watched(samples_per_second=5.0)
    run.step(7)
    run.wait(9)
    assert run.record.stalled_seconds == 0
    run.wait(1)
    assert run.record.stalled_seconds == 10
    assert run.record.eta_seconds() is None, "nobody can tell"
    run.wait(19)
    assert not run.said
    run.wait(200)
    assert run.said == ["No step for 30 s; the last one that was told is step 7."]
    assert run.record.stalled_seconds == 229
    run.step(8)
    assert (run.record.stalled_seconds, run.said[1:]) == (0, ["Steps come again, after 229 s."])
    assert run.record.eta_seconds() is not None


@pytest.mark.parametrize("resumed", [False, True])
def test_steps_that_take_long_have_time(resumed: bool) -> None:
    run = Watched(samples_per_second=1 / 60)
    run.step(1)
    if resumed:
        run.record.apply(msgspec.structs.replace(started(100), resumed_from=1))
        run.record.apply(State(state="running"))
    run.wait(599)
    assert run.record.stalled_seconds == 0
    run.wait(1)
    assert (run.record.stalled_seconds, len(run.said)) == (600, 1)


def test_a_compiler_has_time_at_every_step() -> None:
    run = Watched(samples_per_second=100.0, compile=True)
    run.step(7)
    run.wait(59)
    assert (run.record.stalled_seconds, run.said) == (0, [])
    run.wait(1)
    assert (run.record.stalled_seconds, len(run.said)) == (60, 1)


@pytest.mark.parametrize("event", [State(state="paused"), Progress(phase="evaluating"), RunEnded(state="stopped", step=7)])
def test_who_does_something_else_makes_no_steps(event: Event) -> None:
    run = Watched()
    run.step(7)
    run.wait(40)
    run.record.apply(event)
    run.wait(100)
    assert (run.record.stalled_seconds, len(run.said)) == (0, 1)
    run.record.apply(State(state="running"))
    run.wait(9)
    assert run.record.stalled_seconds == 0, "it is counted from now on"


def test_after_the_last_step_none_is_due() -> None:
    run = Watched()
    run.step(100)
    run.wait(1000)
    assert (run.record.stalled_seconds, run.said) == (0, [])


@pytest.mark.parametrize("resumed_from", [None, 40])
def test_the_first_step_has_more_time(resumed_from: int | None) -> None:
    run = Watched(samples_per_second=100.0)
    if resumed_from:
        run.step(resumed_from)
        run.record.apply(msgspec.structs.replace(started(100), resumed_from=resumed_from))
        run.record.apply(State(state="running"))
    run.wait(59)
    assert (run.record.stalled_seconds, run.said) == (0, [])
    run.wait(1)
    assert run.record.stalled_seconds == 60
    assert run.said == [f"No step for 60 s; the last one that was told is step {resumed_from or 0}."]


@pytest.mark.parametrize(
    ("devices", "advised"),
    [(("cuda:0", "cuda:1"), True), (("cuda:0", "node2/cuda:0"), True), (("cuda:0", "cuda:0"), False), (("cpu", "cuda:0"), False)],
)
def test_of_several_gpus_it_says_how_to_try_whether_they_reach_each_other(devices: tuple[str, ...], advised: bool) -> None:
    run = Watched()
    run.record.apply(msgspec.structs.replace(started(100), device=devices))
    run.record.apply(State(state="running"))
    run.wait(60)
    assert run.said[0].endswith("Whether the GPUs reach each other says `tuitrain doctor --all-reduce`.") == advised


def test_time_in_which_the_whole_process_stood_still_is_nobodys_fault() -> None:
    run = Watched()
    run.step(7)
    run.now += 3600.0
    run.look()
    assert (run.record.stalled_seconds, run.said) == (0, [])


def hanging(config: RunConfig, control: Control) -> Iterator[Event]:
    """An engine whose fourth step waits until somebody wants to end it."""
    yield started(9)
    yield State(state="running")
    yield Losses(first_step=1, epoch=1, losses=(1.0, 0.9, 0.8), times=(1.0, 2.0, 3.0))
    yield Step(step=3, epoch=1, loss=0.8, lr=0.1, samples_per_second=1000.0)
    control.take(wait=True)
    yield Losses(first_step=4, epoch=1, losses=(0.7,), times=(4.0,))
    yield RunEnded(state="stopped", step=4)


def test_the_runs_folder_says_so_while_it_lasts(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "SHOWN_SECONDS", 0.1)
    monkeypatch.setattr(standstill, "TOLD_SECONDS", 0.1)
    session = session_of(hanging, tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(Notice)
    assert session.record is not None
    path = session.record.path
    assert path is not None
    until(lambda: bool(summarize(path, 0.0).stalled_seconds))
    row, record = summarize(path, 0.0), load_record(path)
    state: RunState = "running"
    assert (row.state, row.state_words, row.to_json()["state"]) == (state, "running, stalled", state)
    assert record.stalled_seconds > 0
    session.stop()
    assert session.join(BOUND)
    row = summarize(path, 0.0)
    assert (row.state_words, row.stalled_seconds, load_record(path).stalled_seconds) == ("stopped", None, 0)
