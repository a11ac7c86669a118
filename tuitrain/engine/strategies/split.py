"""Several replicas in one process: batch and labels are cut, each replica has its own forward, loss and backward; one update follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from tuitrain.engine.clock import Seconds, step_clock
from tuitrain.engine.laps import Laps
from tuitrain.engine.replicas import Pattern, Shapes, ShapeWatch
from tuitrain.engine.strategies import Strategy


@dataclass(frozen=True)
class Replica:
    """Where a part of the batch goes.

    Attributes:
        module: in training mode, on `device`; replicas on one device have the same one.
        device: where its part of the batch is computed.
        autocast: what its forward pass runs under.
    """

    module: nn.Module
    device: torch.device
    autocast: AbstractContextManager[Any]


class Split(Strategy):
    """Trains one model as several replicas, one after the other; on GPUs the calls only queue work, so the devices work side by side.

    A copy from one GPU to another waits in both queues for all that is there (torch's `copy_device_to_device`), so everything that crosses
    over does so before the first replica begins, or after the last one.

    Modules on other devices than the first get its parameters and buffers before each step, and their gradients are added to its own.
    With a CPU and GPUs in one run, the copies between them are waited for.

    Args:
        replicas: the first one's module is what the optimizer updates.
        criterion: of outputs and labels the mean loss over samples.
        batch_dim: the input's axis that is cut; labels and outputs are cut at 0.
    """

    name = "split"

    def __init__(self, replicas: Sequence[Replica], criterion: nn.Module, batch_dim: int) -> None:
        self.devices: tuple[str, ...] = tuple(str(replica.device) for replica in replicas)
        self.pattern = Pattern((), None, (None,) * len(replicas))
        self.replica_losses: tuple[Tensor | None, ...] = (None,) * len(replicas)
        self.replica_seconds: tuple[Seconds | None, ...] = (None,) * len(replicas)
        self.laps = Laps(replicas[0].device, len(replicas))
        self._replicas = tuple(replicas)
        self._criterion = criterion
        self._batch_dim = batch_dim
        modules = {id(replica.module): replica.module for replica in replicas}
        self._watches = {key: ShapeWatch(module) for key, module in modules.items()}
        self._clocks = [step_clock(replica.device) for replica in replicas]
        self._first, *self._others = modules.values()

    def step(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of one batch; see `Strategy.step`."""
        self._refresh()
        count = len(self._replicas)
        # With fewer samples than replicas there are fewer parts than replicas: the last ones stay idle.
        parts = zip(self._replicas, inputs.chunk(count, self._batch_dim), labels.chunk(count), strict=False)
        moved = [(_moved(part, replica.device), _moved(truth, replica.device)) for replica, part, truth in parts]
        done = [self._run(index, *part, share=len(part[1]) / len(labels)) for index, part in enumerate(moved)]
        self._reduce()
        idle = (None,) * (count - len(done))
        home = self._replicas[0].device
        shapes, losses, weighed, seconds = zip(*done, strict=True)
        self.pattern = Pattern(tuple(inputs.shape), None, (*shapes, *idle))
        self.replica_losses = (*(_moved(loss, home) for loss in losses), *idle)
        self.replica_seconds = (*seconds, *idle)
        total: Tensor = reduce(torch.add, (_moved(loss, home) for loss in weighed))
        self.laps.lap("communication")
        return total

    def _run(self, index: int, inputs: Tensor, labels: Tensor, share: float) -> tuple[Shapes | None, Tensor, Tensor, Seconds]:
        """One replica's part: its shapes; its mean loss, and its share in that of the batch, all where it is; how long it took."""
        replica, clock = self._replicas[index], self._clocks[index]
        here = replica.device == self._replicas[0].device
        if here:
            self.laps.lap("communication")
        clock.restart()
        with replica.autocast:
            outputs = replica.module(inputs)
        loss: Tensor = self._criterion(outputs, labels)
        # Samples count, not replicas: the sum is the mean over the whole batch, whichever replica a sample was on.
        weighed = loss if share == 1 else loss * share
        forward = clock.tick() if self.laps.measuring else None
        if here:
            self.laps.lap("forward")
        weighed.backward()  # type: ignore[no-untyped-call]
        seconds = clock.tick()
        if here:
            self.laps.lap("backward")
        if forward is not None:
            self.laps.part(index, forward, seconds)
            seconds = _both(forward, seconds)
        return self._watches[id(replica.module)].last, loss.detach(), weighed.detach(), seconds

    @torch.no_grad()
    def _refresh(self) -> None:
        """Give the other modules the first one's parameters, as the last update left them, and its buffers."""
        for module in self._others:
            for mine, theirs in zip(_state(self._first), _state(module), strict=True):
                theirs.copy_(mine, non_blocking=theirs.is_cuda)

    @torch.no_grad()
    def _reduce(self) -> None:
        """Add the other modules' gradients to the first one's, and leave them without."""
        for module in self._others:
            for mine, theirs in zip(self._first.parameters(), module.parameters(), strict=True):
                if theirs.grad is None:
                    continue
                gradient = _moved(theirs.grad, mine.device)
                mine.grad = gradient if mine.grad is None else mine.grad.add_(gradient)
                theirs.grad = None


def _both(first: Seconds, second: Seconds) -> Seconds:
    return lambda: first() + second()


def _state(module: nn.Module) -> Iterable[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    # What is copied into the CPU's memory without waiting could be read before it is there.
    return tensor.to(device, non_blocking=device.type == "cuda")
