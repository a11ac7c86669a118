"""The loss of a run: what a model gives, compared with the labels."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from tuitrain.config import LOSSES, ConfigError, RunConfig
from tuitrain.engine.outputs import class_scores, tensors
from tuitrain.engine.own.imports import import_string
from tuitrain.engine.places import one_line


def make_criterion(config: RunConfig) -> nn.Module:
    """The loss function, of a model's outputs and labels: the mean over the samples that it is given, 0-dim.

    Raises:
        ConfigError: a person's own cannot be imported or made.
    """
    if config.loss not in LOSSES:
        return _own(config.loss)
    if config.loss == "mse":
        return OfScores(nn.MSELoss())
    return OfScores(nn.CrossEntropyLoss(label_smoothing=config.label_smoothing) if config.loss == "cross_entropy" else nn.NLLLoss())


class OfScores(nn.Module):
    """A loss of torch's, of the tensor that counts among a model's outputs, see `outputs.class_scores`."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self._loss = loss

    def forward(self, outputs: Any, labels: Tensor) -> Tensor:
        """The mean loss, 0-dim."""
        scores = class_scores(outputs, labels)
        if 1 < labels.dim() < scores.dim() and (behind := scores.movedim(1, -1)).is_contiguous():
            # The mean over all positions is the same, and took less than half the time on a CPU where a position's scores lie side by side.
            scores, labels = behind.flatten(0, -2), labels.flatten()
        loss: Tensor = self._loss(scores, labels)
        return loss


class OwnLoss(nn.Module):
    """A person's own loss: a function of the model's outputs and the labels, a module, or a class, which is made without arguments.

    A single tensor in bf16 or fp16 comes as float32. What a module holds, such as weights of classes, is copied to where the outputs are.
    """

    def __init__(self, loss: Any) -> None:
        super().__init__()
        self.loss = loss() if isinstance(loss, type) else loss
        self.copies: dict[tuple[torch.device, torch.dtype], nn.Module] = {}

    def forward(self, outputs: Any, labels: Tensor) -> Any:
        labels = labels.clone()  # a slice of the data set, which it may change in place
        if isinstance(outputs, Tensor) and outputs.dtype in (torch.bfloat16, torch.float16):
            outputs = outputs.float()
        if not isinstance(self.loss, nn.Module):
            return self.loss(outputs, labels)
        first = next(tensors(outputs))
        where = first.device, first.dtype
        if where not in self.copies:
            self.copies[where] = copy.deepcopy(self.loss).to(*where)
        return self.copies[where](outputs, labels)


def _own(value: str) -> OwnLoss:
    named = import_string("loss", value)
    try:
        loss = OwnLoss(named)
    except BaseException as error:  # whatever the person's code raises is a sentence about their code
        raise ConfigError(f"loss: {value!r} raised {one_line(error)}.") from error
    if any(True for _ in loss.parameters()):
        raise ConfigError(f"loss: {value!r} has parameters, which would not be trained; what is to be trained belongs to the model.")
    return loss
