"""A few timed steps of one configuration."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.control import Control
from tuitrain.engine.memory import memory_of
from tuitrain.engine.placement import cuda_count, place
from tuitrain.engine.train import Spread, train
from tuitrain.events import Event, ReplicaStats, Request, RunEnded, RunStarted, Step
from tuitrain.text import print_error
from tuitrain.wire import Measured, Trial

TRIES_SECONDS = 30.0
"""How long the largest batch is looked for."""
BISECTIONS = 3
_TRY_STEPS = 2
_ENDLESS_EPOCHS = 2**40


class _Alone(Control):
    """Nobody asks this run for anything."""

    ending = False

    def __init__(self, free: tuple[int, ...]) -> None:
        self.folder = Path()
        self.resolved = None
        self.environment = {}
        self.free_cuda_devices: Callable[[], Sequence[int] | None] = lambda: free

    def output(self, line: str) -> None:
        """What ranks print is of interest where they fail, and then it is in the error."""

    def placed(self, devices: Sequence[str]) -> None:
        """Nothing to prepare."""

    def recorded(self) -> None:
        """Nothing is kept."""

    def raised(self, error: BaseException) -> None:
        """Whoever measures gets the sentence, and this process's stderr the rest."""
        print_error(error)

    def take(self, *, wait: bool) -> Request | None:
        """Never anything."""
        return None

    def stay(self) -> None:
        """Nobody asks it to leave."""


def measure(ask: Trial, spread: Spread | None = None) -> Measured:
    """Train as `ask` says, with the loop that runs have, and leave it after the last counted step.

    Args:
        spread: starts the processes of the strategy ddp; see `train`.
    """
    try:
        devices = tuple(map(str, place(ask.config.device, lambda: ask.free).devices))
        answer = Measured(devices=devices, gpus=cuda_count())
        if ask.steps == 0:
            return answer
        answer = _timed(ask, answer, spread)
        # Each try of ddp would start all its processes anew.
        if ask.config.strategy != "ddp" and answer.error is None and all(name.startswith("cuda") for name in devices):
            answer = _with_largest(ask, answer)
    except ConfigError as error:
        return Measured(error=str(error), refused=True)
    return answer


def _timed(ask: Trial, answer: Measured, spread: Spread | None) -> Measured:
    """The answer with what `ask.steps` steps took."""
    total = ask.warmup + ask.steps
    events = _training(ask.config, total, ask, spread)
    started, whole, every, told = None, [], [], dict[int, int]()
    try:
        for event in events:
            if isinstance(event, RunStarted):
                started = event
            elif isinstance(event, RunEnded):
                return msgspec.structs.replace(answer, error=event.error or "The training ended before its time.")
            elif isinstance(event, ReplicaStats):
                told |= {stat.index: max(stat.memory, told.get(stat.index, 0)) for stat in event.replicas if stat.memory is not None}
            elif isinstance(event, Step) and started is not None and event.step > ask.warmup:
                samples = _samples(ask.config.batch_size, started, event.step)
                seconds = samples / event.samples_per_second
                every.append(seconds)
                if samples == min(ask.config.batch_size, started.train_samples):
                    whole.append(seconds)
                if event.step == total or (whole and sum(every) > ask.seconds):
                    break
        assert started is not None
        return msgspec.structs.replace(
            answer,
            data=started.data,
            batch=min(ask.config.batch_size, started.train_samples),
            steps=len(every),
            step_seconds=statistics.median(whole or every),
            seconds=sum(every),
            memory=tuple(map(told.get, range(len(answer.devices)))) if started.strategy == "ddp" else memory_of(answer.devices).peaks,
        )
    finally:
        events.close()


def _training(config: RunConfig, steps: int, ask: Trial, spread: Spread | None = None) -> Generator[Event, None, None]:
    """The events of a run of `steps` steps that saves nothing on the way."""
    changed = msgspec.structs.replace(
        config,
        epochs=_ENDLESS_EPOCHS,
        max_steps=steps,
        log_every_steps=1,
        checkpoint_every_steps=None,
        checkpoint_every_minutes=1e9,
        max_restarts=0,
    )
    control = _Alone(ask.free)
    with closing(cast("Generator[Event, None, None]", train(changed, control, spread=spread))) as events:
        for event in events:
            if isinstance(event, RunStarted):
                control.folder = Path(ask.folder)
            yield event


def _samples(batch_size: int, started: RunStarted, step: int) -> int:
    """How many samples step number `step` had: the last one of an epoch has what is left."""
    return min(batch_size, started.train_samples - (step - 1) % started.steps_per_epoch * batch_size)


# -- the largest batch ----------------------------------------------------------------------------------------------------


def _with_largest(ask: Trial, answer: Measured) -> Measured:
    samples = _train_samples(ask)
    deadline = time.monotonic() + TRIES_SECONDS

    def fits(size: int) -> bool:
        return _fits(msgspec.structs.replace(ask.config, batch_size=size), ask)

    size, by = largest_batch(answer.batch, samples, fits, lambda: time.monotonic() > deadline)
    return msgspec.structs.replace(answer, largest=size, largest_by=by)


def largest_batch(fitting: int, most: int, fits: Callable[[int], bool], late: Callable[[], bool]) -> tuple[int, str]:
    """The largest batch that fits, about: by doubling until one does not, then by halving the gap a few times.

    Args:
        fitting: one that is known to fit.
        most: there is nothing to learn above it.
        fits: tries one.
        late: whether to be content with what is known.

    Returns:
        The batch, and what ended the search: "memory", "data" or "time".
    """
    too_large: int | None = None
    while too_large is None:
        if fitting >= most:
            return fitting, "data"
        if late():
            return fitting, "time"
        size = min(fitting * 2, most)
        fitting, too_large = (size, None) if fits(size) else (fitting, size)
    for _ in range(BISECTIONS):
        size = (fitting + too_large) // 2
        if size == fitting or late():
            break
        fitting, too_large = (size, too_large) if fits(size) else (fitting, size)
    return fitting, "memory"


def _train_samples(ask: Trial) -> int:
    events = _training(ask.config, 1, ask)
    try:
        return next(event.train_samples for event in events if isinstance(event, RunStarted))
    finally:
        events.close()


def _fits(config: RunConfig, ask: Trial) -> bool:
    """Whether a few steps can be done; the first one's gradients and the optimizer's state are there in the second."""
    events = _training(config, _TRY_STEPS, ask)
    try:
        for event in events:
            if isinstance(event, RunEnded):
                return event.error is None
            if isinstance(event, Step) and event.step == _TRY_STEPS:
                return True
    except ConfigError:
        return False
    finally:
        events.close()
    return False
