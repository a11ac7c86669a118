"""Which buckets of a column's pyramid hold a range of steps, and the query that gathers them into the columns of a chart."""

from __future__ import annotations

import msgspec

from tuitrain.runs.schema import FACTOR, LEVELS, Column


class Segment(msgspec.Struct, frozen=True):
    """Buckets `first` to `last`, both included, of one pyramid level; at level 0 a bucket is one step, and bucket 0 is step 1."""

    level: int
    first: int
    last: int

    def values(self) -> dict[str, int]:
        """What the query of `gathering` asks for by name, beside lo, hi and columns; `width` is a bucket's, in steps."""
        return {"level": self.level, "width": FACTOR**self.level, "first": self.first, "last": self.last}


def cover(first: int, last: int, columns: int) -> list[Segment]:
    """The buckets that together hold exactly the steps `first` to `last`, coarse enough for `columns` and not coarser.

    Args:
        first: the first step, 1 or more.
        last: the last step, included.

    Returns:
        Segments in the order of their steps; they hold at most about `64 * columns` buckets.
    """
    start, end = first - 1, last
    left: list[Segment] = []
    right: list[Segment] = []
    level = 0
    while level < LEVELS and end - start >= FACTOR * columns:
        up_start, up_end = -(-start // FACTOR), end // FACTOR
        left.append(Segment(level, start, up_start * FACTOR - 1))
        right.append(Segment(level, up_end * FACTOR, end - 1))
        start, end, level = up_start, up_end, level + 1
    return [segment for segment in (*left, Segment(level, start, end - 1), *reversed(right)) if segment.first <= segment.last]


def gathering(column: Column, segment: Segment) -> str:
    """The query whose rows are bin, first and last step, count, sum, least and greatest of what a segment holds, in the order of the steps.

    Its values are `segment.values()`, the steps `lo` and `hi` where the chart begins and ends, and how many `columns` it has.
    """
    return _gathered_buckets(column) if segment.level else _gathered_steps(column)


def _gathered_steps(column: Column) -> str:
    name = column.name
    return f"""
SELECT {_into("step")} AS bin, min(step), max(step), count(*), total({name}), min({name}), max({name})
FROM {column.table} WHERE step BETWEEN :first + 1 AND :last + 1 AND {name} IS NOT NULL GROUP BY bin ORDER BY bin
"""


def _gathered_buckets(column: Column) -> str:
    start, stop = "(bucket * :width + 1)", "((bucket + 1) * :width)"
    return f"""
SELECT {_into(f"({start} + {stop}) / 2.0")} AS bin, min{start}, max{stop}, sum(count), total(mean * count), min(min), max(max)
FROM {column.pyramid} WHERE level = :level AND bucket BETWEEN :first AND :last AND count > 0 GROUP BY bin ORDER BY bin
"""


def _into(middle: str) -> str:
    """The bin that a step, or the middle of a bucket, counts for."""
    return f"min(CAST(({middle} - :lo) / (:hi - :lo) * :columns AS INTEGER), :columns - 1)"
