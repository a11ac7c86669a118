"""Which cells of the confusion matrix are the largest, and which test samples are kept of its cells; chosen on the device."""

from __future__ import annotations

import torch
from torch import Tensor

SHOWN_OF_A_CELL = 6
"""As many pictures as a terminal of 120×40 shows at once."""
LARGEST_CONFUSIONS = 20
"""So many cells beside the diagonal come before all others."""
SHOWN_OF_CELLS = 256
"""In all. Up to twelve classes that is one for each cell at least; an image has 3 KiB, on its way from the device and on disk."""
LISTED_CONFUSIONS = 100
"""So many stand for a matrix that nobody could read: each of them has a sample that is kept."""


def largest_confusions(cells: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The numbers of at most `LISTED_CONFUSIONS` cells beside the diagonal, and how many samples each has; the largest first.

    Args:
        cells: the number of each sample's cell, `truth * classes + predicted`.
        classes: rows and columns of the matrix.
    """
    numbers, counts = torch.unique(cells, return_counts=True)
    beside = ~_on_diagonal(numbers, classes)
    numbers, counts = numbers[beside], counts[beside]
    order = counts.argsort(descending=True, stable=True)[:LISTED_CONFUSIONS]
    return numbers[order], counts[order]


def of_cells(cells: Tensor, classes: int, shown: Tensor) -> Tensor:
    """The places of at most `SHOWN_OF_CELLS` samples to keep beside those that are shown anyway, in ascending order.

    A cell gets up to `SHOWN_OF_A_CELL`, its first ones, and those that are shown anyway count. The largest confusions are filled at once;
    then all cells get one each, those with most samples first, then a second each, and so on while there is room.

    Args:
        cells: the number of each sample's cell, `truth * classes + predicted`; what is worth looking at comes first.
        classes: rows and columns of the matrix.
        shown: whether a sample is shown anyway. These are the first ones of their cells.
    """
    # Numbered among the cells that have samples: the square of a hundred thousand classes is more than a device holds.
    numbers, cells = torch.unique(cells, return_inverse=True)
    counts = torch.bincount(cells, minlength=len(numbers))
    # A sample's place among those of its cell, and its cell's place among all of them.
    within = cells.argsort(stable=True).argsort() - (counts.cumsum(0) - counts)[cells]
    sizes = counts.argsort(descending=True, stable=True).argsort()
    rounds = torch.where(_largest(counts, _on_diagonal(numbers, classes))[cells], 0, within + 1)
    free = (~shown & (within < SHOWN_OF_A_CELL)).nonzero()[:, 0]
    in_turn = (rounds * len(counts) + sizes[cells])[free].argsort(stable=True)
    return free[in_turn[:SHOWN_OF_CELLS]].sort().values


def _on_diagonal(numbers: Tensor, classes: int) -> Tensor:
    """Whether a cell has the samples that the model is right about."""
    return numbers == numbers // classes * (classes + 1)


def _largest(counts: Tensor, diagonal: Tensor) -> Tensor:
    """Whether a cell is one of the largest confusions; of equal ones the first are."""
    return counts.masked_fill(diagonal, -1).argsort(descending=True, stable=True).argsort() < LARGEST_CONFUSIONS
