"""Where the time of training steps goes, measured on one device without making it wait.

On the CPU every step is measured, with the host's clock. On CUDA one step of `CUDA_EVERY` is, with marks in the device's own queue: a phase
lasts from one mark to the next, so time in which the device waits for the host counts with the phase that the host was slow in.
The first step is never measured: it loads kernels, and may compile.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch

from tuitrain.engine.clock import Seconds, cuda_mark
from tuitrain.events import Phases, StepTimes

CUDA_EVERY = 16
Phase = Literal["data", "forward", "backward", "communication", "update", "other"]
Mark = Any
"""A moment: seconds on the host's clock, or an event in a device's queue."""


@dataclass(frozen=True)
class Spent:
    """Sums over `steps` measured steps; `parts` are those of the replicas that are measured beside the device."""

    steps: int
    samples: int
    phases: Phases
    parts: tuple[Phases, ...] = ()

    def __add__(self, other: Spent) -> Spent:
        parts = tuple(mine + theirs for mine, theirs in zip(self.parts, other.parts, strict=True))
        return Spent(self.steps + other.steps, self.samples + other.samples, self.phases + other.phases, parts)

    def event(self, strategy: str, devices: tuple[str, ...]) -> StepTimes:
        """These sums as what a run says."""
        return StepTimes(
            strategy=strategy, devices=devices, steps=self.steps, samples=self.samples, phases=self.phases, replicas=self.parts
        )


class _Step(NamedTuple):
    """A measured step: each mark ends its phase; the first one is where the step begins."""

    marks: list[tuple[Phase, Mark]]
    parts: list[tuple[int, Seconds, Seconds]]
    samples: int


class Laps:
    """Splits steps into phases: each `lap` gives a phase the time since the one before.

    Args:
        device: the one whose time it is.
        replicas: how many have times of their own, told with `part`.

    Attributes:
        measuring: whether the step under way is measured; in one that is not all calls do nothing.
    """

    def __init__(self, device: torch.device, replicas: int = 0) -> None:
        self.measuring = False
        self._cuda = device.type == "cuda"
        self._now: Callable[[], Mark] = (lambda: cuda_mark(device)) if self._cuda else time.perf_counter
        self._between: Callable[[Mark, Mark], float] = _cuda_seconds if self._cuda else _host_seconds
        self._replicas = replicas
        self._steps = 0
        self._marks: list[tuple[Phase, Mark]] = []
        self._parts: list[tuple[int, Seconds, Seconds]] = []
        self._done: list[_Step] = []

    def restart(self) -> None:
        """The next step begins now: what lies before went into evaluation, saving or a pause."""
        if self.measuring:
            self._marks, self._parts = [("other", self._now())], []

    def mark(self) -> Mark:
        """This moment, for a later `lap`."""
        return self._now()

    def lap(self, phase: Phase, at: Mark | None = None) -> None:
        """What came since the last lap, up to now or `at`, belongs to `phase`."""
        if self.measuring:
            self._marks.append((phase, self._now() if at is None else at))

    def part(self, index: int, forward: Seconds, backward: Seconds) -> None:
        """How long one replica took in this step, on its own device."""
        if self.measuring:
            self._parts.append((index, forward, backward))

    def tick(self, samples: int) -> None:
        """A step of so many samples has ended, and the next one begins."""
        if self.measuring:
            self._done.append(_Step(self._marks, self._parts, samples))
            last = self._marks[-1]
        self._steps += 1
        kept = self.measuring and not self._cuda
        self.measuring = self._steps % CUDA_EVERY == 1 if self._cuda else True
        if kept:
            self._marks, self._parts = [last], []
        else:
            self.restart()

    def take(self) -> Spent | None:
        """The sums of the steps that ended since the last call, and that the device has done; `None` without any. It never waits."""
        count = next((place for place, step in enumerate(self._done) if not self._is_done(step)), len(self._done))
        if not count:
            return None
        done, self._done = self._done[:count], self._done[count:]
        phases: dict[str, float] = defaultdict(float)
        forward, backward = [0.0] * self._replicas, [0.0] * self._replicas
        for step in done:
            start = step.marks[0][1]
            for phase, end in step.marks[1:]:
                phases[phase] += self._between(start, end)
                start = end
            for index, first, second in step.parts:
                forward[index] += first()
                backward[index] += second()
        parts = tuple(Phases(forward=first, backward=second) for first, second in zip(forward, backward, strict=True))
        return Spent(count, sum(step.samples for step in done), Phases(**phases), parts)

    def times(self, strategy: str, devices: tuple[str, ...]) -> StepTimes | None:
        """What `take` gives, as what a run of this process alone says."""
        spent = self.take()
        return None if spent is None else spent.event(strategy, devices)

    def _is_done(self, step: _Step) -> bool:
        # A replica on another device is done when the first device, which takes its gradients, is.
        return not self._cuda or bool(step.marks[-1][1].query())


def _cuda_seconds(start: Any, end: Any) -> float:
    milliseconds: float = start.elapsed_time(end)
    return milliseconds / 1000


def _host_seconds(start: float, end: float) -> float:
    return end - start
