"""How good the model is on the test samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tuitrain.engine.data import Split, batch
from tuitrain.engine.outputs import logits
from tuitrain.engine.predictions import Answers
from tuitrain.engine.views import six_views
from tuitrain.events import Progress

PROGRESS_SECONDS = 0.2


@dataclass(frozen=True)
class Score:
    """`loss`: mean over samples. `loss_sum`: sum over batches of their mean losses. `accuracy`: 0 to 1. `answers`: of each sample."""

    loss: float
    loss_sum: float
    accuracy: float
    answers: Answers


@dataclass(frozen=True)
class Evaluator:
    """Evaluates a model on a split, in batches of the training's batch size.

    Attributes:
        model: in training mode.
        criterion: mean loss over samples.
        split: test samples, on the model's device.
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
        parts = (slice(first, first + self.batch_size) for first in range(0, len(self.split), self.batch_size))
        flaws = (self.split.flaw(part, self.dtype, "test") for part in parts)
        return next((flaw for flaw in flaws if flaw is not None), None)

    def _batches(self) -> Generator[Progress, None, Score | None]:
        # loss over samples, loss over batches: kept on the device until the end, as the answers are.
        sums = torch.zeros(2, dtype=torch.float64, device=self.split.labels.device)
        answers = Answers(self.split)
        total, told = -(-len(self.split) // self.batch_size), 0.0
        for number in range(total):
            if self.ending():
                return None
            if time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                yield Progress(phase="evaluating", done=number, total=total, unit="batches")
            sums += self._batch(slice(number * self.batch_size, (number + 1) * self.batch_size), answers)
        loss, loss_sum, right = torch.cat((sums, answers.right().double()[None])).tolist()
        return Score(loss / len(self.split), loss_sum, right / len(self.split), answers)

    @torch.no_grad()
    def _batch(self, rows: slice, answers: Answers) -> Tensor:
        inputs, labels = batch(self.split, rows, self.dtype, self.batch_dim)
        scores = six_views(self._scores, inputs) if self.tta else self._scores(inputs)
        loss = self.criterion(scores, labels).double()
        answers.add(scores)
        return torch.stack((loss * len(labels), loss))

    def _scores(self, inputs: Tensor) -> Tensor:
        with self.autocast:
            outputs = self.model(inputs)
        return logits(outputs)
