"""Which test samples are kept of the cells of the confusion matrix, chosen on the device."""

from __future__ import annotations

import torch
from torch import Tensor

SHOWN_OF_A_CELL = 6
"""As many pictures as a terminal of 120×40 shows at once."""
LARGEST_CONFUSIONS = 20
"""So many cells beside the diagonal come before all others."""
SHOWN_OF_CELLS = 256
"""In all. Up to twelve classes that is one for each cell at least; an image has 3 KiB, on its way from the device and on disk."""


def of_cells(cells: Tensor, classes: int, shown: Tensor) -> Tensor:
    """The places of at most `SHOWN_OF_CELLS` samples to keep beside those that are shown anyway, in ascending order.

    A cell gets up to `SHOWN_OF_A_CELL`, its first ones, and those that are shown anyway count. The largest confusions are filled at once;
    then all cells get one each, those with most samples first, then a second each, and so on while there is room.

    Args:
        cells: the number of each sample's cell, `truth * classes + predicted`; what is worth looking at comes first.
        classes: rows and columns of the matrix.
        shown: whether a sample is shown anyway. These are the first ones of their cells.
    """
    counts = torch.bincount(cells, minlength=classes * classes)
    # A sample's place among those of its cell, and its cell's place among all of them.
    within = cells.argsort(stable=True).argsort() - (counts.cumsum(0) - counts)[cells]
    sizes = counts.argsort(descending=True, stable=True).argsort()
    rounds = torch.where(_largest(counts, classes)[cells], 0, within + 1)
    free = (~shown & (within < SHOWN_OF_A_CELL)).nonzero()[:, 0]
    in_turn = (rounds * len(counts) + sizes[cells])[free].argsort(stable=True)
    return free[in_turn[:SHOWN_OF_CELLS]].sort().values


def _largest(counts: Tensor, classes: int) -> Tensor:
    """Whether a cell is one of the largest confusions; of equal ones the first are."""
    diagonal = torch.eye(classes, dtype=torch.bool, device=counts.device).flatten()
    return counts.masked_fill(diagonal, -1).argsort(descending=True, stable=True).argsort() < LARGEST_CONFUSIONS
