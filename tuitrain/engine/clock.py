"""How long steps take, measured where they run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import torch


class StepClock(Protocol):
    """Measures one step after the other. `tick` gives a function: the seconds are known only once the device has done the step."""

    def restart(self) -> None:
        """The next step begins now."""
        ...

    def tick(self) -> Callable[[], float]:
        """A step has ended, or on CUDA will have when the device gets there, and the next one begins."""
        ...


class HostClock:
    """For the CPU, where a step is done when its call returns."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def restart(self) -> None:
        """See `StepClock`."""
        self._start = time.perf_counter()

    def tick(self) -> Callable[[], float]:
        """See `StepClock`."""
        now = time.perf_counter()
        seconds, self._start = now - self._start, now
        return lambda: seconds


class CudaClock:
    """For CUDA: marks in the device's own queue, because the host runs ahead of it."""

    def __init__(self) -> None:
        self._start = _cuda_mark()

    def restart(self) -> None:
        """See `StepClock`."""
        self._start = _cuda_mark()

    def tick(self) -> Callable[[], float]:
        """See `StepClock`."""
        start, end = self._start, _cuda_mark()
        self._start = end
        return lambda: start.elapsed_time(end) / 1000


def step_clock(device: torch.device) -> StepClock:
    """The clock for steps on `device`, running."""
    return CudaClock() if device.type == "cuda" else HostClock()


def _cuda_mark() -> torch.cuda.Event:
    mark = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    mark.record()
    return mark
