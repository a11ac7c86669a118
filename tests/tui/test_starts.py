"""Starts in the app and the commands that its run takes: without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from fakes import RUN, FakeSession, seed_cnn

from tuitrain.config import RunConfig, with_changes
from tuitrain.events import Checkpoint, Progress, Step
from tuitrain.tui.launch.starts import Start, Starts
from tuitrain.tui.run_view import RunView

MINE = with_changes(seed_cnn(), {"name": "mine"})
KEPT = Path("runs/20261121-0413-seed-cnn-aaa")


class Heard:
    """Whoever asks for starts."""

    def __init__(self) -> None:
        self.begun: list[RunConfig] = []
        self.taken: list[tuple[RunConfig, Sequence[str]]] = []
        self.refused: list[tuple[RunConfig | None, str, str]] = []

    def launched(self, config: RunConfig) -> None:
        self.begun.append(config)

    def took(self, config: RunConfig, devices: Sequence[str]) -> None:
        self.taken.append((config, devices))

    def refuse(self, config: RunConfig | None, reason: str, sentence: str) -> None:
        self.refused.append((config, reason, sentence))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def starts(session: FakeSession, heard: Heard) -> Starts:
    return Starts(RunView(session), heard)


def test_a_launch_is_remembered_once_when_it_has_begun(session: FakeSession, starts: Starts, heard: Heard) -> None:
    starts.start(Start(MINE))
    assert (starts.look(), heard.begun) == (None, [])
    session.begin()
    assert [starts.look(), starts.look()] == [None, None]
    assert (heard.begun, heard.taken, heard.refused) == ([MINE], [(MINE, ("cpu",))], [])


def test_going_on_is_no_launch(session: FakeSession, starts: Starts, heard: Heard) -> None:
    starts.start(Start(MINE, KEPT))
    session.begin()
    starts.look()
    assert session.resumed == [KEPT]
    assert heard.begun == []


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (f"RUN: {KEPT.name} belongs to another process; stop it first.", "it belongs to another process; stop it first."),
        ("lr: it must be a number above 0.", "lr: it must be a number above 0."),
    ],
)
def test_a_refusal_names_a_run_that_goes_on_once(reason: str, told: str) -> None:
    assert Start(MINE, KEPT).refused(reason) == f"{KEPT.name} does not go on: {told}"


def test_a_refusal_names_what_was_refused(session: FakeSession, starts: Starts, heard: Heard) -> None:
    starts.start(Start(MINE))
    session.refuse("data: the folder\x1b is gone.")
    session.state = "preparing"
    assert starts.look() is None, "its thread has not ended"
    session.state = "ended"
    first = "mine was not started: data: the folder· is gone."
    assert starts.look() == first
    starts.start(Start(MINE, KEPT))
    session.refuse("data: there is no module bad.")
    second = f"{KEPT.name} does not go on: data: there is no module bad."
    assert starts.look() == second
    assert heard.refused == [
        (MINE, "data: the folder\x1b is gone.", first),
        (None, "data: there is no module bad.", second),
    ]


def test_a_refusal_of_what_had_begun_is_beside_no_field(session: FakeSession, starts: Starts, heard: Heard) -> None:
    starts.start(Start(MINE))
    session.begin()
    starts.look()
    session.refuse("no such data")
    assert starts.look() == "mine was not started: no such data"
    assert heard.refused == [(None, "no such data", "mine was not started: no such data")]


def test_the_run_takes_what_its_state_allows(session: FakeSession) -> None:
    run = RunView(session)

    def taken() -> list[str]:
        return [command for command in ("pause", "resume", "stop", "checkpoint") if run.takes(command)]

    assert taken() == []
    session.start(MINE)
    assert taken() == ["stop"]
    session.begin()
    assert taken() == ["pause", "stop", "checkpoint"]
    session.state = "paused"
    assert taken() == ["resume", "stop", "checkpoint"]
    session.end()
    assert taken() == []


def test_a_run_that_failed_goes_on_only_where_it_was_saved(session: FakeSession) -> None:
    run = RunView(session)
    session.start(MINE)
    session.begin()
    assert not run.goes_on
    session.end("failed", "out of memory")
    assert not run.goes_on
    assert session.record is not None
    session.say(Checkpoint(step=1, kind="epoch", path=f"{RUN}/checkpoints/step-00000001"))
    assert run.goes_on


def test_only_what_a_person_waits_for_is_awaited(session: FakeSession) -> None:
    run = RunView(session)
    seen = [run.awaited]
    session.start(MINE)
    seen.append(run.awaited)
    session.begin()
    seen.append(run.awaited)
    session.steps(1)
    seen.append(run.awaited)
    session.evaluate()
    seen.append(run.awaited)
    assert all(before != after for before, after in pairwise(seen))
    session.steps(20)
    assert run.awaited == seen[-1]


def test_of_epochs_that_fly_by_nobody_waits_for_each(session: FakeSession) -> None:
    run = RunView(session)
    session.start(MINE)
    session.begin()
    session.say(Step(step=1, epoch=11, loss=1.0, lr=0.01, samples_per_second=500_000.0))
    seen = run.awaited
    session.say(Progress(phase="evaluating"))
    session.evaluate()
    assert run.awaited == seen
    session.end()
    assert run.awaited != seen
