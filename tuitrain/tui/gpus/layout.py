"""How many rows each part of the GPU screen gets: one pure function."""

from __future__ import annotations

import msgspec

TALL_ROWS = 4
"""Lines of a card with its bars and all of its numbers."""
TALL_CARDS = 2
"""With more cards than these each has one line."""
_PROCESSES_LEAST = 1 + 1 + 5 + 1
_GRAPH_LEAST = 3
_GRAPH_MOST = 12
# The rule, and under the graphs the axis.
_AROUND_GRAPHS = 2
_WIDE = 150


class GpuSizes(msgspec.Struct, frozen=True):
    """Rows of each pane, its rule included and the bottom edge of the last one too; 0 hides it. `across` is how many graphs stand side by
    side, `subjects` of how many devices they are."""

    cards: int
    tall: bool
    history: int
    processes: int
    across: int = 4
    subjects: int = 1


def arrange(width: int, height: int, *, cards: int, notes: int) -> GpuSizes:
    """The panes' sizes.

    Args:
        width: columns of the terminal.
        height: rows between the header and the keys.
        cards: cards and MIG instances; the cpu, which has a line too, is not counted.
        notes: rows of sentences under the cards.
    """
    if not cards:
        top = 1 + 3 + notes
        return GpuSizes(top, True, height - top, 0, across=2)
    tall = 1 + TALL_ROWS * cards + 1 + notes
    graphs = _AROUND_GRAPHS + 1 + _GRAPH_LEAST
    if cards <= TALL_CARDS and tall + graphs + _PROCESSES_LEAST <= height:
        return _under(tall, True, width, height, cards)
    return _under(min(1 + 1 + cards + 1 + notes, height - _PROCESSES_LEAST), False, width, height, cards)


def _under(top: int, tall: bool, width: int, height: int, cards: int) -> GpuSizes:
    """The graphs get what they can use, the processes the rest."""
    spare = height - top - _PROCESSES_LEAST
    subjects = cards if cards <= TALL_CARDS and spare >= _AROUND_GRAPHS + cards * (1 + _GRAPH_LEAST) else 1
    if spare < _AROUND_GRAPHS + 1 + _GRAPH_LEAST:
        return GpuSizes(top, tall, 0, height - top)
    room = max(spare * 2 // 3, min(spare, _AROUND_GRAPHS + 1 + 6))
    across = 2 if subjects == 1 and width < _WIDE and room >= _AROUND_GRAPHS + 2 * (1 + _GRAPH_LEAST) else 4
    down = subjects * (4 // across)
    each = min((room - _AROUND_GRAPHS) // down - 1, _GRAPH_MOST)
    history = _AROUND_GRAPHS + down * (1 + each)
    return GpuSizes(top, tall, history, height - top - history, across, subjects)
