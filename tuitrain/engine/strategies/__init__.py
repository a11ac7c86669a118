"""How one step's work is spread over devices: one small interface, one file for each way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from tuitrain.engine.clock import Seconds
from tuitrain.engine.laps import Laps
from tuitrain.engine.memory import Memory
from tuitrain.engine.replicas import Pattern
from tuitrain.events import StepTimes


class Strategy(Protocol):
    """Runs forward and backward of one batch over its replicas. What has a body here is for those that are in this process alone.

    Attributes:
        name: as a configuration has it.
        devices: the replicas' devices, in order.
        pattern: the shapes of the last step.
        replica_losses: the loss of each replica in the last step, detached, 0-dim, on the first device; `None` where it was idle, and for
            all where replicas have none of their own.
        replica_seconds: how long each replica's forward and backward took in the last step; `None` where it was idle, or nobody measures.
        laps: where the time goes on the first device, or in a group on this rank's; the loop laps what it does around `step`.
    """

    name: str
    devices: tuple[str, ...]
    pattern: Pattern
    replica_losses: tuple[Tensor | None, ...]
    replica_seconds: tuple[Seconds | None, ...]
    laps: Laps

    def step(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of one batch; gradients are added to the model's parameters.

        Args:
            inputs: the whole batch, on the first device.
            labels: [N, ...], class numbers or floats, on the first device.

        Returns:
            The mean loss over all N samples, detached, 0-dim, on the first device.
        """
        ...

    def times(self, *, last: bool = False) -> StepTimes | None:
        """Where the time of the steps went that were measured and not told yet; `None` without any.

        Args:
            last: all of them; in a group every rank must ask.
        """
        return self.laps.times(self.name, self.devices)

    @property
    def fresh_memory(self) -> Callable[[], Memory | None] | None:
        """Gives the memory of all replicas, as the loss log wants it; `None` where this process can ask all of their devices itself."""
        return None

    def settle(self, batch: Callable[[], tuple[Tensor, Tensor]]) -> None:
        """Before a run goes on: come to where the steps that are done have led. What that changes of model and generators is put back.

        Args:
            batch: makes a batch of the run, inputs and labels.
        """
        return None
