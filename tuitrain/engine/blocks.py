"""SGD's update on the CPU, one block of a large parameter after the other.

Over a whole parameter each of its operations fetches from memory what the one before has just left there; a block stays in the processor's
cache meanwhile. What is computed of each number is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.optim.sgd import sgd

_FOR_EACH_THREAD, _LEAST = 131072, 262144
"""Numbers of a block that a thread computes, and of a whole one: of four bytes, and with its gradient and momentum, a few MB."""
_Block: TypeAlias = tuple[Tensor, Tensor, Tensor | None]
"""Of a parameter, of its gradient, and of its momentum where there is any."""


def in_blocks(optimizer: torch.optim.Optimizer, whole: Callable[[], Any]) -> Callable[[], Any]:
    """What a step of `optimizer` does: in blocks where it is torch's SGD, and has parameters that are larger than one.

    Args:
        whole: the step as torch has it, which serves all others, and while a parameter has no momentum yet.
    """
    block = max(_LEAST, _FOR_EACH_THREAD * torch.get_num_threads())
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    plain = type(optimizer) is torch.optim.SGD and not any(group[way] for group in optimizer.param_groups for way in _OTHER_WAYS)
    if not plain or not any(one.numel() > block for one in parameters) or any(one.device.type != "cpu" for one in parameters):
        return whole

    @torch.no_grad()
    def step() -> None:
        moving = [[one for one in group["params"] if one.grad is not None] for group in optimizer.param_groups]
        if any(one.grad.is_sparse for ones in moving for one in ones) or _begins(optimizer, moving):
            whole()
            return
        for group, ones in zip(optimizer.param_groups, moving, strict=True):
            blocks = [part for one in ones for part in _cut(one, _momentum(optimizer, one), block)]
            settings = {name: group[name] for name in _SETTINGS}
            sgd([one for one, _, _ in blocks], [one for _, one, _ in blocks], [one for _, _, one in blocks], foreach=False, **settings)

    return step


def _begins(optimizer: torch.optim.Optimizer, moving: list[list[Tensor]]) -> bool:
    """Whether a parameter of those that are moved has no momentum yet, and is to have it."""
    with_momentum = (one for group, ones in zip(optimizer.param_groups, moving, strict=True) if group["momentum"] for one in ones)
    return any(_momentum(optimizer, one) is None for one in with_momentum)


def _momentum(optimizer: torch.optim.Optimizer, parameter: Tensor) -> Tensor | None:
    """What torch's SGD keeps of a parameter; nothing is kept of one that it keeps nothing of."""
    kept: Tensor | None = optimizer.state.get(parameter, {}).get("momentum_buffer")
    return kept


def has_no_gaps(tensor: Tensor) -> bool:
    """Whether its numbers lie one beside the other, in whichever order."""
    return tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


_OTHER_WAYS = ("foreach", "fused", "differentiable")
_SETTINGS = ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize")


def _cut(parameter: Tensor, buffer: Tensor | None, block: int) -> Iterator[_Block]:
    """A parameter in blocks, or as it is where it is a small one, or not all of it lies in one piece of memory and in the same order."""
    gradient = parameter.grad
    assert gradient is not None
    all_of_it = [one for one in (parameter, gradient, buffer) if one is not None]
    if parameter.numel() <= block or not all(one.stride() == parameter.stride() and has_no_gaps(one) for one in all_of_it):
        yield parameter, gradient, buffer
        return
    parts = [torch.split(one.as_strided((one.numel(),), (1,)), block) for one in all_of_it]
    for part, of_gradient, *of_buffer in zip(*parts, strict=True):
        yield part, of_gradient, of_buffer[0] if of_buffer else None
