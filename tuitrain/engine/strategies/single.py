"""One device, one replica: the plain training step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from tuitrain.engine.clock import Seconds
from tuitrain.engine.laps import Laps
from tuitrain.engine.replicas import Pattern, ShapeWatch
from tuitrain.engine.strategies import Strategy


class Single(Strategy):
    """Trains `model` where it is.

    Args:
        model: in training mode, on `device`.
        criterion: of outputs and labels the mean loss over samples.
        device: where the model and all batches are.
        autocast: what the forward pass runs under.

    Attributes:
        run: does forward and backward of a batch, and gives its mean loss, detached: `plain`, or what does the same.
    """

    name = "single"

    def __init__(self, model: nn.Module, criterion: nn.Module, device: torch.device, autocast: AbstractContextManager[Any]) -> None:
        self.devices: tuple[str, ...] = (str(device),)
        self.pattern = Pattern((), None, (None,))
        self.replica_losses: tuple[Tensor | None, ...] = (None,)
        self.replica_seconds: tuple[Seconds | None, ...] = (None,)  # the step's own time is this replica's
        self.laps = Laps(device)
        self.run: Callable[[Tensor, Tensor], Tensor] = self.plain
        self._model = model
        self._criterion = criterion
        self._autocast = autocast
        self._watch = ShapeWatch(model)
        self._patterns: dict[tuple[int, ...], Pattern] = {}

    def step(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of one batch; see `Strategy.step`."""
        loss = self.run(inputs, labels)
        self.pattern = self._patterns[tuple(inputs.shape)]
        self.replica_losses = (loss,)
        return loss

    def plain(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of one batch; its mean loss, detached."""
        loss = self.forward(inputs, labels)
        self.laps.lap("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        self.laps.lap("backward")
        return loss.detach()

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of one batch, with all that its backward needs."""
        with self._autocast:
            outputs = self._model(inputs)
        loss: Tensor = self._criterion(outputs, labels)
        shape = tuple(inputs.shape)
        self._patterns[shape] = Pattern(shape, None, (self._watch.last,))
        return loss
