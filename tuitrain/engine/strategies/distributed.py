"""One process for each device: torch's DistributedDataParallel adds up the gradients while backward still runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tuitrain.engine.clock import Seconds, step_clock
from tuitrain.engine.group import Group
from tuitrain.engine.laps import Laps, Spent
from tuitrain.engine.memory import STATS_SECONDS, Memory, memory_of
from tuitrain.engine.replicas import Pattern, Shapes, ShapeWatch
from tuitrain.engine.shared_mean import mean_in_memory
from tuitrain.engine.uncompiled import hide_nothing, nothing_compiled_yet
from tuitrain.events import Phases, StepTimes


@dataclass(frozen=True)
class _Part:
    """What one rank did in the last step, and how long its steps take, `None` where it was idle; what it spent since it last said.

    Nobody but the rank itself can ask its allocator for `memory`.
    """

    shapes: Shapes | None
    loss: float | None
    seconds: float | None
    memory: Memory
    spent: Spent | None


class Distributed:
    """Trains one rank's part of each batch. Every rank makes the same whole batch and takes its own part, as torch.chunk cuts it.

    Shapes, losses and times of the other ranks come along at the first step, when a rank's shapes change, and once a second.

    Args:
        model: in training mode, on `device`; the same on every rank.
        criterion: of outputs and labels the mean loss over samples.
        device: this rank's own.
        devices: the ranks' devices, in order.
        autocast: what the forward pass runs under.
        batch_dim: the input's axis that is cut; labels and outputs are cut at 0.
        group: the ranks.
        may_skip: some parameters may not take part in a forward pass.
    """

    name = "ddp"

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
        self.laps = Laps(device)
        self._spent: list[Spent | None] = [None] * len(devices)
        self._criterion = criterion
        self._device = device
        self._autocast = autocast
        self._batch_dim = batch_dim
        self._group = group
        self._watch = ShapeWatch(model)
        self._clock = step_clock(device)
        self._memory: Memory | None = None
        self._known: tuple[tuple[int, ...], Shapes | None] | None = None
        self._told = -math.inf
        self._due = False
        ids = [device] if device.type == "cuda" else None
        self._trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # Gradients that are views of what is reduced need not be copied back.
        hide_nothing(DistributedDataParallel)
        with nothing_compiled_yet():
            self._parallel = DistributedDataParallel(model, device_ids=ids, find_unused_parameters=may_skip, gradient_as_bucket_view=True)
        self._in_memory = device.type == "cpu" and self._reduce_in_memory()

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
        loss: Tensor = self._criterion(outputs, marks)
        share = 0.0 if idle else len(marks) / len(labels)
        # DistributedDataParallel takes the mean over ranks; samples count, not ranks.
        weighed = loss * (share * count)
        shapes = None if idle else self._watch.last
        whole = tuple(inputs.shape)
        detached = loss.detach()
        mean = torch.zeros_like(detached) if idle else detached * share
        # Begun before backward, so that the ranks need not wait for each other once more after it.
        summed = self._group.start_sum(mean, flag=self._wants_to_tell(whole, shapes))
        self.laps.lap("forward")
        self._backward(weighed)
        seconds = self._clock.tick()
        total, tell = summed()
        self._memory = None
        self.replica_losses = (None,) * count
        if tell:
            self._collect(whole, shapes, total, None if idle else detached, None if idle else seconds)
        self.laps.lap("communication")
        return total

    def settle(self, batch: Callable[[], tuple[Tensor, Tensor]]) -> None:
        """A forward and backward that count for nothing; see `Strategy.settle`.

        After the first backward torch orders the gradients anew, and adds up those of three ranks or more in another order than before.
        """
        count, (inputs, labels) = self._group.size, batch()
        with self._autocast:
            outputs = self._parallel(inputs.chunk(count, self._batch_dim)[0])
        self._criterion(outputs, labels.chunk(count)[0]).backward()
        for parameter in self._trained:
            parameter.grad = None

    def times(self, *, last: bool = False) -> StepTimes | None:
        """See `Strategy.times`; the ranks' sums come together once a second."""
        if last:
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            self._add_up(self._group.gather(self.laps.take()))
        ranks = [spent for spent in self._spent if spent is not None]
        if len(ranks) < len(self._spent):
            return None
        self._spent = [None] * len(ranks)
        each = tuple(spent.phases for spent in ranks)
        mean = sum(each, Phases()) / len(each)
        return Spent(ranks[0].steps, ranks[0].samples, mean, each).event(self.name, self.devices)

    def _reduce_in_memory(self) -> bool:
        """Let the ranks' gradients meet in memory and not in gloo, where that is possible."""
        mean = mean_in_memory(self._group)
        if mean is None:
            return False

        # At each bucket one rank would wait for the other, now this one and now that; steps of resnet18 took 1 % longer.
        waiting: list[tuple[Tensor, torch.futures.Future[Tensor]]] = []

        def reduce(state, bucket):  # type: ignore[no-untyped-def]  # torch compares what is written here with its own classes
            reduced: torch.futures.Future[Tensor] = torch.futures.Future()
            waiting.append((bucket.buffer(), reduced))
            if bucket.is_last():
                self.laps.lap("backward")
                for numbers, future in waiting:
                    mean(numbers)
                    future.set_result(numbers)
                waiting.clear()
                self.laps.lap("communication")
            return reduced

        self._parallel.register_comm_hook(None, reduce)
        return True

    def _backward(self, loss: Tensor) -> None:
        """Backward; what it takes after this rank's last gradient is waiting for the reduction, and that is communication."""
        if self._in_memory or not self.laps.measuring:
            loss.backward()  # type: ignore[no-untyped-call]
            self.laps.lap("backward")
            return
        newest: list[Any] = [None]

        def note(parameter: Tensor) -> None:
            newest[0] = self.laps.mark()

        hooks = [parameter.register_post_accumulate_grad_hook(note) for parameter in self._trained]  # type: ignore[no-untyped-call]
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            for hook in hooks:
                hook.remove()
        self.laps.lap("backward", newest[0])

    def _add_up(self, ranks: Sequence[Spent | None]) -> None:
        known = zip(self._spent, ranks, strict=True)
        self._spent = [new if old is None else old if new is None else old + new for old, new in known]

    def fresh_memory(self) -> Memory | None:
        """The memory of all ranks, after a step whose account came from all of them; else `None`."""
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
        memory, spent = memory_of((str(self._device),)), self.laps.take()
        mine = _Part(shapes, None if loss is None else loss.item(), None if seconds is None else seconds(), memory, spent)
        found: list[_Part] = self._group.gather(mine)
        self.pattern = Pattern(whole, None, tuple(part.shapes for part in found))
        self.replica_losses = tuple(None if part.loss is None else total.new_tensor(part.loss) for part in found)
        self.replica_seconds = tuple(None if part.seconds is None else _known(part.seconds) for part in found)
        self._add_up([part.spent for part in found])
        if self._due:
            self._told = time.monotonic()
            self._memory = self._memory_of_all([part.memory for part in found])

    def _memory_of_all(self, ranks: Sequence[Memory]) -> Memory:
        """What the ranks tell as one; the cards of other machines are not among those that a screen here shows."""
        here = (one.held for name, one in zip(self.devices, ranks, strict=True) if "/" not in name)
        return Memory(tuple(peak for one in ranks for peak in one.peaks), tuple(held for each in here for held in each))


def _known(seconds: float) -> Seconds:
    return lambda: seconds
