"""What the model says of each test sample, kept on the device until the evaluation is over."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tuitrain.engine.cells import largest_confusions, of_cells
from tuitrain.engine.data import Split
from tuitrain.engine.datasets.samples import rows
from tuitrain.events import Confusion, Prediction, Predictions
from tuitrain.text import clean, plural

SHOWN_MISTAKES = 48
SHOWN_SAMPLES = 64
LARGEST_MATRIX = 100
"""With more classes than this nobody can read a confusion matrix; its largest cells are told in its place."""

PICTURE_SIDE = 32
"""Pixels, in height and in width, of the pictures that are told."""
NO_ANSWER = "no number"
"""Stands for the class of a sample to whose scores a NaN belongs: the highest of them says nothing."""
_UNANSWERED = -1

# Scores are looked at in blocks of about this many samples: few calls for the device, and little of its memory.
_BLOCK_SAMPLES = 4096


class Answers:
    """Takes the scores of a split's samples in their order.

    Args:
        split: the samples.
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        self._held: list[Tensor] = []
        self._held_samples = 0
        self._predicted: list[Tensor] = []
        self._confidence: list[Tensor] = []

    def add(self, scores: Tensor) -> None:
        """Take the next samples' scores [B, C], a float tensor without a gradient on the split's device."""
        # A model may write all its answers into one and the same tensor.
        self._held.append(scores.clone())
        self._held_samples += len(scores)
        if self._held_samples >= _BLOCK_SAMPLES:
            self._digest()

    def right(self) -> Tensor:
        """How many samples the model is right about, 0-dim, on the device."""
        return (self._all(self._predicted) == self._split.labels).sum()

    def flaw(self) -> str | None:
        """What is wrong with the model's scores; `None` where each of them is a number, or infinite."""
        count, total = self._unanswered(), len(self._split)
        return (
            f"the model's scores hold a nan for {count:,} of {total:,} test {plural('sample', total)}, which count as wrong"
            if count
            else None
        )

    def _unanswered(self) -> int:
        """To how many samples' scores a NaN belongs."""
        return int((self._all(self._predicted) == _UNANSWERED).sum())

    def event(self, step: int, epoch: int, classes: Sequence[str]) -> Predictions:
        """What the evaluation at `step` shows.

        Args:
            step: the step after which it was, from 1.
            epoch: the epoch of that step.
            classes: the name of each class number; where there are more class numbers, these stand for themselves. After them comes
                `NO_ANSWER`, where there is a sample for it.
        """
        truth, predicted = self._split.labels, self._all(self._predicted)
        count = max(len(classes), int(torch.maximum(truth.max(), predicted.max())) + 1)
        names = (*map(clean, classes), *map(str, range(len(classes), count)))
        if self._unanswered():
            predicted = predicted.masked_fill(predicted == _UNANSWERED, count)
            names, count = (*names, NO_ANSWER), count + 1
        cells = truth * count + predicted
        listed = None if count <= LARGEST_MATRIX else largest_confusions(cells, count)
        samples, further = self._samples(predicted, cells, count, None if listed is None else listed[0])
        return Predictions(
            step=step,
            epoch=epoch,
            classes=names,
            confusion=_confusion(cells, count) if listed is None else (),
            samples=samples,
            of_cells=further,
            largest=() if listed is None else _told(*listed, truth, count),
        )

    def _digest(self) -> None:
        """Keep of the scores that are held which class is the highest, and how sure that is."""
        scores = torch.cat(self._held)
        self._held, self._held_samples = [], 0
        predicted = scores.argmax(1)
        # The softmax of the highest score; a model that gives no numbers, or infinite ones, is not sure of anything.
        confidence = torch.softmax(scores, 1).gather(1, predicted[:, None])[:, 0]
        self._predicted.append(predicted.masked_fill(scores.isnan().any(1), _UNANSWERED))
        self._confidence.append(confidence.float().nan_to_num(0.0))

    def _all(self, blocks: list[Tensor]) -> Tensor:
        if self._held:
            self._digest()
        return torch.cat(blocks)

    def _samples(
        self, predicted: Tensor, cells: Tensor, classes: int, listed: Tensor | None
    ) -> tuple[tuple[Prediction, ...], tuple[Prediction, ...]]:
        """The surest mistakes, then the right answers that were least sure; and in the same order further ones for the matrix's cells, or
        for those of them that are `listed`."""
        confidence = self._all(self._confidence)
        wrong = predicted != self._split.labels
        surest, least_sure = confidence.argsort(descending=True, stable=True), confidence.argsort(stable=True)
        mistakes, right = surest[wrong[surest]], least_sure[~wrong[least_sure]]
        order = torch.cat((mistakes, right))
        room = SHOWN_SAMPLES - min(len(mistakes), SHOWN_MISTAKES)
        shown = torch.cat((_begin(mistakes, SHOWN_MISTAKES), _begin(right, room)))
        first = torch.cat((mistakes[:SHOWN_MISTAKES], right[:room]))
        if listed is not None:
            worth = torch.isin(cells[order], listed)
            order, shown = order[worth], shown[worth]
        further = order[of_cells(cells[order], classes, shown)]
        rows = self._rows(predicted, confidence, torch.cat((first, further)))
        return rows[: len(first)], rows[len(first) :]

    def _rows(self, predicted: Tensor, confidence: Tensor, chosen: Tensor) -> tuple[Prediction, ...]:
        """The chosen samples, each with its image and the name of its file."""
        columns = [column.tolist() for column in (chosen, self._split.labels[chosen], predicted[chosen], confidence[chosen])]
        rows = zip(*columns, _images(self._split, chosen), self._files(columns[0]), strict=True)
        return tuple(
            Prediction(index=index, truth=label, predicted=said, confidence=sure, image=image, file=file)
            for index, label, said, sure, image, file in rows
        )

    def _files(self, chosen: Sequence[int]) -> list[str | None]:
        """What the files of the chosen samples are called; `None` for each where the samples are no files."""
        files = self._split.files
        return [None] * len(chosen) if files is None else [clean(path) for path in files.at(chosen)]


