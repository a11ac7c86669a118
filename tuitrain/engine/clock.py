"""How long steps take, measured where they run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import torch

Seconds = Callable[[], float]
"""How long something took: known, and to be called, only once the device has done it."""


class StepClock(Protocol):
    """Measures one step after the other, or one replica's part of it."""

    def restart(self) -> None:
        """The next step begins now."""
        ...

    def tick(self) -> Seconds:
        """A step has ended, or on CUDA will have when the device gets there, and the next one begins."""
        ...


class HostClock:
    """For the CPU, where a step is done when its call returns."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def restart(self) -> None:
        """See `StepClock`."""
        self._start = time.perf_counter()

    def tick(self) -> Seconds:
        """See `StepClock`."""
        now = time.perf_counter()
        seconds, self._start = now - self._start, now
        return lambda: seconds


class CudaClock:
    """For CUDA: marks in the device's own queue, because the host runs ahead of it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._start = cuda_mark(device)

    def restart(self) -> None:
        """See `StepClock`."""
        self._start = cuda_mark(self._device)

    def tick(self) -> Seconds:
        """See `StepClock`."""
        start, end = self._start, cuda_mark(self._device)
        self._start = end
        return lambda: start.elapsed_time(end) / 1000


def step_clock(device: torch.device) -> StepClock:
    """The clock for steps on `device`, running."""
    return CudaClock(device) if device.type == "cuda" else HostClock()


def cuda_mark(device: torch.device) -> torch.cuda.Event:
    """A moment in the queue of what `device` does."""
    mark = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    mark.record(torch.cuda.current_stream(device))
    return mark
