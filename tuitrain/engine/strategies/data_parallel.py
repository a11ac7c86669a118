"""nn.DataParallel: torch copies the model to every GPU in each step, gathers the outputs on one, and the loss is computed there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import gather

from tuitrain.engine.clock import Seconds
from tuitrain.engine.laps import Laps
from tuitrain.engine.outputs import tensors
from tuitrain.engine.replicas import Pattern, ShapeWatch
from tuitrain.engine.strategies import Strategy


class UnderAutocast(nn.Module):
    """Runs a module under its own autocast: nn.DataParallel calls replicas in threads, which do not know the dtype of the caller's.

    Args:
        module: what is run.
        autocast: makes what a forward pass runs under; each call makes a new one, because threads cannot share one.
    """

    def __init__(self, module: nn.Module, autocast: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__()
        self.module = module
        self.autocast = autocast

    def forward(self, inputs: Tensor) -> Any:
        """What `module` gives for `inputs`."""
        with self.autocast():
            return self.module(inputs)


class Gathering(nn.DataParallel[nn.Module]):
    """nn.DataParallel that cuts the inputs at `dim` and gathers the outputs at 0, where theirs is; torch's gathers where it cuts."""

    def gather(self, outputs: Any, output_device: int | torch.device) -> Any:
        """The outputs of all replicas on one device."""
        return gather(outputs, output_device, dim=0)


class DataParallel(Strategy):
    """Trains `model` with nn.DataParallel. Replicas have no loss and no time of their own: the loss is that of the gathered outputs.

    Args:
        model: in training mode, on the first of `devices`.
        criterion: of outputs and labels the mean loss over samples.
        devices: different GPUs.
        output_device: one of them.
        autocast: makes what a forward pass runs under.
        batch_dim: the input's axis that is cut.
    """

    name = "dp"

    def __init__(
        self,
        model: nn.Module,
        criterion: nn.Module,
        devices: Sequence[torch.device],
        output_device: torch.device,
        autocast: Callable[[], AbstractContextManager[Any]],
        batch_dim: int,
    ) -> None:
        self.devices: tuple[str, ...] = tuple(str(device) for device in devices)
        self.pattern = Pattern((), None, (None,) * len(devices))
        self.replica_losses: tuple[Tensor | None, ...] = (None,) * len(devices)
        self.replica_seconds: tuple[Seconds | None, ...] = (None,) * len(devices)
        self.laps = Laps(devices[0])
        self._criterion = criterion
        self._home, self._output_device = devices[0], output_device
        # Its copies carry the hooks of the model they were made from.
        self._watch = ShapeWatch(model)
        self._parallel = Gathering(UnderAutocast(model, autocast), list(devices), output_device, batch_dim)

    def step(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of one batch; see `Strategy.step`."""
        self._watch.by_device.clear()
        outputs = self._parallel(inputs)
        loss: Tensor = self._criterion(outputs, labels.to(self._output_device, non_blocking=True))
        self.laps.lap("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        self.laps.lap("backward")
        gathered = tuple(next(tensors(outputs)).shape) if len(self.devices) > 1 else None
        self.pattern = Pattern(tuple(inputs.shape), gathered, tuple(self._watch.by_device.get(device) for device in self.devices))
        return loss.detach().to(self._home, non_blocking=True)
