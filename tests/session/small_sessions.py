"""A session with a small engine, and a listener that keeps what it hears."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tuitrain.config import RunConfig
from tuitrain.events import Event, Losses, RunEnded, RunStarted, State, Stays, Step
from tuitrain.session.control import Control
from tuitrain.session.worker import WorkerSession

BOUND = 60.0
SMALL_HOST = f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}, sys.argv.pop(1)]; import small_host; small_host.main()"
"""In the place of `detached._PROGRAM`."""


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + BOUND
    while not true():
        assert time.monotonic() < end
        threading.Event().wait(0.01)


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


def staying(config: RunConfig, control: Control) -> Iterator[Event]:
    """An engine whose checkpoints cannot be saved."""
    yield started(3)
    yield State(state="running")
    while (request := control.take(wait=True)) != "stop":
        if request == "leave":
            assert control.ending
            control.stay()
            yield Stays(text="The checkpoint at step 1 could not be saved: No space left on device.")
    yield RunEnded(state="stopped", step=1)


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


def session_of(train: Callable[[RunConfig, Control], Iterator[Event]], folder: Path, heard: Heard) -> WorkerSession:
    session = WorkerSession(lambda: train, folder, lambda: [])
    session.subscribe(heard)
    return session
