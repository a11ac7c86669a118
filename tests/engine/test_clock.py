"""The clock of the loop on a make-believe GPU: how far ahead of it the host gets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tuitrain.engine import clock as clock_module
from tuitrain.engine.clock import AHEAD_SECONDS, HostClock, LeadingClock, leading_clock

GPU = torch.device("cuda", 0)


class Gpu:
    """Does the queued steps one after the other, while the host only waits; the host takes no time to queue them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.step_seconds = 0.0
        self.queued_until = self.now = 0.0
        self.marks: list[float] = []
        monkeypatch.setattr(clock_module, "cuda_mark", lambda device: self.mark())

    def mark(self) -> Any:
        self.queued_until = max(self.queued_until, self.now) + self.step_seconds
        at = self.queued_until
        self.marks.append(at)
        return SimpleNamespace(at=at, synchronize=lambda: self.wait(at), elapsed_time=lambda end: 1000 * (end.at - at))

    def wait(self, until: float) -> None:
        self.now = max(self.now, until)

    @property
    def behind(self) -> float:
        """Seconds of work that are queued."""
        return self.queued_until - self.now


def running(monkeypatch: pytest.MonkeyPatch, step_seconds: float) -> tuple[Gpu, LeadingClock]:
    """A GPU whose steps take so long from now on, and the clock that has begun on it."""
    gpu = Gpu(monkeypatch)
    clock = LeadingClock(GPU)
    gpu.step_seconds = step_seconds
    return gpu, clock


@pytest.mark.parametrize("step_seconds", [0.0003, 0.02, 0.1])
def test_the_host_is_ahead_by_a_part_of_a_second_whatever_a_step_takes(monkeypatch: pytest.MonkeyPatch, step_seconds: float) -> None:
    gpu, clock = running(monkeypatch, step_seconds)
    for step in range(5000):
        clock.tick()
        if step > 20:
            assert gpu.behind <= max(AHEAD_SECONDS, 2 * step_seconds) + 1e-6
    # It is not held back before it has to be.
    assert gpu.behind > AHEAD_SECONDS / 3


def test_of_steps_that_take_seconds_no_more_than_two_are_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, clock = running(monkeypatch, 3.0)
    for _ in range(40):
        clock.tick()
        assert gpu.behind <= 2 * 3.0 + 1e-6


def test_time_that_went_into_an_evaluation_is_no_pace_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, clock = running(monkeypatch, 0.01)
    for _ in range(100):
        clock.tick()
    gpu.wait(gpu.queued_until + 60.0)
    clock.restart()
    for _ in range(20):
        clock.tick()
    assert gpu.now < gpu.marks[-21] + 1.0
    assert gpu.behind > 0.1


def test_only_a_gpu_is_waited_for() -> None:
    assert isinstance(leading_clock(torch.device("cpu")), HostClock)
