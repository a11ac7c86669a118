"""How long steps take, measured where they run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import torch

AHEAD_SECONDS = 0.25
"""More than a screen that is drawn, or another process, keeps the host from going on."""
_LEAST_AHEAD = 2

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


class LeadingClock(CudaClock):
    """The clock of the loop: it holds the host back where that is further ahead than `AHEAD_SECONDS` of the device's work.

    CUDA itself does so after a thousand launches, and a recorded step is a single one: a pause, a stop and the losses would come that many
    steps late.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._queued: deque[torch.cuda.Event] = deque()
        self._most = _LEAST_AHEAD

    def restart(self) -> None:
        """See `StepClock`."""
        super().restart()
        self._queued.clear()

    def tick(self) -> Seconds:
        """See `StepClock`."""
        seconds = super().tick()
        self._queued.append(self._start)
        if len(self._queued) > self._most:
            self._hold_back()
        return seconds

    def _hold_back(self) -> None:
        """Wait until the device has done half of these steps, and see how many of their pace may be queued."""
        first, count = self._queued[0], len(self._queued) // 2
        for _ in range(count):
            self._queued.popleft()
        reached = self._queued[0]
        reached.synchronize()
        pace = first.elapsed_time(reached) / 1000 / count
        self._most = max(_LEAST_AHEAD, round(AHEAD_SECONDS / max(pace, 1e-6)))


def leading_clock(device: torch.device) -> StepClock:
    """The clock for the loop's steps on `device`, running."""
    return LeadingClock(device) if device.type == "cuda" else HostClock()


def step_clock(device: torch.device) -> StepClock:
    """The clock for parts of steps on `device`, running."""
    return CudaClock(device) if device.type == "cuda" else HostClock()


def cuda_mark(device: torch.device) -> torch.cuda.Event:
    """A moment in the queue of what `device` does; who waits for it sleeps."""
    mark = torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]
    mark.record(torch.cuda.current_stream(device))
    return mark
