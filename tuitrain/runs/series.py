"""An append-only curve in memory that a chart of any width can be drawn from, however long it is."""

from __future__ import annotations

import math
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import eq
from typing import NamedTuple, Protocol

from tuitrain.runs.pyramid import Bin, Pyramid


class Curve(Protocol):
    """What a chart needs of a series, whether its points are in memory or in a run's store."""

    def __len__(self) -> int:
        """How many points there are."""
        ...

    def thin(self, lo: float, hi: float, columns: int) -> list[Bin]:
        """At most `columns` bins of the points with `lo <= x <= hi`."""
        ...

    def at(self, x: float) -> tuple[float, float] | None:
        """The last point up to `x`, its y NaN where it was not finite; `None` where there is none."""
        ...

    def smoothed(self, weight: float) -> Curve:
        """The curve's exponential moving average."""
        ...


class _Thinned(NamedTuple):
    """The first columns of a thinned series, which stay as they are whatever is appended.

    Attributes:
        asked: lo, hi and columns.
        column: how many columns that is.
        start: the index of the first point after them.
        bins: what they hold.
    """

    asked: tuple[float, float, int]
    column: int
    start: int
    bins: tuple[Bin, ...]


class Series:
    """Points (x, y) with x strictly ascending. A y that is not finite is kept as NaN and is in no bin.

    One thread may append while any number of threads read: a point is announced (`len`) only when it and its pyramid entries
    are in place, and nothing that was announced ever changes.
    """

    def __init__(self) -> None:
        # Steps that follow each other need no memory; all other x do.
        self._x: range | array[float] = range(0)
        self._y = array("d")
        self._pyramid = Pyramid(self._y)
        self._length = 0
        self._lock = threading.Lock()
        self._average: _Average | None = None
        self._thinned: _Thinned | None = None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[float, float]:
        """The point at `index`; -1 is the last one. Raises IndexError outside of the series."""
        length = self._length
        if not -length <= index < length:
            raise IndexError(index)
        position = index % length
        return float(self._x[position]), self._y[position]

    def append(self, x: float, y: float) -> None:
        """Add one point.

        Raises:
            ValueError: x does not come after the last x.
        """
        self.extend((x,), (y,))

    def extend(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Add points.

        Args:
            xs: strictly ascending, after the last x.
            ys: as many as `xs`.

        Raises:
            ValueError: they are not.
        """
        if len(xs) != len(ys):
            raise ValueError(f"{len(xs)} x for {len(ys)} y")
        last = self._x[-1] if self._x else -math.inf
        for x in xs:
            if not x > last:
                raise ValueError(f"x must ascend: {x} after {last}")
            last = x
        self._add_x(xs)
        self._push(ys)

    def thin(self, lo: float, hi: float, columns: int) -> list[Bin]:
        """At most `columns` bins of the points with `lo <= x <= hi`, in order; costs about `columns` times the pyramid's height.

        With no more points than columns each point is a bin of its own. Otherwise bins are of equal width in x, so that with `lo` and
        `hi` held still new points leave earlier bins as they were, and asking again costs only the newest ones. Bins without a finite y
        are left out.
        """
        length = self._length
        first, last = bisect_left(self._x, lo, 0, length), bisect_right(self._x, hi, 0, length)
        if last - first <= columns:
            return [Bin(float(self._x[i]), y, y, y) for i in range(first, last) if (y := self._y[i]) == y]
        asked, kept = (lo, hi, columns), self._thinned
        if kept is None or kept.asked != asked:
            kept = _Thinned(asked, 0, first, ())
        bins, start = list(kept.bins), kept.start
        for column in range(kept.column + 1, columns + 1):
            edge = lo + (hi - lo) * column / columns
            end = last if column == columns else bisect_left(self._x, edge, start, last)
            if end == last:
                # The next point comes into this column or after it.
                self._thinned = _Thinned(asked, column - 1, start, tuple(bins))
            if start < end and (found := self._pyramid.gather(start, end).as_bin((self._x[start] + self._x[end - 1]) / 2)):
                bins.append(found)
            start = end
            if end == last:
                break
        return bins

    def at(self, x: float) -> tuple[float, float] | None:
        """The last point up to `x`, its y NaN where it was not finite; `None` where there is none."""
        index = bisect_right(self._x, x, 0, self._length) - 1
        return (float(self._x[index]), self._y[index]) if index >= 0 else None

    def up_to(self, x: float) -> Series:
        """A new series of the points up to `x`."""
        end = bisect_right(self._x, x, 0, self._length)
        kept = Series()
        kept.extend(self._x[:end], self._y[:end])
        return kept

    def smoothed(self, weight: float) -> Series:
        """The exponential moving average of the raw points, brought up to date.

        The average starts at the first point without a pull towards zero, and passes over NaN. The last weight's result is kept
        and goes on from where it was, so that a call costs only the points that are new since the last one (a first call on a
        million points costs up to a second). Any thread may call it.

        Args:
            weight: how much of the past stays, from 0 (nothing is smoothed) up to, not including, 1.

        Raises:
            ValueError: `weight` is not in its range.
        """
        if not 0 <= weight < 1:
            raise ValueError(f"weight: {weight}")
        if weight == 0:
            return self
        with self._lock:
            if self._average is None or self._average.weight != weight:
                self._average = _Average(weight)
            return self._average.follow(self)

    def _add_x(self, xs: Sequence[float]) -> None:
        """Append x values, whose y are not announced yet."""
        if not xs:
            return
        if isinstance(self._x, range):
            start = self._x.start if self._x else xs[0]
            if float(start).is_integer():
                longer = range(int(start), int(start) + len(self._x) + len(xs))
                if all(map(eq, xs, longer[len(self._x) :])):
                    self._x = longer
                    return
            self._x = array("d", self._x)
        self._x.extend(xs)

    def _push(self, ys: Sequence[float]) -> None:
        """Append y values whose x are in place, and the pyramid entries that they complete."""
        self._y.extend(value if math.isfinite(value) else math.nan for value in ys)
        self._pyramid.grow()
        self._length = len(self._y)


class _Average:
    """The running state of one exponential moving average and the series that it fills."""

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self._value = 0.0
        self._pull = 1.0
        self._series = Series()

    def follow(self, source: Series) -> Series:
        """Take in what `source` has gained and give the averaged series."""
        weight, value, pull = self.weight, self._value, self._pull
        values: list[float] = []
        for y in source._y[len(self._series) : len(source)]:
            if y != y:
                values.append(math.nan)
                continue
            value = weight * value + (1 - weight) * y
            pull *= weight
            values.append(value / (1 - pull))
        self._value, self._pull = value, pull
        # The x are the same points: sharing them halves the memory of a long curve.
        self._series._x = source._x
        self._series._push(values)
        return self._series
