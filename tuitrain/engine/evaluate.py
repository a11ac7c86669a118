"""How good the model is on the test samples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from tuitrain.engine.control import Interrupted
from tuitrain.engine.data import Split, batch
from tuitrain.engine.datasets.sample import IGNORED
from tuitrain.engine.outputs import class_scores, logits
from tuitrain.engine.predictions import Answers
from tuitrain.engine.views import six_views
from tuitrain.events import Progress

PROGRESS_SECONDS = 0.2


@dataclass(frozen=True)
class Score:
    """`loss`: mean over samples. `loss_sum`: sum over batches of their mean losses. `accuracy`: 0 to 1, of samples or positions; NaN where
    the targets are numbers. `answers`: of each sample, where it has a class."""

    loss: float
    loss_sum: float
    accuracy: float
    answers: Answers | None

    @property
    def result(self) -> tuple[float | None, float | None]:
        """The accuracy, or else the loss, where that is a finite number: one evaluation is better than another by it."""
        if not math.isnan(self.accuracy):
            return self.accuracy, None
        return None, self.loss if math.isfinite(self.loss) else None


@dataclass(frozen=True)
class Evaluator:
    """Evaluates a model on a split, in batches of the training's batch size.

    Attributes:
        model: in training mode.
        criterion: of outputs and labels the mean loss over samples.
        split: test samples.
        batch_size: samples in a batch; it decides what `loss_sum` is a sum of.
        dtype, batch_dim: as in training.
        autocast: what the forward pass runs under.
        ending: asked between batches; `True` gives up.
        tta: score six views of each image, and take their mean.
    """

    model: nn.Module
    criterion: nn.Module
    split: Split
    batch_size: int
    dtype: torch.dtype
    batch_dim: int
    autocast: AbstractContextManager[Any]
    ending: Callable[[], bool]
    tta: bool = False

    def run(self) -> Generator[Progress, None, Score | None]:
        """Go once through the split; the model is in training mode afterwards.

        Returns:
            The score, or `None` when `ending` said so.
        """
        self.model.eval()
        try:
            return (yield from self._batches())
        finally:
            self.model.train()

    def flaw(self) -> str | None:
        """What makes the loss no finite number, where a sample does; `None` where all are finite."""
        flaws = (self.split.flaw(self._rows(number), self.dtype, "test") for number in range(-(-len(self.split) // self.batch_size)))
        try:
            return next((flaw for flaw in flaws if flaw is not None), None)
        except Interrupted:  # nobody waits for an answer any more
            return None

    def _batches(self) -> Generator[Progress, None, Score | None]:
        # loss over samples, loss over batches: kept on the device until the end, as the answers are.
        sums = torch.zeros(2, dtype=torch.float64, device=self.split.labels.device)
        count = _count(self.split)
        total, told = -(-len(self.split) // self.batch_size), 0.0
        for number in range(total):
            if self.ending():
                return None
            if time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                yield Progress(phase="evaluating", done=number, total=total, unit="batches")
            try:
                sums += self._batch(self._rows(number), map(self._rows, range(number + 1, total)), count)
            except Interrupted:
                return None
        loss, loss_sum, accuracy = torch.cat((sums, count.share()[None])).tolist()
        return Score(loss / len(self.split), loss_sum, accuracy, count.answers)

    def _rows(self, number: int) -> slice:
        return slice(number * self.batch_size, (number + 1) * self.batch_size)

    @torch.no_grad()
    def _batch(self, rows: slice, then: Iterable[slice], count: _Count) -> Tensor:
        inputs, labels = batch(self.split, rows, self.dtype, self.batch_dim, then)
        outputs = six_views(lambda views: logits(self._outputs(views)), inputs) if self.tta else self._outputs(inputs)
        loss = self.criterion(outputs, labels).double()
        count.add(class_scores(outputs, labels), labels)
        return torch.stack((loss * len(labels), loss))

    def _outputs(self, inputs: Tensor) -> Any:
        with self.autocast:
            return self.model(inputs)


class _Count(Protocol):
    """What the scores of all samples come to."""

    @property
    def answers(self) -> Answers | None:
        """What the model says of each, where that is kept."""
        ...

    def add(self, scores: Tensor, labels: Tensor) -> None:
        """Take the next samples' scores and labels."""
        ...

    def share(self) -> Tensor:
        """The share of answers that are right, from 0 to 1, 0-dim, on the device."""
        ...


def _count(split: Split) -> _Count:
    if split.targets == "classes":
        return _Classes(split)
    return _Positions(split) if split.targets == "positions" else _Numbers(split)


class _Classes:
    def __init__(self, split: Split) -> None:
        self.answers = Answers(split)
        self._total = len(split)

    def add(self, scores: Tensor, labels: Tensor) -> None:
        self.answers.add(scores)  # which knows the labels of all

    def share(self) -> Tensor:
        return self.answers.right().double() / self._total


class _Positions:
    """Counts at how many positions the model is right, and keeps nothing else: of images, or texts, there are many."""

    answers = None

    def __init__(self, split: Split) -> None:
        self._right, self._counted = torch.zeros(2, dtype=torch.int64, device=split.labels.device)

    def add(self, scores: Tensor, labels: Tensor) -> None:
        # Where a NaN is among the scores [B, C, ...] of a position, it is not right.
        self._right += ((scores.argmax(1) == labels) & ~scores.isnan().any(1)).sum()
        self._counted += (labels != IGNORED).sum()

    def share(self) -> Tensor:
        share: Tensor = self._right.double() / self._counted
        return share


class _Numbers:
    """Of outputs that are compared with numbers none is simply right."""

    answers = None

    def __init__(self, split: Split) -> None:
        self._device = split.labels.device

    def add(self, scores: Tensor, labels: Tensor) -> None:
        pass

    def share(self) -> Tensor:
        return torch.full((), math.nan, dtype=torch.float64, device=self._device)
