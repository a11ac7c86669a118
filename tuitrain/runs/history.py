"""What one device did while a run used it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuitrain.events import GpuSample
from tuitrain.runs.series import Curve, Series

GAP_SECONDS = 10.0
"""Samples come once a second; what lies between two that are further apart nobody saw."""


class DeviceHistory:
    """Curves over Unix seconds: percent, bytes and watts; a gap where nobody knows.

    Attributes:
        joules: about what the device took, its power summed up over time; `None` where nobody knows the power. Longer gaps between two
            samples, such as those of a run that went on a day later, count nothing.
        powered_seconds: the time that `joules` is about.
    """

    def __init__(self) -> None:
        self.joules: float | None = None
        self.powered_seconds = 0.0
        self._utilization, self._memory, self._power = Series(), Series(), Series()
        self.utilization: Curve = self._utilization
        self.memory: Curve = self._memory
        self.power: Curve = self._power

    def add(self, sample: GpuSample) -> None:
        """Take in one sample; one that is not newer than the last is passed over, as a clock that was set back gives."""
        self.extend((sample,))

    def extend(self, samples: Sequence[GpuSample]) -> None:
        """Take in samples of this device, in the order in which they came; see `add`."""
        newest = self._power[-1][0] if len(self._power) else -math.inf
        times: list[float] = []
        taken: list[GpuSample] = []
        for sample in samples:
            if sample.time > newest:
                self._add_energy(sample, sample.time - newest)
                newest = sample.time
                times.append(newest)
                taken.append(sample)
        self._utilization.extend(times, [_number(sample.utilization) for sample in taken])
        self._memory.extend(times, [_number(sample.memory_used) for sample in taken])
        self._power.extend(times, [_number(sample.power) for sample in taken])

    def _add_energy(self, sample: GpuSample, seconds: float) -> None:
        if sample.power is None or not math.isfinite(sample.power):
            return
        joules = self.joules or 0.0
        if seconds <= GAP_SECONDS:
            joules += sample.power * seconds
            self.powered_seconds += seconds
        self.joules = joules


def _number(value: float | None) -> float:
    return math.nan if value is None else value
