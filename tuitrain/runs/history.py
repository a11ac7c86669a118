"""What one device did while a run used it."""

from __future__ import annotations

import math

from tuitrain.events import GpuSample
from tuitrain.runs.series import Curve, Series


class DeviceHistory:
    """Curves over Unix seconds: percent, bytes and watts; a gap where nobody knows."""

    def __init__(self) -> None:
        self.utilization: Curve = Series()
        self.memory: Curve = Series()
        self.power: Curve = Series()

    def add(self, sample: GpuSample) -> None:
        """Take in one sample; one that is not newer than the last is passed over, as a clock that was set back gives."""
        for curve, value in ((self.utilization, sample.utilization), (self.memory, sample.memory_used), (self.power, sample.power)):
            if isinstance(curve, Series) and (len(curve) == 0 or sample.time > curve[-1][0]):
                curve.append(sample.time, math.nan if value is None else value)
