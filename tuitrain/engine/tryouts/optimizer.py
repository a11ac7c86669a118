"""Whether a run can train with an optimizer of the person's own: it is made for a copy of the model, and does a step there."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from tuitrain.config import OPTIMIZERS, ConfigError, RunConfig
from tuitrain.engine.failures import breaks_cuda, is_out_of_memory
from tuitrain.engine.optim import make_optimizer, update
from tuitrain.engine.own.optimizer import unkept
from tuitrain.engine.places import one_line
from tuitrain.engine.seeding import untouched_random
from tuitrain.engine.tryouts.model import twin_of
from tuitrain.events import Notice

_GRADIENT = 1e-3


def try_optimizer(model: nn.Module, config: RunConfig, device: torch.device) -> Iterator[Notice]:
    """Try it without a trace; tells of parameters that it leaves as they are.

    Args:
        model: on `device`.

    Raises:
        ConfigError: it cannot be made, does no step, or keeps what no checkpoint could hold.
    """
    if config.optimizer in OPTIMIZERS:
        return
    with untouched_random(device):
        twin = twin_of(model)
        its = model if twin is None else twin
        optimizer = make_optimizer(config, its)
        if reason := unkept(optimizer) if twin is None else _why_no_step(optimizer, twin, config):
            raise ConfigError(f"optimizer: {config.optimizer!r} {reason}.")
    yield from _left_out(optimizer, its)


def _why_no_step(optimizer: torch.optim.Optimizer, twin: nn.Module, config: RunConfig) -> str | None:
    """As the end of a sentence; no room says nothing."""
    try:
        for parameter in filter(lambda one: one.requires_grad, twin.parameters()):
            parameter.grad = torch.full_like(parameter, _GRADIENT)
        update(optimizer, config.max_grad_norm)()
    except (Exception, SystemExit) as error:  # whatever the person's code raises
        if is_out_of_memory(error) and not breaks_cuda(error):
            return None
        return f"cannot do a step: {one_line(error)}"
    return unkept(optimizer)


def _left_out(optimizer: torch.optim.Optimizer, model: nn.Module) -> Iterator[Notice]:
    taken = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    trainable = [(name, id(parameter)) for name, parameter in model.named_parameters() if parameter.requires_grad]
    left = [name for name, place in trainable if place not in taken]
    if left:
        text = f"The optimizer has {len(trainable) - len(left)} of the model's {len(trainable)} tensors of parameters; {left[0]}"
        yield Notice(text=f"{text} {f'and {len(left) - 1} more stay' if len(left) > 1 else 'stays'} as they are.")
