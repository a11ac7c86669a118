"""One device, one replica: the plain training step."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from tuitrain.engine.clock import Seconds
from tuitrain.engine.laps import Laps
from tuitrain.engine.outputs import logits
from tuitrain.engine.replicas import Pattern, ShapeWatch
from tuitrain.events import StepTimes


class Single:
    """Trains `model` where it is.

    Args:
        model: in training mode, on `device`.
        criterion: mean loss over samples.
        device: where the model and all batches are.
        autocast: what the forward pass runs under.
    """

    def __init__(self, model: nn.Module, criterion: nn.Module, device: torch.device, autocast: AbstractContextManager[Any]) -> None:
        self.devices: tuple[str, ...] = (str(device),)
        self.pattern = Pattern((), None, (None,))
        self.replica_losses: tuple[Tensor | None, ...] = (None,)
        self.replica_seconds: tuple[Seconds | None, ...] = (None,)  # the step's own time is this replica's
        self.laps = Laps(device)
        self._model = model
        self._criterion = criterion
        self._autocast = autocast
        self._watch = ShapeWatch(model)

    def step(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of one batch; see `Strategy.step`."""
        with self._autocast:
            outputs = self._model(inputs)
        loss: Tensor = self._criterion(logits(outputs), labels)
        self.laps.lap("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        self.laps.lap("backward")
        self.pattern = Pattern(tuple(inputs.shape), None, (self._watch.last,))
        detached = loss.detach()
        self.replica_losses = (detached,)
        return detached

    def times(self, *, last: bool = False) -> StepTimes | None:
        """See `Strategy.times`."""
        spent = self.laps.take()
        return None if spent is None else spent.event("single", self.devices)
