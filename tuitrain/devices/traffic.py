"""Counters of a card, and what they grow by in a second.

NVML's ready-made PCIe rate is that of 20 ms alone, so the byte counters are read instead; an older driver has none.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from tuitrain.devices.fields import number
from tuitrain.devices.questions import Questions

_ENERGY = 83
_NVLINK_SENT, _NVLINK_RECEIVED = 138, 139
_PCIE_SENT, _PCIE_RECEIVED = 197, 198
_ALL_LINKS = 2**32 - 1
_PCIE = (_PCIE_SENT, _PCIE_RECEIVED)
_FIELDS = (_ENERGY, *_PCIE, (_NVLINK_SENT, _ALL_LINKS), (_NVLINK_RECEIVED, _ALL_LINKS))
_PCIE_WRAPS = 2**32
"""Bytes at which the counters of PCIe begin anew; a link of 16 lanes of generation 5 is there after 70 ms."""
GLANCE_SECONDS = 0.02
"""How long before a reading its glance is: long enough to tell the pace of a link, and far too short for one to get round."""
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The member of NVML's union for each of its value types."""


class Traffic(NamedTuple):
    """J since the driver was loaded, and bytes a second since the last reading, `None` where they are not known."""

    energy: float | None
    pcie_sent: int | None
    pcie_received: int | None
    nvlink_sent: int | None
    nvlink_received: int | None


class TrafficReader:
    """Reads the counters of one card."""

    def __init__(self) -> None:
        self._pcie = (Meter(wraps_at=_PCIE_WRAPS), Meter(wraps_at=_PCIE_WRAPS))
        self._nvlink = (Meter(), Meter())

    def glance(self, ask: Questions) -> bool:
        """Look at the counters of PCIe `GLANCE_SECONDS` before the next reading; whether there is anything to look at, as from the second
        one on."""
        if not any(meter.started for meter in self._pcie) or (near := ask("nvmlDeviceGetFieldValues", _PCIE)) is None:
            return False
        now = time.monotonic()
        for meter, answer in zip(self._pcie, near, strict=True):
            meter.glance(_value(answer), now)
        return True

    def read(self, ask: Questions) -> Traffic:
        """The rates since the last reading; without a glance before it those of PCIe are right below 4 GB/s alone."""
        answers = ask("nvmlDeviceGetFieldValues", _FIELDS)
        now = time.monotonic()
        energy, sent, received, *links = map(_value, answers) if answers is not None else (None,) * len(_FIELDS)
        if energy is None:
            energy = number(ask("nvmlDeviceGetTotalEnergyConsumption"))
        pcie_sent, pcie_received = (meter.rate(count, now) for meter, count in zip(self._pcie, (sent, received), strict=True))
        # These count KiB.
        nvlink_sent, nvlink_received = (
            meter.rate(None if count is None else count * 1024, now) for meter, count in zip(self._nvlink, links, strict=True)
        )
        return Traffic(
            energy=None if energy is None else energy / 1000,
            pcie_sent=pcie_sent,
            pcie_received=pcie_received,
            nvlink_sent=nvlink_sent,
            nvlink_received=nvlink_received,
        )


def _value(answer: Any) -> int | None:
    if answer.nvmlReturn != 0 or not 0 <= answer.valueType < len(_VALUES):
        return None
    return number(int(getattr(answer.value, _VALUES[answer.valueType])))


class Meter:
    """The rate of one counter from one reading to the next.

    Args:
        wraps_at: where the counter begins anew; `None` where it never does. How often it did since the last reading, it does not say. A
            glance shortly before each reading, too short a time to get round, tells the pace at both ends; the number of times is taken
            that comes nearest to the lower pace: a burst at one end says nothing of the time between.
    """

    def __init__(self, *, wraps_at: int | None = None) -> None:
        self._wraps_at = wraps_at
        self._last: tuple[int, float] | None = None
        self._near: tuple[int, float] | None = None
        self._pace: float | None = None

    @property
    def started(self) -> bool:
        """Whether the next reading can give a rate."""
        return self._last is not None

    def glance(self, count: int | None, now: float) -> None:
        """The counter shortly before the next reading."""
        self._near = None if count is None else (count, now)

    def rate(self, count: int | None, now: float) -> int | None:
        """What the counter grew by per second since the last reading; `None` in the first, and after one that was missing or went back.

        Args:
            count: the counter now, `None` where it is not known.
            now: seconds on a clock that only goes forward.
        """
        last, self._last = self._last, None if count is None else (count, now)
        near, self._near = self._near, None
        before, self._pace = self._pace, None
        if self._wraps_at is not None and count is not None and near is not None and now > near[1]:
            self._pace = (count - near[0]) % self._wraps_at / (now - near[1])
        if count is None or last is None or now <= last[1]:
            return None
        grown, seconds = count - last[0], now - last[1]
        if self._wraps_at is not None and self._pace is not None:
            pace = self._pace if before is None else min(before, self._pace)
            grown %= self._wraps_at
            grown += self._wraps_at * max(0, round((pace * seconds - grown) / self._wraps_at))
        # A counter that went back was reset: what came in between is unknown.
        return None if grown < 0 else round(grown / seconds)
