"""Gathers what any range of a curve's points adds up to, however many they are.

Above the points lies a pyramid: at each level one entry says the count, sum, least and greatest of `FACTOR` entries below, so that
a range of a million points is gathered from a few hundred numbers. Only full groups have an entry; the rest is read one level down.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import msgspec

from tuitrain.runs.tape import Tape

FACTOR = 128
"""The count of a group fits in a byte."""


class Bin(msgspec.Struct, frozen=True):
    """The points of one chart column: the middle of their x, and the least, mean and greatest of their finite y, which are so many."""

    x: float
    min: float
    mean: float
    max: float
    count: int = 1


class Tally:
    """Count, sum, least and greatest of finite numbers, gathered piece by piece."""

    __slots__ = ("count", "high", "low", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.low = math.inf
        self.high = -math.inf

    def add(self, count: int, total: float, low: float, high: float) -> None:
        """Take in `count` numbers of which sum and limits are known."""
        self.count += count
        self.total += total
        self.low = min(self.low, low)
        self.high = max(self.high, high)

    def add_values(self, values: Sequence[float]) -> None:
        """Take in single numbers; NaN counts as none."""
        total = sum(values)
        if math.isnan(total):
            values = [value for value in values if value == value]
            total = sum(values)
        if len(values):
            self.add(len(values), total, min(values), max(values))

    def as_bin(self, x: float) -> Bin | None:
        """The bin at `x`, or `None` when no number was finite."""
        if not self.count:
            return None
        # Rounding, or a sum beyond the largest float, must not put the mean outside of the numbers.
        return Bin(x, self.low, min(max(self.total / self.count, self.low), self.high), self.high, self.count)


class _Level:
    """One level of the pyramid; an entry without finite points has count 0 and limits that any number widens."""

    __slots__ = ("count", "high", "low", "total")

    def __init__(self, counts: str) -> None:
        self.count: array[int] = array(counts)
        self.total = array("d")
        self.low = array("d")
        self.high = array("d")

    def __len__(self) -> int:
        return len(self.count)

    def up_to(self, last: int) -> _Level:
        kept = _Level(self.count.typecode)
        kept.count, kept.total, kept.low, kept.high = self.count[:last], self.total[:last], self.low[:last], self.high[:last]
        return kept

    def push(self, tally: Tally) -> None:
        self.total.append(tally.total)
        self.low.append(tally.low)
        self.high.append(tally.high)
        self.count.append(tally.count)

    def gather(self, first: int, last: int, tally: Tally) -> None:
        if first < last:
            tally.add(sum(self.count[first:last]), sum(self.total[first:last]), min(self.low[first:last]), max(self.high[first:last]))


class Pyramid:
    """The levels over points that only grow.

    Args:
        points: what is gathered; NaN counts as none. Of those that are full groups nothing is asked for once they have an entry, unless a
            range cuts a group.
    """

    def __init__(self, points: Tape) -> None:
        self._points = points
        self._levels = [_Level("B")]

    def take(self, group: Tally) -> None:
        """Take in what the next `FACTOR` points add up to."""
        self._levels[0].push(group)
        self._complete_levels()

    def grow(self) -> None:
        """Make the entries that new points have completed."""
        points, lowest = self._points, self._levels[0]
        while len(lowest) < len(points) // FACTOR:
            start = len(lowest) * FACTOR
            tally = Tally()
            tally.add_values(points.between(start, start + FACTOR))
            self.take(tally)

    def up_to(self, points: Tape) -> Pyramid:
        """A new one over `points`, which are the first of this one's."""
        kept, size = Pyramid(points), len(points)
        kept._levels = [level.up_to(size := size // FACTOR) for level in self._levels]
        return kept

    def gather(self, first: int, last: int) -> Tally:
        """What the points with index `first` up to, not including, `last` add up to."""
        tally = Tally()
        depth = 0
        while (up_first := -(-first // FACTOR)) < (up_last := last // FACTOR):
            self._gather_at(depth, first, up_first * FACTOR, tally)
            self._gather_at(depth, up_last * FACTOR, last, tally)
            first, last, depth = up_first, up_last, depth + 1
        self._gather_at(depth, first, last, tally)
        return tally

    def _complete_levels(self) -> None:
        """Give each level above the first the entry that the newest one below may have completed."""
        depth = 0
        while len(self._levels[depth]) % FACTOR == 0:
            below = self._levels[depth]
            tally = Tally()
            below.gather(len(below) - FACTOR, len(below), tally)
            depth += 1
            if depth == len(self._levels):
                self._levels.append(_Level("q"))
            self._levels[depth].push(tally)

    def _gather_at(self, depth: int, first: int, last: int, tally: Tally) -> None:
        if depth:
            self._levels[depth - 1].gather(first, last, tally)
        elif first < last:
            tally.add_values(self._points.between(first, last))
