"""Whether a loss that is none of class numbers can be computed of what a model gives, and something be learned from it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from tuitrain.config import RunConfig
from tuitrain.engine.criterion import make_criterion
from tuitrain.engine.failures import is_of_the_device, unusable
from tuitrain.engine.outputs import logits
from tuitrain.engine.places import one_line
from tuitrain.engine.seeding import untouched_random


def loss_misfit(outputs: Any, labels: Tensor, config: RunConfig, device: torch.device) -> str | None:
    """One sentence on what does not fit; `None` where all does.

    Args:
        outputs: what the model gives for the first samples, one tensor at least, without a history.
        labels: those of these samples.

    Raises:
        ConfigError: the loss cannot be made, or the device cannot be used.
    """
    output = logits(outputs)
    if config.loss == "mse" and output.shape != labels.shape:
        shapes = f"gives {list(output.shape)} for labels {list(labels.shape)}"
        told = f"model: {config.model!r} {shapes}; for the loss mse both must have one shape"
        one_axis_less = labels.dim() == 1 and output.shape == (len(labels), 1)
        return f"{told}{', as labels.unsqueeze(1) gives it to them' if one_axis_less else ''}."
    if not output.is_floating_point():
        return f"model: {config.model!r} gives outputs that are {output.dtype}; they must be of a floating type."
    compared = f"for outputs {list(output.shape)} and labels {list(labels.shape)}"
    alone, criterion = isinstance(outputs, Tensor), make_criterion(config)
    with untouched_random(device), torch.set_grad_enabled(alone):
        try:
            # A copy: what is computed of it in place is refused for a tensor that has no history.
            loss = criterion(outputs.requires_grad_().clone() if alone else outputs, labels)
        except Exception as error:  # whatever a person's loss raises
            if is_of_the_device(error):
                raise unusable(error, [device]) from error
            return f"loss: {config.loss!r} raised {one_line(error)} {compared}."
        if not isinstance(loss, Tensor) or loss.dim() or not loss.is_floating_point():
            found = f"{list(loss.shape)} of {loss.dtype}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
            return f"loss: {config.loss!r} gives {found} {compared}; it must give a single float, the mean over the samples."
        if _is_summed(criterion, outputs, labels, loss):
            return f"loss: {config.loss!r} gives the sum over the samples; it must give their mean, as divided by len(labels)."
    if alone and not loss.requires_grad:
        return f"loss: {config.loss!r} gives a number {compared} that has no gradient; it must be computed of the outputs by torch."
    return None


def _is_summed(criterion: torch.nn.Module, outputs: Any, labels: Tensor, loss: Tensor) -> bool:
    """Whether the loss of all samples twice is twice the loss, which that of a mean hardly ever is by chance."""
    if (doubled := _doubled(outputs)) is not None and loss != 0:
        with suppress(Exception):  # it may not take any number of samples
            return torch.allclose(criterion(doubled, torch.cat((labels, labels))), 2 * loss, rtol=1e-5, atol=0)
    return False


def _doubled(outputs: Any) -> Any:
    """The same outputs for each sample once more; `None` where they are in nothing that can be made anew."""
    if isinstance(outputs, Tensor):
        return torch.cat((outputs, outputs)) if outputs.dim() else None
    if type(outputs) not in (tuple, list):
        return None
    parts = [_doubled(one) for one in outputs]
    return None if any(part is None for part in parts) else type(outputs)(parts)
