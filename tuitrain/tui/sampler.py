"""What the screens need of the sampler of this machine's devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tuitrain.devices import DeviceSnapshot, HistoryPoint


class SamplerLike(Protocol):
    """A `tuitrain.devices.Sampler`, or what stands in for one."""

    def latest(self) -> DeviceSnapshot:
        """What is known now; never blocks."""
        ...

    def history(self, key: str, seconds: float = 3600) -> Sequence[HistoryPoint]:
        """The last `seconds` of one device's past, oldest first."""
        ...
