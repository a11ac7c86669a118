"""A training that hangs when a signal ends it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import small_sessions
from small_groups import quiet_control
from small_sessions import BOUND, until

from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import Event, Losses, RunEnded
from tuitrain.session.control import Control
from tuitrain.session.in_time import LOOKS, in_time
from tuitrain.session.worker import WorkerSession

SECONDS = 0.2


def test_a_step_that_never_ends_is_waited_for_until_the_run_is_interrupted(tmp_path: Path) -> None:
    never, hangs = threading.Event(), threading.Event()

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield small_sessions.started(9)
        assert control.folder.is_dir()
        yield Losses(first_step=1, epoch=1, losses=(1.0, 2.0, 3.0), times=(1.0, 2.0, 3.0))
        hangs.set()
        never.wait(BOUND)

    heard: list[Event] = []
    session = WorkerSession(lambda: in_time(train, SECONDS), tmp_path, list)
    session.subscribe(heard.extend)
    session.start(RunConfig())
    try:
        assert hangs.wait(BOUND)
        session.stop()
        assert not session.join(3 * SECONDS)
        session.interrupt()
        until(lambda: session.join(0))
    finally:
        never.set()
    ended = heard[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.state, ended.step) == ("failed", 3)
    assert ended.error is not None
    assert ended.error.startswith("another rank has gone or hangs: ")


class Looked(Control):
    """Interrupted; knows how often it was looked whether it was."""

    def __init__(self) -> None:
        super().__init__(list)
        self.looks: queue.SimpleQueue[None] = queue.SimpleQueue()

    @property
    def interrupted(self) -> bool:
        self.looks.put(None)
        return True


def test_what_is_slow_but_says_something_ends_in_its_own_way() -> None:
    control = Looked()

    def train(config: RunConfig, _: Control) -> Iterator[Event]:
        for step in range(1, 4):
            for _look in range(LOOKS - 1):
                control.looks.get(timeout=BOUND)
            yield Losses(first_step=step, epoch=1, losses=(1.0,), times=(1.0,))
        yield RunEnded(state="interrupted", step=3)

    # So long that none comes in the moment between what is said last and what hears it.
    events = list(in_time(train, LOOKS * 0.1)(RunConfig(), control))
    assert events[-1] == RunEnded(state="interrupted", step=3)


def test_what_the_engine_raises_comes_to_the_host() -> None:
    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield small_sessions.started(1)
        raise ConfigError("lr: it is too much")

    events = in_time(train, SECONDS)(RunConfig(), quiet_control())
    next(events)
    with pytest.raises(ConfigError, match="too much"):
        next(events)


def test_an_engine_that_waited_in_vain_is_not_taken_for_one_that_hangs() -> None:
    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        raise TimeoutError(110, "Connection timed out", "/data/train")
        yield

    with pytest.raises(TimeoutError, match="/data/train"):
        next(in_time(train, SECONDS)(RunConfig(), quiet_control()))


def test_a_host_that_asks_for_no_more_events_waits_until_the_engine_has_let_go() -> None:
    closed: list[str] = []

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        try:
            yield small_sessions.started(1)
            closed.append("went on")
        finally:
            closed.append(threading.current_thread().name)

    events = in_time(train, SECONDS)(RunConfig(), quiet_control())
    next(events)
    del events
    assert closed == ["tuitrain-rank"]