def _begin(samples: Tensor, count: int) -> Tensor:
    """Whether each sample is one of the first `count`."""
    return torch.arange(len(samples), device=samples.device) < count


def _confusion(cells: Tensor, count: int) -> tuple[tuple[int, ...], ...]:
    """How often each class [row] was taken for each class [column]."""
    return tuple(map(tuple, torch.bincount(cells, minlength=count * count).view(count, count).tolist()))


def _told(cells: Tensor, counts: Tensor, labels: Tensor, classes: int) -> tuple[Confusion, ...]:
    """Cells by their numbers, and how many samples each has, beside how many its class has."""
    truth = cells // classes
    predicted, samples = cells - truth * classes, torch.bincount(labels, minlength=classes)[truth]
    rows = zip(truth.tolist(), predicted.tolist(), counts.tolist(), samples.tolist(), strict=True)
    return tuple(Confusion(truth=label, predicted=said, count=count, samples=of_class) for label, said, count, of_class in rows)


def _images(split: Split, chosen: Tensor) -> list[bytes | None]:
    """The chosen samples as 32·32·3 bytes, row by row, each pixel's red, green and blue; `None` for each where they are no images."""
    inputs = split.inputs
    if inputs.dtype != torch.uint8 or inputs.dim() != 4 or inputs.shape[1] not in (1, 3):
        return [None] * len(chosen)
    pixels = rows(split, chosen.to(inputs.device))[0].cpu()
    if pixels.shape[2:] != (PICTURE_SIDE, PICTURE_SIDE):
        pixels = nn.functional.interpolate(pixels, (PICTURE_SIDE, PICTURE_SIDE), mode="bilinear", antialias=True)
    pixels = pixels.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous()
    return [image.tobytes() for image in pixels.numpy()]
