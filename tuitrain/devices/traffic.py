"""Counters of a card, and what they grow by in a second.

NVML's ready-made PCIe rate measures for 20 ms inside the call, so the byte counters are read instead; an older driver has none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tuitrain.devices.fields import number
from tuitrain.devices.questions import Questions

_ENERGY = 83
_NVLINK_SENT, _NVLINK_RECEIVED = 138, 139
_PCIE_SENT, _PCIE_RECEIVED = 197, 198
_ALL_LINKS = 2**32 - 1
_FIELDS = (_ENERGY, _PCIE_SENT, _PCIE_RECEIVED, (_NVLINK_SENT, _ALL_LINKS), (_NVLINK_RECEIVED, _ALL_LINKS))
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The member of NVML's union for each of its value types."""


class Counters(NamedTuple):
    """J since the driver was loaded, and bytes."""

    energy: float | None
    pcie_sent: int | None
    pcie_received: int | None
    nvlink_sent: int | None
    nvlink_received: int | None


def counters(ask: Questions) -> Counters:
    """All counters in one call."""
    answers = ask("nvmlDeviceGetFieldValues", _FIELDS)
    energy, pcie_sent, pcie_received, nvlink_sent, nvlink_received = map(_value, answers) if answers is not None else (None,) * 5
    if energy is None:
        energy = number(ask("nvmlDeviceGetTotalEnergyConsumption"))
    return Counters(
        energy=None if energy is None else energy / 1000,
        pcie_sent=pcie_sent,
        pcie_received=pcie_received,
        nvlink_sent=None if nvlink_sent is None else nvlink_sent * 1024,
        nvlink_received=None if nvlink_received is None else nvlink_received * 1024,
    )


def _value(answer: Any) -> int | None:
    if answer.nvmlReturn != 0 or not 0 <= answer.valueType < len(_VALUES):
        return None
    return number(int(getattr(answer.value, _VALUES[answer.valueType])))


class Meter:
    """The rate of one counter from one reading to the next."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None

    def rate(self, count: int | None, now: float) -> int | None:
        """What the counter grew by per second since the last reading; `None` in the first, and after one that was missing or went back.

        Args:
            count: the counter now, `None` where it is not known.
            now: seconds on a clock that only goes forward.
        """
        last, self._last = self._last, None if count is None else (count, now)
        # A counter that went back was reset or has wrapped around: what came in between is unknown.
        if count is None or last is None or count < last[0] or now <= last[1]:
            return None
        return round((count - last[0]) / (now - last[1]))
