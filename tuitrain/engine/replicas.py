"""What each replica got in a step, from the real forward calls of training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch import nn

from tuitrain.engine.outputs import tensors
from tuitrain.events import Replica, Replicas

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Shapes:
    """The sizes of the tensors that went into and came out of one forward call."""

    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]


@dataclass(frozen=True)
class Pattern:
    """The sizes of one whole step; `replicas[i]` is `None` where replica i was idle."""

    batch: Shape
    gathered: Shape | None
    replicas: tuple[Shapes | None, ...]

    def spread(self, losses: Iterable[float]) -> tuple[float | None, ...]:
        """The losses of the replicas that were not idle, in order, as one value for every replica; `None` for all where there are none."""
        each = iter(losses)
        return tuple(None if shapes is None else next(each, None) for shapes in self.replicas)


class ShapeWatch:
    """Remembers the shapes of a module's forward calls in training mode.

    Attributes:
        last: of the last call.
        by_device: of the last call on each device, by the device's name; calls of copies of the module in several threads count too.
    """

    def __init__(self, module: nn.Module) -> None:
        self.last: Shapes | None = None
        self.by_device: dict[str, Shapes] = {}
        module.register_forward_hook(self._remember, with_kwargs=True)

    def _remember(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        if module.training:
            self.last = shapes = Shapes(_sizes((inputs, named)), _sizes(output))
            self.by_device.update((str(tensor.device), shapes) for tensor in islice(tensors((inputs, named)), 1))


def replicas_event(step: int, pattern: Pattern, devices: Sequence[str], losses: Sequence[float | None]) -> Replicas:
    """The event that tells `pattern`; `devices[i]` and `losses[i]` belong to replica i."""
    replicas = (_replica(index, *found) for index, found in enumerate(zip(devices, pattern.replicas, losses, strict=True)))
    return Replicas(step=step, batch=_batch(pattern), gathered=pattern.gathered, replicas=tuple(replicas))


def _batch(pattern: Pattern) -> Shape:
    """The shape of the whole batch, as its replicas got it: samples with several inputs are rows of bytes until then."""
    firsts = [shapes.inputs[0] for shapes in pattern.replicas if shapes is not None]
    samples = sum(first[0] for first in firsts if first)
    return (samples, *firsts[0][1:]) if pattern.batch[:1] == (samples,) else pattern.batch


def _replica(index: int, device: str, shapes: Shapes | None, loss: float | None) -> Replica:
    if shapes is None:
        return Replica(index=index, device=device, input=None, output=None, loss=None)
    return Replica(
        index=index,
        device=device,
        input=shapes.inputs[0],
        output=shapes.outputs[0],
        loss=loss,
        inputs=shapes.inputs if len(shapes.inputs) > 1 else None,
        outputs=shapes.outputs if len(shapes.outputs) > 1 else None,
    )


def _sizes(value: Any) -> tuple[Shape, ...]:
    return tuple(tuple(tensor.shape) for tensor in tensors(value))
