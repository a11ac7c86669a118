"""Numbers that only grow in number, of which the newest are in memory."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence

PAGE = 4096
"""So many numbers lie in one piece of memory. Pieces of one size fit where others of them were: one that grows, and is cut off at its
beginning, leaves holes."""

Fetch = Callable[[int, int], Sequence[float]]
"""The numbers from one index up to, not including, another, from where they are kept; NaN where they cannot be had."""


class Tape:
    """Numbers by their index: the newest in memory, and those that were let go of fetched again when they are asked for.

    One thread at a time may append and let go while any number of threads read. What is read is the same before and after.
    """

    def __init__(self) -> None:
        # Replaced whole, so that who reads meanwhile has the index of the first number and the pages that belong to it.
        self._held: tuple[int, list[array[float]]] = (0, [array("d")])
        self.fetch: Fetch = _nothing
        """Has the numbers that are not in memory any more."""

    def __len__(self) -> int:
        start, pages = self._held
        last = len(pages) - 1  # one may be appended meanwhile
        return start + last * PAGE + len(pages[last])

    @property
    def start(self) -> int:
        """The index of the first number in memory."""
        return self._held[0]

    def extend(self, numbers: Iterable[float]) -> None:
        """Append numbers; those that are not finite become NaN."""
        _, pages = self._held
        finite = array("d", (number if math.isfinite(number) else math.nan for number in numbers))
        taken = 0
        while taken < len(finite):
            if len(pages[-1]) == PAGE:
                pages.append(array("d"))
            more = finite[taken : taken + PAGE - len(pages[-1])]
            pages[-1].extend(more)
            taken += len(more)

    def between(self, first: int, last: int) -> Sequence[float]:
        """The numbers with index `first` up to, not including, `last`, all of which are there."""
        start, pages = self._held
        held = _cut(pages, max(first - start, 0), max(last - start, 0))
        gone = min(last, start)
        return [*self.fetch(first, gone), *held] if first < gone else held

    def up_to(self, last: int) -> Tape:
        """A new tape of the numbers up to, not including, index `last`."""
        start, pages = self._held
        kept = Tape()
        kept.fetch, kept._held = self.fetch, (min(start, last), [array("d")])
        kept.extend(_cut(pages, 0, max(last - start, 0)))
        return kept

    def let_go(self, before: int, fetch: Fetch) -> None:
        """Keep of the numbers before an index at most a part of a page in memory: `fetch` has them, now and later."""
        start, pages = self._held
        gone = max(before - start, 0) // PAGE
        held = (before, [array("d")]) if before >= len(self) else (start + gone * PAGE, pages[gone:])
        if held[0] > start:
            # In this order: whoever finds a number gone finds where to fetch it.
            self.fetch = fetch
            self._held = held


def _cut(pages: Sequence[array[float]], first: int, last: int) -> array[float]:
    """The numbers of all pages from one place up to, not including, another."""
    numbers: array[float] = array("d")
    for place in range(first // PAGE, -(-last // PAGE)):
        begin = place * PAGE
        numbers.extend(pages[place][max(first - begin, 0) : last - begin])
    return numbers


def _nothing(first: int, last: int) -> Sequence[float]:
    return [math.nan] * (last - first)
