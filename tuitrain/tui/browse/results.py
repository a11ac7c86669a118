"""What the network said of the test samples, ready to be asked by the screens: names, counts, and which samples belong to a question."""

from __future__ import annotations

import math
from typing import Literal

from tuitrain import words
from tuitrain.events import Confusion, Prediction, Predictions
from tuitrain.text import clean, plural
from tuitrain.tui.browse.pictures import BYTES

Which = Literal["all", "mistakes", "right"]
"""Which samples to look at."""
Cell = tuple[int, int]
"""A cell of the confusion matrix: the true class and the predicted one."""
TAKEN_FOR = " taken for "
_LISTED = 100
"""Of more confusions than these nobody looks for one in a list."""


class Results:
    """One evaluation. Class numbers without a name, and counts that are missing, are taken as they are and never an error.

    Args:
        predictions: what the network said.
        accuracy: 0 to 1, of the same evaluation; for where there is no confusion matrix to count in.
    """

    def __init__(self, predictions: Predictions, accuracy: float | None = None) -> None:
        self.step = predictions.step
        self.epoch = predictions.epoch
        self.samples = predictions.samples
        self._of_all = (*predictions.samples, *predictions.of_cells)
        self._confusion = predictions.confusion
        self.classes = max(len(predictions.classes), len(predictions.confusion))
        self.largest = predictions.largest or _largest(predictions.confusion)
        """The largest confusions, the largest first."""
        self._listed = {(one.truth, one.predicted): one for one in predictions.largest}
        self._names = tuple(clean(name).strip() for name in predictions.classes)
        self.total = sum(map(sum, predictions.confusion))
        self.accuracy = accuracy
        self.right = sum(self.count((number, number)) for number in range(self.classes))

    @property
    def named(self) -> bool:
        """Whether samples are files that have a name."""
        return any(sample.file is not None for sample in self._of_all)

    @property
    def counted(self) -> bool:
        """Whether there is a confusion matrix with something in it."""
        return self.total > 0

    def name(self, number: int) -> str:
        """A class's name."""
        name = self._names[number] if 0 <= number < len(self._names) else ""
        return name or f"class {number}"

    def count(self, cell: Cell) -> int:
        """Test samples in a cell; without a matrix, in one of the largest."""
        truth, predicted = cell
        if cell in self._listed:
            return self._listed[cell].count
        row = self._confusion[truth] if 0 <= truth < len(self._confusion) else ()
        return row[predicted] if 0 <= predicted < len(row) else 0

    def in_class(self, truth: int) -> int:
        """Test samples of a class; without a matrix, of one that has one of the largest confusions."""
        if not self.counted:
            return next((one.samples for one in self.largest if one.truth == truth), 0)
        return sum(self._confusion[truth]) if 0 <= truth < len(self._confusion) else 0

    def share(self, cell: Cell) -> float | None:
        """Which part of its true class a cell has, 0 to 1; `None` where the test data have no such class."""
        samples = self.in_class(cell[0])
        return self.count(cell) / samples if samples else None

    def verdict(self, cell: Cell) -> str:
        """What a cell means: `cat taken for dog`."""
        truth, predicted = map(self.name, cell)
        return f"{truth} recognised" if cell[0] == cell[1] else f"{truth}{TAKEN_FOR}{predicted}"

    def chosen(self, which: Which, cell: Cell | None) -> list[Prediction]:
        """The samples that are kept of a cell, or, without one, all, the mistakes or the right ones; in the order of the event."""
        if cell is not None:
            return [sample for sample in self._of_all if (sample.truth, sample.predicted) == cell]
        if which == "all":
            return list(self.samples)
        return [sample for sample in self.samples if is_right(sample) == (which == "right")]

    def summary(self) -> str:
        """`after epoch 3 · step 2,346 · 54.2 % right · 4,580 mistakes of 10,000`."""
        when = f"after epoch {self.epoch:,} · step {self.step:,}"
        if not self.counted:
            return when if self.accuracy is None else f"{when} · {self.accuracy * 100:.1f} % right"
        mistakes = self.total - self.right
        return f"{when} · {self.right / self.total * 100:.1f} % right · {mistakes:,} {plural('mistake', mistakes)} of {self.total:,}"


def _largest(confusion: tuple[tuple[int, ...], ...]) -> tuple[Confusion, ...]:
    """The largest cells beside the diagonal; of equal ones the first."""
    cells = [
        (truth, predicted) for truth, row in enumerate(confusion) for predicted, count in enumerate(row) if count and truth != predicted
    ]
    cells.sort(key=lambda cell: -confusion[cell[0]][cell[1]])
    return tuple(
        Confusion(truth=truth, predicted=predicted, count=confusion[truth][predicted], samples=sum(confusion[truth]))
        for truth, predicted in cells[:_LISTED]
    )


def is_right(sample: Prediction) -> bool:
    """Whether the network named the true class."""
    return sample.truth == sample.predicted


def has_picture(sample: Prediction) -> bool:
    """Whether there is an image that can be drawn."""
    return sample.image is not None and len(sample.image) == BYTES


def confidence(sample: Prediction) -> str:
    """`97 %`."""
    return words.percent(sample.confidence * 100) if math.isfinite(sample.confidence) else words.NONE
