"""Layers that take the place of a network's own on a GPU: they have the same parameters and compute the same, faster."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from tuitrain.config import MODELS, RunConfig
from tuitrain.engine.failures import first_line
from tuitrain.engine.substitutes.convolution import FewChannelConv2d, has_few_channels
from tuitrain.events import Notice, Progress


def substitute(model: nn.Module, config: RunConfig, device: torch.device) -> Iterator[Notice | Progress]:
    """Change the layers of `model`, which is on `device`, that have a faster substitute there."""
    if device.type != "cuda":
        return
    if config.deterministic and config.precision in ("fp32", "tf32"):
        for layer in filter(has_few_channels, model.modules()):
            layer.__class__ = FewChannelConv2d
    # Elsewhere the first step would wait for the kernels to be compiled; a speed run warms up before its clock starts. A compiler makes its
    # own ones.
    if config.target_accuracy is not None and config.model in MODELS and not config.compile:
        yield from _substitute_pools(model, device)


def _substitute_pools(model: nn.Module, device: torch.device) -> Iterator[Notice | Progress]:
    yield Progress(phase="compiling")  # which takes seconds where Triton has not kept the kernels
    try:
        from tuitrain.engine.substitutes.pooling import SideBySidePool2d, lie_side_by_side

        probe = torch.zeros(1, 16, 2, 2, device=device).contiguous(memory_format=torch.channels_last).requires_grad_()
        SideBySidePool2d(2)(probe).sum().backward()
    except Exception as error:  # Triton is not installed, has no C compiler, does not know this GPU, and whatever else there may be
        yield Notice(
            text=f"Images are pooled with torch's own kernels, which are slower, because Triton cannot be used: {first_line(error)}."
        )
        return
    for layer in filter(lie_side_by_side, model.modules()):
        layer.__class__ = SideBySidePool2d
