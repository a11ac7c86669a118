"""Trials that answer at once, or when they are let, with what the test chose."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tuitrain.config import RunConfig
from tuitrain.session.preflight.plans import Plan
from tuitrain.session.preflight.trials import Cancelled
from tuitrain.wire import Measured

GIB = 2**30


class FakeTrials:
    """`devices` is what torch has; with a `gate` every trial waits to be let. Measured again, a plan is a tenth slower."""

    def __init__(self, *devices: str, free: Sequence[int] = ()) -> None:
        self.pool = devices or ("cpu",)
        self.free = tuple(free)
        self.results: dict[Plan, Measured] = {}
        self.refusal: str | None = None
        self.gate: threading.Semaphore | None = None
        self.asked: list[RunConfig] = []
        self.measured: list[Plan] = []
        self.cancelled = False

    def devices(self, config: RunConfig, stop: threading.Event) -> Measured:
        self.asked.append(config)
        if self.refusal is not None:
            return Measured(error=self.refusal, refused=True)
        named = self.pool if config.device == "auto:all" else tuple(config.device.split(","))
        return Measured(devices=named, gpus=sum(name.startswith("cuda") for name in self.pool))

    def measure(self, config: RunConfig, plan: Plan, stop: threading.Event) -> Measured:
        self.measured.append(plan)
        while self.gate is not None and not self.gate.acquire(timeout=0.01):
            if stop.is_set():
                self.cancelled = True
                raise Cancelled
        again = 1 + (self.measured.count(plan) - 1) / 10
        return self.results.get(plan) or took(plan, again * (0.02 if "cpu" in plan.devices else 0.016 / len(plan.devices) ** 0.7))


def took(plan: Plan, seconds: float) -> Measured:
    """A trial that worked: on GPUs with 2.1 GiB on the first and 0.9 on the others, and room for a batch of 8,192."""
    on_gpus = "cpu" not in plan.devices
    memory = tuple((int((0.9 if place else 2.1) * GIB) if on_gpus else None) for place in range(len(plan.devices)))
    largest = {"largest": 8192, "largest_by": "memory"} if on_gpus else {}
    return Measured(
        devices=plan.devices, data="synthetic", batch=64, steps=20, step_seconds=seconds, seconds=seconds * 20, memory=memory, **largest
    )
