"""What one device did while a run used it."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Literal

from tuitrain.events import GpuSample

Field = Literal["utilization", "memory", "power"]
FIELDS: tuple[Field, ...] = ("utilization", "memory", "power")
"""In percent, bytes and watts."""

GAP_SECONDS = 10.0
"""Samples come once a second; what lies between two that are further apart nobody saw."""
KEPT = 16_384
"""So many of the newest samples stay as they are: more than four hours."""
_MINUTE = 60.0
_AHEAD, _STALE = 1.0, 5.0
"""Seconds: a sample tells of what was before it, and devices are looked at once a second."""


class _Rows:
    """Numbers of a device at ascending times, NaN where nobody knows; each row stands for `weights` samples."""

    def __init__(self) -> None:
        self.times, self.weights = array("d"), array("f")
        self.numbers: dict[Field, array[float]] = {field: array("d") for field in FIELDS}

    def extend(self, times: Sequence[float], numbers: Sequence[Sequence[float]], weights: Iterable[float]) -> None:
        """Append rows, `numbers` by field; whoever reads meanwhile finds their times only when all else of them is in place."""
        for field, more in zip(FIELDS, numbers, strict=True):
            self.numbers[field].extend(more)
        self.weights.extend(weights)
        self.times.extend(times)

    def total(self, field: Field, first: int, last: int) -> tuple[float, float]:
        """The sum of the rows with index `first` up to, not including, `last`, and for how many samples they stand."""
        numbers, weights = self.numbers[field][first:last], self.weights[first:last]
        total = sum(map(mul, numbers, weights))
        if total == total:
            return total, sum(weights)
        known = [(number, weight) for number, weight in zip(numbers, weights, strict=True) if number == number]
        return sum(number * weight for number, weight in known), sum(weight for _, weight in known)

    def since(self, first: int) -> _Rows:
        """The rows from index `first` on."""
        rows = _Rows()
        rows.times, rows.weights = self.times[first:], self.weights[first:]
        rows.numbers = {field: numbers[first:] for field, numbers in self.numbers.items()}
        return rows


class DeviceHistory:
    """Samples over Unix seconds: the newest as they came, and of all before them, which may be weeks, the mean of each minute.

    One thread adds while any number of threads read.

    Attributes:
        joules: about what the device took, its power summed up over time; `None` where nobody knows the power. Longer gaps between two
            samples, such as those of a run that went on a day later, count nothing.
        powered_seconds: the time that `joules` is about.
    """

    def __init__(self) -> None:
        self.joules: float | None = None
        self.powered_seconds = 0.0
        self._length = 0
        self._known: set[Field] = set()
        # Replaced together, so that no sample is in both, or in neither, for those who read meanwhile.
        self._minutes_and_newest = _Rows(), _Rows()

    def __len__(self) -> int:
        """How many samples it took in."""
        return self._length

    def add(self, sample: GpuSample) -> None:
        """Take in one sample; one that is not newer than the last is passed over, as a clock that was set back gives."""
        self.extend((sample,))

    def extend(self, samples: Sequence[GpuSample]) -> None:
        """Take in samples of this device, in the order in which they came; see `add`."""
        _, rows = self._minutes_and_newest
        newest = rows.times[-1] if rows.times else -math.inf
        taken: list[GpuSample] = []
        for sample in samples:
            if sample.time > newest:
                self._add_energy(sample, sample.time - newest)
                newest = sample.time
                taken.append(sample)
        numbers = [
            [_number(sample.utilization) for sample in taken],
            [_number(sample.memory_used) for sample in taken],
            [_number(sample.power) for sample in taken],
        ]
        self._known.update(field for field, column in zip(FIELDS, numbers, strict=True) if any(number == number for number in column))
        rows.extend([sample.time for sample in taken], numbers, [1.0] * len(taken))
        self._length += len(taken)
        if len(rows.times) >= KEPT * 5 // 4:
            self._thin_out()

    def knows(self, field: Field) -> bool:
        """Whether anybody ever said it."""
        return field in self._known

    def at(self, field: Field, time: float) -> float | None:
        """The newest sample around a time, or the mean of its minute; `None` where it is old or unknown."""
        minutes, newest = self._minutes_and_newest
        rows, stale = (newest, _STALE) if newest.times and newest.times[0] <= time + _AHEAD else (minutes, _STALE + _MINUTE)
        index = bisect_right(rows.times, time + _AHEAD) - 1
        if index < 0 or time - rows.times[index] > stale:
            return None
        number = rows.numbers[field][index]
        return None if math.isnan(number) else number

    def mean(self, field: Field, start: float, end: float) -> float | None:
        """The mean from one time to another; where no sample fell between them, what `at` says of the later one."""
        minutes, newest = self._minutes_and_newest
        # Minutes may have come meanwhile that are made of samples which this thread still sees.
        past = bisect_left(minutes.times, newest.times[0]) if newest.times else 0
        total, weight = newest.total(field, bisect_left(newest.times, start), bisect_right(newest.times, end))
        total_before, weight_before = minutes.total(field, bisect_left(minutes.times, start), min(bisect_right(minutes.times, end), past))
        weight += weight_before
        return (total + total_before) / weight if weight else self.at(field, end)

    def _thin_out(self) -> None:
        """Of whole minutes before the newest samples keep the means."""
        minutes, rows = self._minutes_and_newest
        times = rows.times
        end = bisect_left(times, _minute_of(times[-KEPT]))
        first = 0
        while first < end:
            last = bisect_left(times, _minute_of(times[first]) + _MINUTE, first, end)
            totals = [rows.total(field, first, last) for field in FIELDS]
            minutes.extend([times[first]], [[total / weight if weight else math.nan] for total, weight in totals], [last - first])
            first = last
        self._minutes_and_newest = minutes, rows.since(end)

    def _add_energy(self, sample: GpuSample, seconds: float) -> None:
        if sample.power is None or not math.isfinite(sample.power):
            return
        joules = self.joules or 0.0
        if seconds <= GAP_SECONDS:
            joules += sample.power * seconds
            self.powered_seconds += seconds
        self.joules = joules


def _minute_of(time: float) -> float:
    return time // _MINUTE * _MINUTE


def _number(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else value
