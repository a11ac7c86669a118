"""An append-only curve that a chart of any width can be drawn from, however long it is."""

from __future__ import annotations

import math
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import eq
from typing import NamedTuple, Protocol

from tuitrain.runs.pyramid import FACTOR, Bin, Pyramid, Tally
from tuitrain.runs.tape import Fetch, Tape

KEPT = 32_768
"""So many of the newest points stay in memory where the others are on a disk."""
_PAGE = 16_384
"""So many points are taken at a time, by threads that let others run in between."""


class Curve(Protocol):
    """What a chart needs of a series, whether its points are in memory or in a run's store."""

    @property
    def in_memory(self) -> bool:
        """Whether it answers without waiting for a disk."""
        ...

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
    are in place, and nothing that was announced ever changes. All is in memory until the series is told to `let_go`.
    """

    def __init__(self) -> None:
        # Steps that follow each other need no memory; all other x do.
        self._x: range | array[float] = range(0)
        self._y = Tape()
        self._pyramid = Pyramid(self._y)
        self._length = 0
        self._lock = threading.Lock()
        self._average: _Average | None = None
        self._thinned: _Thinned | None = None

    @classmethod
    def on_disk(cls, first: int, length: int, groups: Callable[[int, int], Iterable[Tally]], fetch: Fetch) -> Series:
        """A series with the older ones of the points that a disk has, as if it had let go of them; the others are to be appended.

        Args:
            first: the first x.
            length: how many points there are.
            groups: says what each so many of the points add up to, from the first one on, for at most so many groups; it ends before the
                first group that has not a finite y at each x.
            fetch: see `let_go`.
        """
        series, count = cls(), 0
        for group in groups(FACTOR, max(length - KEPT, 0) // FACTOR):
            series._pyramid.take(group)
            count += FACTOR
        if count:
            series._x, series._length = range(first, first + count), count
            series._leave(count, fetch)
        return series

    @property
    def in_memory(self) -> bool:
        """Whether it answers without waiting for a disk."""
        return self._y.start == 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[float, float]:
        """The point at `index`; -1 is the last one. Raises IndexError outside of the series."""
        length = self._length
        if not -length <= index < length:
            raise IndexError(index)
        position = index % length
        return self._point(position)

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
        are left out. Of points on a disk a wide bin may end up to `FACTOR` points early, where what is in memory tells what it holds.
        """
        length = self._length
        first, last = bisect_left(self._x, lo, 0, length), bisect_right(self._x, hi, 0, length)
        if last - first <= columns:
            return [Bin(float(x), y, y, y) for x, y in zip(self._x[first:last], self._y.between(first, last), strict=True) if y == y]
        if first < self._y.start and last - first < FACTOR * columns:
            return self._part(first, last).thin(lo, hi, columns)
        asked, kept = (lo, hi, columns), self._thinned
        if kept is None or kept.asked != asked:
            kept = _Thinned(asked, 0, first, ())
        bins, start = list(kept.bins), kept.start
        for column in range(kept.column + 1, columns + 1):
            edge = lo + (hi - lo) * column / columns
            end = last if column == columns else bisect_left(self._x, edge, start, last)
            if end < min(last, self._y.start):
                end = max(end - end % FACTOR, start)
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
        return self._point(index) if index >= 0 else None

    def since(self, x: float) -> tuple[float, float] | None:
        """The first point from `x` on; `None` where there is none."""
        index = bisect_left(self._x, x, 0, self._length)
        return self._point(index) if index < self._length else None

    def up_to(self, x: float) -> Series:
        """A new series of the points up to `x`; those that this one let go of are not fetched for it."""
        end = bisect_right(self._x, x, 0, self._length)
        kept = Series()
        kept._x, kept._y, kept._length = self._x[:end], self._y.up_to(end), end
        kept._pyramid = self._pyramid.up_to(kept._y)
        return kept

    def let_go(self, fetch: Fetch) -> None:
        """Keep the newest points alone in memory, and of those before them what wide bins hold: a fifth of a byte a point.

        It is for the thread that appends. As long as points are few, or where x do not follow each other, all stay; a page more of them
        than `KEPT` may, because whole ones go.

        Args:
            fetch: gives the y of the x from one up to, not including, another.
        """
        if isinstance(self._x, range) and self._length > KEPT:
            self._leave(self._length - KEPT, fetch)

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
                self._average = _Average(self, weight)
            return self._average.follow()

    def _leave(self, before: int, fetch: Fetch) -> None:
        """Have the points before an index on the disk only; the x follow each other."""
        origin = int(self._x[0])
        self._y.let_go(before, lambda first, last: fetch(origin + first, origin + last))

    def _point(self, index: int) -> tuple[float, float]:
        return float(self._x[index]), self._y.between(index, index + 1)[0]

    def _part(self, first: int, last: int) -> Series:
        """The points with index `first` up to, not including, `last`, in memory."""
        part = Series()
        part.extend(self._x[first:last], self._y.between(first, last))
        return part

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
        self._y.extend(ys)
        self._pyramid.grow()
        self._length = len(self._y)


class _Average:
    """One exponential moving average, and the series that it fills.

    Attributes:
        weight: how much of the past stays.
    """

    def __init__(self, source: Series, weight: float) -> None:
        self.weight = weight
        self._source = source
        self._series = Series()
        # What the average was before each `FACTOR` points: from there those that were let go of are computed again.
        self._values, self._pulls = array("d"), array("d")
        self._value, self._pull = 0.0, 1.0

    def follow(self) -> Series:
        """Take in what the source has gained and give the averaged series."""
        source, series = self._source, self._series
        while True:
            first, length = len(series), len(source)
            series._y.let_go(min(source._y.start, first), self._again)
            if first == length:
                return series
            self._take(source._y.between(first, min(first - first % FACTOR + _PAGE, length)), first)

    def _take(self, ys: Sequence[float], first: int) -> None:
        """Take in the source's points from index `first` on."""
        averaged: list[float] = []
        start = 0
        while start < len(ys):
            if (first + start) % FACTOR == 0:
                self._values.append(self._value)
                self._pulls.append(self._pull)
            stop = start + FACTOR - (first + start) % FACTOR
            piece, self._value, self._pull = _averaged(ys[start:stop], self.weight, self._value, self._pull)
            averaged += piece
            start = stop
        # The x are the same points: sharing them halves the memory of a long curve.
        self._series._x = self._source._x
        self._series._push(averaged)

    def _again(self, first: int, last: int) -> Sequence[float]:
        """What was averaged from index `first` up to, not including, `last`."""
        group = first // FACTOR
        ys = self._source._y.between(group * FACTOR, last)
        return _averaged(ys, self.weight, self._values[group], self._pulls[group])[0][first - group * FACTOR :]


def _averaged(ys: Sequence[float], weight: float, value: float, pull: float) -> tuple[list[float], float, float]:
    """The average at each of some points, and what it goes on from: its value and how much of it is the zero where it began."""
    averaged: list[float] = []
    for y in ys:
        if y != y:
            averaged.append(math.nan)
            continue
        value = weight * value + (1 - weight) * y
        pull *= weight
        averaged.append(value / (1 - pull))
    return averaged, value, pull
