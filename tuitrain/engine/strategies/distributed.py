"""One process for each device: torch's DistributedDataParallel adds up the gradients while backward still runs."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tuitrain.engine.clock import Seconds, step_clock
from tuitrain.engine.group import Group
from tuitrain.engine.outputs import logits
from tuitrain.engine.replicas import Pattern, Shapes, ShapeWatch

STATS_SECONDS = 1.0


@dataclass(frozen=True)
class _Part:
    """What one rank did in the last step, and how long its steps take; `None` where it was idle."""

    shapes: Shapes | None
    loss: float | None
    seconds: float | None
    memory: int | None


class Distributed:
    """Trains one rank's part of each batch. Every rank makes the same whole batch and takes its own part, as torch.chunk cuts it.

    Shapes, losses and times of the other ranks come along at the first step, when a rank's shapes change, and once a second.

    Args:
        model: in training mode, on `device`; the same on every rank.
        criterion: mean loss over samples.
        device: this rank's own.
        devices: the ranks' devices, in order.
        autocast: what the forward pass runs under.
        batch_dim: the input's axis that is cut; labels and outputs are cut at 0.
        group: the ranks.
        may_skip: some parameters may not take part in a forward pass.
    """

    def __init__(
        self,
        model: nn.Module,
        criterion: nn.Module,
        device: torch.device,
        devices: tuple[str, ...],
        autocast: AbstractContextManager[Any],
        batch_dim: int,
        group: Group,
        *,
        may_skip: bool,
    ) -> None:
        self.devices = devices
        self.pattern = Pattern((), None, (None,) * len(devices))
        self.replica_losses: tuple[Tensor | None, ...] = (None,) * len(devices)
        self.replica_seconds: tuple[Seconds | None, ...] = (None,) * len(devices)
        self._criterion = criterion
        self._device = device
        self._autocast = autocast
        self._batch_dim = batch_dim
        self._group = group
        self._watch = ShapeWatch(model)
        self._clock = step_clock(device)
        self._memory: tuple[int | None, ...] | None = None
        self._known: tuple[tuple[int, ...], Shapes | None] | None = None
        self._told = -math.inf
        self._due = False
        ids = [device] if device.type == "cuda" else None
        self._parallel = DistributedDataParallel(model, device_ids=ids, find_unused_parameters=may_skip)

    def step(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of this rank's part; see `Strategy.step`. Only rank 0's account of the replicas is read."""
        count, rank = self._group.size, self._group.rank
        parts = list(zip(inputs.chunk(count, self._batch_dim), labels.chunk(count), strict=True))
        idle = rank >= len(parts)
        self._clock.restart()
        # An idle rank takes part in the reduction with a loss that weighs nothing.
        mine, marks = parts[0] if idle else parts[rank]
        with self._autocast:
            outputs = self._parallel(mine)
        loss: Tensor = self._criterion(logits(outputs), marks)
        share = 0.0 if idle else len(marks) / len(labels)
        # DistributedDataParallel takes the mean over ranks; samples count, not ranks.
        (loss * (share * count)).backward()  # type: ignore[no-untyped-call]
        seconds = self._clock.tick()
        shapes = None if idle else self._watch.last
        whole = tuple(inputs.shape)
        detached = loss.detach()
        weighed = torch.zeros_like(detached) if idle else detached * share
        total, tell = self._group.sum(weighed, flag=self._wants_to_tell(whole, shapes))
        self._memory = None
        self.replica_losses = (None,) * count
        if tell:
            self._collect(whole, shapes, total, None if idle else detached, None if idle else seconds)
        return total

    def fresh_memory(self) -> tuple[int | None, ...] | None:
        """Bytes of tensors on each rank's device, after a step whose account came from all ranks; else `None`."""
        return self._memory

    def _wants_to_tell(self, whole: tuple[int, ...], shapes: Shapes | None) -> bool:
        changed = self._known != (whole, shapes)
        self._known = (whole, shapes)
        # Rank 0 alone tells, so it alone looks at the clock.
        self._due = self._group.leads and time.monotonic() - self._told >= STATS_SECONDS
        return changed or self._due

    def _collect(self, whole: tuple[int, ...], shapes: Shapes | None, total: Tensor, loss: Tensor | None, seconds: Seconds | None) -> None:
        """Bring the ranks' accounts together; on a GPU it waits for the step."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        memory = torch.cuda.max_memory_allocated(self._device) if self._device.type == "cuda" else None
        mine = _Part(shapes, None if loss is None else loss.item(), None if seconds is None else seconds(), memory)
        found: list[_Part] = self._group.gather(mine)
        self.pattern = Pattern(whole, None, tuple(part.shapes for part in found))
        self.replica_losses = tuple(None if part.loss is None else total.new_tensor(part.loss) for part in found)
        self.replica_seconds = tuple(None if part.seconds is None else _known(part.seconds) for part in found)
        if self._due:
            self._told = time.monotonic()
            self._memory = tuple(part.memory for part in found)


def _known(seconds: float) -> Seconds:
    return lambda: seconds
