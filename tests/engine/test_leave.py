"""A run that is asked to leave: it ends where its step is saved, and stays where that cannot be."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch
from engine_small import FakeControl, losses_of, of, run, small_config

from tuitrain.engine import evaluate, snapshot
from tuitrain.engine.group import Group
from tuitrain.engine.train import train
from tuitrain.events import Checkpoint, CheckpointKind, Eval, Event, Progress, Request, RunEnded, RunStarted, State, Stays


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(parent: Path, kind: CheckpointKind, taken: snapshot.Snapshot) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(snapshot, "write", full)


def test_a_run_leaves_when_this_very_step_is_saved(tmp_path: Path) -> None:
    events = run(small_config(), FakeControl(tmp_path, {3: ["leave"]}))
    assert events[-1] == RunEnded(state="stopped", step=3)
    assert [(event.step, event.kind) for event in of(Checkpoint, events)] == [(3, "last")]
    assert of(Stays, events) == []


@pytest.mark.usefixtures("full_disk")
def test_a_run_whose_step_cannot_be_saved_stays_and_trains_as_if_nothing_had_been(tmp_path: Path) -> None:
    events = run(small_config(), FakeControl(tmp_path, {3: ["leave"]}))
    why = "The checkpoint at step 3 could not be saved: No space left on device. Training goes on."
    assert of(Stays, events) == [Stays(text=why)]
    assert events[-1] == RunEnded(state="finished", step=14)
    assert losses_of(events) == losses_of(run(small_config(), FakeControl(tmp_path / "calm")))


@pytest.mark.usefixtures("full_disk")
def test_a_paused_run_that_cannot_leave_stays_paused(tmp_path: Path) -> None:
    plan = {2: ["pause", "leave", "checkpoint", "resume"]}
    events = run(small_config(), FakeControl(tmp_path, plan))
    stays = events.index(of(Stays, events)[0])
    states = [event.state for event in of(State, events[:stays])], [event.state for event in of(State, events[stays:])]
    assert states == (["running", "paused"], ["running"])
    assert events[-1] == RunEnded(state="finished", step=14)


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("asked", [["leave"], ["pause", "leave", "resume"], ["leave", "pause", "resume"]], ids=", ".join)
def test_an_evaluation_given_up_to_leave_is_made_where_the_run_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.setattr(evaluate, "PROGRESS_SECONDS", 0.0)
    control, events, given_up = FakeControl(tmp_path), list[Event](), []
    for event in train(small_config(epochs=1), control):
        if isinstance(event, RunStarted):
            control.folder = tmp_path
        if isinstance(event, Progress) and event.phase == "evaluating" and not given_up:
            control.ending = True
            control.plan = {control.boundary + 1: asked}
            given_up.append(event)
        events.append(event)
    assert len(of(Stays, events)) == 1
    assert [event.step for event in of(Eval, events)] == [7]
    assert events.index(of(Stays, events)[0]) < events.index(of(Eval, events)[0])
    assert events[-1] == RunEnded(state="finished", step=7)


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("full", [False, True])
def test_a_group_leaves_or_stays_as_its_first_rank_can_save(tmp_path: Path, request: pytest.FixtureRequest, full: bool) -> None:
    if full:
        request.getfixturevalue("full_disk")
    control, asked = FakeControl(tmp_path), list[Request]()
    group = Group(torch.device("cpu"), lambda: asked.pop(0) if asked else None)
    events = list[Event]()
    for event in train(small_config(strategy="ddp"), control, group=group):
        if isinstance(event, RunStarted):
            control.folder = tmp_path
        if isinstance(event, State):
            asked.append("leave")
        events.append(event)
    assert len(of(Stays, events)) == int(full)
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.state == ("finished" if full else "stopped")
    assert full or of(Checkpoint, events)[-1].step == ended.step
