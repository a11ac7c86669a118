"""The worker thread with a small engine: order of events, requests, folders, refusals, and that nothing is left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tuitrain.config import DEFAULTS, ConfigError, RunConfig
from tuitrain.events import Event, Losses, Notice, RunEnded, RunStarted, State, Step
from tuitrain.session.control import Control
from tuitrain.session.worker import WorkerSession

BOUND = 20.0


def started(steps: int) -> RunStarted:
    return RunStarted(
        recipe="custom",
        device=("cpu",),
        strategy="single",
        data="random",
        parameters=1,
        train_samples=steps,
        test_samples=0,
        steps_per_epoch=steps,
        total_steps=steps,
    )


def count_to(steps: int) -> Callable[[RunConfig, Control], Iterator[Event]]:
    """An engine that obeys requests between steps, and after its last step waits for one."""

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(steps)
        assert control.folder.is_dir()
        yield State(state="running")
        for step in range(1, steps + 1):
            yield Losses(first_step=step, epoch=1, losses=(1 / step,), times=(float(step),))
            yield Step(step=step, epoch=1, loss=1 / step, lr=0.1, samples_per_second=1.0)
        request = control.take(wait=True)
        if request == "pause":
            yield State(state="paused")
            assert control.take(wait=True) == "resume"
            yield State(state="running")
            request = control.take(wait=True)
        yield RunEnded(state="interrupted" if request == "interrupt" else "stopped", step=steps)

    return train


class Heard:
    """A listener that keeps everything and says when the run is over."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.batches: list[int] = []
        self.over = threading.Event()
        self.changed = threading.Condition()

    def __call__(self, batch: Sequence[Event]) -> None:
        with self.changed:
            self.events += batch
            self.batches.append(len(batch))
            self.changed.notify_all()
        if not batch:
            self.over.set()

    def wait_for(self, kind: type[Event], count: int = 1) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: sum(isinstance(event, kind) for event in self.events) >= count, BOUND)


@pytest.fixture
def heard() -> Heard:
    return Heard()


def session_of(train: Callable[[RunConfig, Control], Iterator[Event]], folder: Path, heard: Heard) -> WorkerSession:
    session = WorkerSession(lambda: train, folder, lambda: [])
    session.subscribe(heard)
    return session


def test_a_run_is_recorded_and_told_in_order(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(250), tmp_path, heard)
    assert session.state == "idle"
    session.start(DEFAULTS)
    heard.wait_for(Step, 250)
    assert session.state == "running"
    session.stop()
    assert session.join(BOUND)
    assert heard.over.is_set()
    assert session.state == "ended"
    assert [event.step for event in heard.events if isinstance(event, Step)] == list(range(1, 251))
    record = session.record
    assert record is not None
    assert (record.state, record.step, len(record.loss)) == ("stopped", 250, 250)
    assert record.path is not None
    assert record.path.parent == tmp_path
    assert isinstance(heard.events[-1], RunEnded)
    assert heard.events[-1].run == record.run == record.path.name


def test_listeners_get_batches_not_single_events(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(1000), tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(Step, 1000)
    session.stop()
    assert session.join(BOUND)
    assert len(heard.batches) < 100


def test_pause_go_on_and_interrupt(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(1), tmp_path, heard)
    session.start(DEFAULTS)
    session.pause()
    heard.wait_for(State, 2)
    assert session.state == "paused"
    session.resume()
    heard.wait_for(State, 3)
    assert session.state == "running"
    session.interrupt()
    assert session.join(BOUND)
    assert isinstance(heard.events[-1], RunEnded)
    assert heard.events[-1].state == "interrupted"


def test_a_second_start_is_refused_while_the_first_run_lives(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(1), tmp_path, heard)
    session.start(DEFAULTS)
    with pytest.raises(RuntimeError, match="alive"):
        session.start(DEFAULTS)
    session.stop()
    assert session.join(BOUND)
    session.start(DEFAULTS)
    session.stop()
    assert session.join(BOUND)
    assert len([path for path in tmp_path.iterdir() if not path.name.startswith(".")]) == 2


def test_a_configuration_error_makes_no_folder_and_is_told(tmp_path: Path, heard: Heard) -> None:
    def refuse(config: RunConfig, control: Control) -> Iterator[Event]:
        yield Notice(text="looking")
        raise ConfigError("data: nothing there.")

    session = session_of(refuse, tmp_path / "runs", heard)
    session.start(DEFAULTS)
    assert session.join(BOUND)
    assert session.refusal == "data: nothing there."
    assert heard.over.is_set()
    assert not (tmp_path / "runs").exists()
    assert session.state == "ended"


def test_an_engine_that_raises_ends_the_run_as_failed(tmp_path: Path, heard: Heard) -> None:
    def broken(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(5)
        yield Step(step=3, epoch=1, loss=1.0, lr=0.1, samples_per_second=1.0)
        raise ZeroDivisionError("oops")

    session = session_of(broken, tmp_path, heard)
    session.start(DEFAULTS)
    assert session.join(BOUND)
    ended = heard.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.state, ended.step, ended.error) == ("failed", 3, "ZeroDivisionError: oops")


def test_a_listener_that_blocks_does_not_hold_up_training(tmp_path: Path) -> None:
    finished = threading.Event()
    release = threading.Event()

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(2000)
        for step in range(1, 2001):
            yield Losses(first_step=step, epoch=1, losses=(1.0,), times=(0.0,))
        finished.set()
        yield RunEnded(state="finished", step=2000)

    session = WorkerSession(lambda: train, tmp_path, lambda: [])
    session.subscribe(lambda batch: release.wait(BOUND) and None)
    session.start(DEFAULTS)
    assert finished.wait(BOUND)
    assert session.state != "ended"
    release.set()
    assert session.join(BOUND)
    assert session.record is not None
    assert len(session.record.loss) == 2000


def test_no_thread_is_left(tmp_path: Path, heard: Heard) -> None:
    before = set(threading.enumerate())
    session = session_of(count_to(3), tmp_path, heard)
    session.start(DEFAULTS)
    session.stop()
    assert session.join(BOUND)
    assert set(threading.enumerate()) == before
