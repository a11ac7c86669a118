"""A few timed steps of one configuration, in a process of its own (`main`).

The request is one line of JSON on stdin, the answer one JSON object on stdout; whatever the model prints goes to stderr. The process ends
when its stdin is closed, so that it does not outlive the one that asked.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import cast

import msgspec
import torch

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.control import Control, Request
from tuitrain.engine.placement import place
from tuitrain.engine.train import Spread, train
from tuitrain.events import Event, ReplicaStats, RunEnded, RunStarted, Step

TRIES_SECONDS = 30.0
"""How long the largest batch is looked for."""
BISECTIONS = 3
_TRY_STEPS = 2
_ENDLESS_EPOCHS = 2**40


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to measure, or with 0 steps only which devices `config.device` means.

    Attributes:
        steps: how many are counted, after `warmup` that are not.
        seconds: when to stop with fewer, from the first counted step on.
        largest: look for the largest batch too, where all devices are GPUs.
        free: CUDA ordinals, most free memory first.
        folder: for what a run writes at the end of an epoch; the one that asks deletes it.
    """

    config: RunConfig
    folder: str
    steps: int
    warmup: int
    seconds: float
    largest: bool = False
    free: tuple[int, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `error` is one sentence, and `refused` says that the configuration is at fault.

    Attributes:
        devices: one for each replica.
        gpus: how many torch can use.
        step_seconds: the median of the counted steps that had a whole batch.
        seconds: all counted steps together.
        memory: the peak of torch's tensors on each replica's device, in bytes; `None` on the CPU.
        largest: the largest batch that fits; `None` where nobody looked.
        largest_by: "memory" where a larger one does not fit, "data" where there are no more samples, "time" where the search ended early.
    """

    devices: tuple[str, ...] = ()
    gpus: int = 0
    data: str = ""
    batch: int = 0
    steps: int = 0
    step_seconds: float | None = None
    seconds: float | None = None
    memory: tuple[int | None, ...] = ()
    largest: int | None = None
    largest_by: str | None = None
    error: str | None = None
    refused: bool = False


class _Alone(Control):
    """Nobody asks this run for anything."""

    ending = False

    def __init__(self, folder: Path, free: tuple[int, ...]) -> None:
        self.folder = folder
        self.resolved = None
        self.environment = {}
        self.free_cuda_devices = lambda: free

    def output(self, line: str) -> None:
        """What ranks print is of interest where they fail, and then it is in the error."""

    def placed(self, devices: Sequence[str]) -> None:
        """Nothing to prepare."""

    def take(self, *, wait: bool) -> Request | None:
        """Never anything."""
        return None


def measure(ask: Ask, spread: Spread | None = None) -> Answer:
    """Train as `ask` says, with the loop that runs have, and leave it after the last counted step.

    Args:
        spread: starts the processes of the strategy ddp; see `train`.
    """
    try:
        devices = tuple(map(str, place(ask.config.device, lambda: ask.free).devices))
        answer = Answer(devices=devices, gpus=torch.cuda.device_count() if torch.cuda.is_available() else 0)
        if ask.steps == 0:
            return answer
        answer = _timed(ask, answer, spread)
        # Each try of ddp would start all its processes anew.
        looked = ask.largest and ask.config.strategy != "ddp"
        if looked and answer.error is None and all(name.startswith("cuda") for name in devices):
            answer = _with_largest(ask, answer)
    except ConfigError as error:
        return Answer(error=str(error), refused=True)
    return answer


def _timed(ask: Ask, answer: Answer, spread: Spread | None) -> Answer:
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
            memory=tuple(map(told.get, range(len(answer.devices)))) if started.strategy == "ddp" else _peaks(answer),
        )
    finally:
        events.close()


def _peaks(answer: Answer) -> tuple[int | None, ...]:
    """Of this process's tensors, on each replica's device."""
    return tuple(torch.cuda.max_memory_allocated(name) if name.startswith("cuda") else None for name in answer.devices)


def _training(config: RunConfig, steps: int, ask: Ask, spread: Spread | None = None) -> Generator[Event, None, None]:
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
    return cast("Generator[Event, None, None]", train(changed, _Alone(Path(ask.folder), ask.free), spread=spread))


def _samples(batch_size: int, started: RunStarted, step: int) -> int:
    """How many samples step number `step` had: the last one of an epoch has what is left."""
    return min(batch_size, started.train_samples - (step - 1) % started.steps_per_epoch * batch_size)


# -- the largest batch ----------------------------------------------------------------------------------------------------


def _with_largest(ask: Ask, answer: Answer) -> Answer:
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


def _train_samples(ask: Ask) -> int:
    events = _training(ask.config, 1, ask)
    try:
        return next(event.train_samples for event in events if isinstance(event, RunStarted))
    finally:
        events.close()


def _fits(config: RunConfig, ask: Ask) -> bool:
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


# -- the process ----------------------------------------------------------------------------------------------------------


def main(spread: Spread | None = None) -> None:
    """Read the request, measure, answer; `spread` as for `measure`."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 65536)
        if not piece:
            sys.exit("no request came on stdin")
        line += piece
    ask = msgspec.json.decode(line, type=Ask)
    threading.Thread(target=_end_with_the_one_that_asked, args=(ask.folder,), daemon=True).start()
    answers.write(msgspec.json.encode(measure(ask, spread)))
    answers.flush()


def _end_with_the_one_that_asked(folder: str) -> None:
    while os.read(0, 4096):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
