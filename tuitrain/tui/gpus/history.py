"""A device's past in columns of blocks, of which few change from one second to the next.

A graph whose every column moves each second costs as many bytes as it has cells. Here a column is at least two seconds wide and grows in
place, and the whole graph moves only when it has reached its right edge, by an eighth of the span.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from tuitrain.devices import HistoryPoint
from tuitrain.tui.strips import stacked

SPANS = (("1 min", 60), ("5 min", 300), ("15 min", 900), ("1 h", 3600))
_FIRST_SPAN = 1
_LEAST_STEP = 2


class Span:
    """How far back the graphs reach; one for all screens that are opened from each other."""

    def __init__(self) -> None:
        self._place = _FIRST_SPAN

    @property
    def name(self) -> str:
        """The span in words."""
        return SPANS[self._place][0]

    @property
    def seconds(self) -> int:
        """The span in seconds."""
        return SPANS[self._place][1]

    def step(self, by: int) -> None:
        """A longer span (1) or a shorter one (-1)."""
        self._place = min(max(self._place + by, 0), len(SPANS) - 1)


class Grid(msgspec.Struct, frozen=True):
    """Where time stands in a graph: `bins` of `step` seconds over `cells` columns, the first of them bin number `first` since 1970."""

    step: int
    bins: int
    first: int
    newest: int
    cells: int

    @property
    def oldest_seconds(self) -> int:
        """From this Unix time on a point is in the graph."""
        return self.first * self.step

    def cell_of_newest(self) -> int:
        """The last column that the newest bin fills."""
        place = self.newest - self.first + 1
        return max(math.ceil(place * self.cells / self.bins) - 1, 0)


def grid(seconds: int, cells: int, now: float) -> Grid:
    """The bins of a graph that shows at least the last `seconds` in `cells` columns."""
    step = max(math.ceil(seconds / max(cells - cells // 8, 1)), _LEAST_STEP)
    shown = max(seconds // step, 1)
    jump = max(shown // 8, 1)
    newest = int(now // step)
    return Grid(step, shown + jump - 1, (newest - shown + 1) // jump * jump, newest, cells)


def means(points: Sequence[HistoryPoint], value: Callable[[HistoryPoint], float | None], where: Grid) -> list[float | None]:
    """The mean of the points in each column, `None` where nothing is known. Means, because a peak of one second says little of an hour."""
    sums, counts = [0.0] * where.bins, [0] * where.bins
    for point in points:
        place, known = int(point.time // where.step) - where.first, value(point)
        if known is not None and 0 <= place < where.bins:
            sums[place] += known
            counts[place] += 1
    found = [total / count if count else None for total, count in zip(sums, counts, strict=True)]
    return [found[cell * where.bins // where.cells] for cell in range(where.cells)]


def last_known(points: Sequence[HistoryPoint]) -> HistoryPoint | None:
    """The newest of `points`, which come oldest first, in which anything is known."""
    told = (point for point in reversed(points) if (point.utilization, point.memory_used, point.power, point.temperature) != (None,) * 4)
    return next(told, None)


def filled(values: Sequence[float | None], top: float, rows: int) -> list[str]:
    """Columns of blocks under `top` in `rows` lines, the highest first. A known value fills an eighth at least, an unknown one nothing."""
    scale = 8 * rows / top if top > 0 else 0.0
    eighths = [0 if value is None else min(max(round(value * scale), 1), 8 * rows) for value in values]
    return stacked(eighths, rows)


class Graph(msgspec.Struct, frozen=True):
    """One graph of a device: what it is called, also in few cells, its unit, the top of its scale in that unit (0: the largest value), and
    where its values come from. A quiet one is drawn so that the others come first."""

    name: str
    short: str
    unit: str
    top: float
    value: Callable[[HistoryPoint], float | None]
    quiet: bool = False
