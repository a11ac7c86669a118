"""What the times of a run's steps mean: its phases, who is slow, and plain sentences of advice."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import msgspec

from tuitrain import words
from tuitrain.config import RunConfig
from tuitrain.events import Phases, StepTimes
from tuitrain.tui.balance import straggler

PHASES = {
    "data": "waiting for data",
    "forward": "forward",
    "backward": "backward",
    "communication": "communication",
    "update": "update",
    "other": "other",
}
"""The phases of a step in their order, as people call them."""

MOST_SENTENCES = 4
MUCH_DATA = 0.2
MUCH_COMMUNICATION = 0.3
MUCH_UPDATE = 0.2
MUCH_OTHER = 0.15
"""A phase with a larger share of a step than this is worth a sentence."""
LITTLE_TRAINING = 0.6
"""So is a run that trains for a smaller share of its time,"""
LONG_ENOUGH = 10.0
"""once it has run for so many seconds."""


class Slow(msgspec.Struct, frozen=True):
    """The replica that is clearly slower than the others, and by how many seconds a step."""

    index: int
    seconds: float


def shares(phases: Phases) -> dict[str, float]:
    """Each phase's share of the whole, 0 to 1."""
    whole = phases.seconds
    return {name: getattr(phases, name) / whole if whole > 0 else 0.0 for name in PHASES}


def names(times: StepTimes) -> tuple[str, ...]:
    """The phases that this run's steps can have: alone there is nobody to talk with."""
    return tuple(name for name in PHASES if name != "communication" or len(times.devices) > 1 or times.strategy == "ddp")


def in_turn(times: StepTimes) -> bool:
    """Whether the replicas work one after the other on one device."""
    return times.strategy == "split" and len(times.devices) > 1 and len(set(times.devices)) == 1


def shared(times: StepTimes) -> bool:
    """Whether replicas share a device."""
    return len(set(times.devices)) < len(times.devices)


def slow_replica(times: StepTimes) -> Slow | None:
    """The replica whose own work, forward and backward, takes clearly longer than the others'."""
    work = [(part.forward + part.backward) / times.steps for part in times.replicas]
    index = straggler(dict(enumerate(work)))
    return None if index is None else Slow(index, work[index] - median(work))


def step_seconds(times: StepTimes) -> float:
    """How long a step takes on average."""
    return times.phases.seconds / times.steps


def samples_per_second(times: StepTimes) -> float:
    """While training."""
    return times.samples / times.phases.seconds if times.phases.seconds > 0 else 0.0


def training_share(times: StepTimes, steps: int, running_seconds: float) -> float | None:
    """The share of the running time that `steps` steps took; `None` before it says anything."""
    return min(step_seconds(times) * steps / running_seconds, 1.0) if running_seconds >= LONG_ENOUGH else None


def advice(
    times: StepTimes, config: RunConfig, *, readers: int = 0, speedup: float | None = None, training: float | None = None
) -> list[str]:
    """What to make of the times, the weightiest first; one sentence at least and `MOST_SENTENCES` at most.

    Args:
        times: with steps in them.
        config: what is trained.
        readers: how many processes read the training samples meanwhile.
        speedup: samples per second against one device, where it is known.
        training: the share of the running time that went into steps, where it is known.
    """
    found = [*_about_sharing(times, speedup), *_about_phases(times, config, readers), *_about_replicas(times)]
    if training is not None and training < LITTLE_TRAINING:
        found.append(f"Training steps are only {_percent(training)} of the time: evaluation and saving, and the start, are the rest.")
    share = shares(times.phases)
    if not found:
        found.append(f"{_percent(share['forward'] + share['backward'])} of a step is forward and backward: nothing stands in their way.")
    return found[:MOST_SENTENCES]


def _about_sharing(times: StepTimes, speedup: float | None) -> Iterator[str]:
    """What several devices bring."""
    if in_turn(times):
        yield f"The replicas take turns on {times.devices[0]}: this shows how splitting works and brings no speed."
    elif shared(times) and times.strategy == "ddp":
        slower = speedup is not None and speedup < 1
        brought = "what they exchange comes on top, and one process alone is faster" if slower else "with cores of its own each is faster"
        yield f"The ranks share the CPU's cores: {brought}."
    elif speedup is not None and speedup < 1 and len(times.devices) > 1:
        yield f"One device alone is faster than these {len(times.devices)}: each step has too little work to share."


def _about_phases(times: StepTimes, config: RunConfig, readers: int) -> Iterator[str]:
    share, a_step = shares(times.phases), words.milliseconds(step_seconds(times))
    if share["communication"] > MUCH_COMMUNICATION:
        text = f"Communication is {_percent(share['communication'])} of a step"
        yield f"{text}: a larger batch_size, or a larger model, gives the devices more to do between two exchanges."
    if share["data"] > MUCH_DATA and readers:
        text = f"{_percent(share['data'])} of the time is waiting for samples, which {words.readers(readers)}"
        yield f"{text}: samples that are drawn, or decoded, with less work come sooner."
    elif share["data"] > MUCH_DATA:
        text = f"{_percent(share['data'])} of the time goes into making the batches"
        augmented = config.augment != "none"
        more = (
            f"{config.augment} is part of that, and augment none leaves it out" if augmented else "a larger batch_size needs fewer of them"
        )
        yield f"{text}: {more}."
    if share["update"] > MUCH_UPDATE:
        text = f"The update of the parameters is {_percent(share['update'])} of a step"
        yield f"{text}, however many devices there are: a larger batch_size needs fewer updates."
    if share["other"] > MUCH_OTHER:
        text = f"{_percent(share['other'])} of the time goes into the loop around the steps"
        yield f"{text}: at {a_step} they are short, and a larger batch_size does more in each."


def _about_replicas(times: StepTimes) -> Iterator[str]:
    slow = slow_replica(times)
    # Where replicas take turns nobody waits.
    if slow is not None and not in_turn(times):
        text = f"Replica {slow.index} ({times.devices[slow.index]}) takes {words.milliseconds(slow.seconds)} longer than the median"
        yield f"{text}, and the others wait for it."


def _percent(share: float) -> str:
    return words.percent(share * 100)
