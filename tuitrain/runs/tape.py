"""Numbers that only grow in number, of which the newest are in memory."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence

Fetch = Callable[[int, int], Sequence[float]]
"""The numbers from one index up to, not including, another, from where they are kept; NaN where they cannot be had."""


class Tape:
    """Numbers by their index: the newest in memory, and those that were let go of fetched again when they are asked for.

    One thread at a time may append and let go while any number of threads read. What is read is the same before and after.
    """

    def __init__(self) -> None:
        # Replaced whole, so that who reads meanwhile has the index of the first number and the numbers that belong to it.
        self._held: tuple[int, array[float]] = (0, array("d"))
        self.fetch: Fetch = _nothing
        """Has the numbers that are not in memory any more."""

    def __len__(self) -> int:
        start, numbers = self._held
        return start + len(numbers)

    @property
    def start(self) -> int:
        """The index of the first number in memory."""
        return self._held[0]

    def extend(self, numbers: Iterable[float]) -> None:
        """Append numbers; those that are not finite become NaN."""
        self._held[1].extend(number if math.isfinite(number) else math.nan for number in numbers)

    def between(self, first: int, last: int) -> Sequence[float]:
        """The numbers with index `first` up to, not including, `last`, all of which are there."""
        start, numbers = self._held
        held = numbers[max(first - start, 0) : max(last - start, 0)]
        gone = min(last, start)
        return [*self.fetch(first, gone), *held] if first < gone else held

    def up_to(self, last: int) -> Tape:
        """A new tape of the numbers up to, not including, index `last`."""
        start, numbers = self._held
        kept = Tape()
        kept.fetch, kept._held = self.fetch, (min(start, last), numbers[: max(last - start, 0)])
        return kept

    def let_go(self, before: int, fetch: Fetch) -> None:
        """Keep no number before an index in memory: `fetch` has them, now and later."""
        start, numbers = self._held
        if before > start:
            # In this order: whoever finds a number gone finds where to fetch it.
            self.fetch = fetch
            self._held = before, numbers[before - start :]


def _nothing(first: int, last: int) -> Sequence[float]:
    return [math.nan] * (last - first)
