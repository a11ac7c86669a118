"""Optimizer and precision of a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from tuitrain.config import WITHOUT_MOMENTUM, RunConfig
from tuitrain.engine.blocks import has_no_gaps, in_blocks
from tuitrain.engine.own.optimizer import class_settings, own_optimizer
from tuitrain.engine.speedrun import SpeedrunNet
from tuitrain.engine.uncompiled import hide_nothing
from tuitrain.events import Notice

KINDS: dict[str, type[Any]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
"""The built-in ones."""
_CPUINFO = Path("/proc/cpuinfo")


def make_optimizer(config: RunConfig, model: nn.Module, *, fused: bool = False) -> torch.optim.Optimizer:
    """The optimizer over the parameters of `model`, which are already on their device.

    Args:
        fused: each update of a built-in one is one kernel, see `may_fuse`.

    Raises:
        ConfigError: a person's own cannot be made for this model.
    """
    hide_nothing(torch.optim.Optimizer)
    parameters = model.parameter_groups(config.lr, config.weight_decay) if isinstance(model, SpeedrunNet) else model.parameters()
    kind = KINDS.get(config.optimizer)
    if kind is None:
        optimizer: torch.optim.Optimizer = own_optimizer(config, model, parameters)
    else:
        optimizer = kind(parameters, **class_settings(config), fused=True if fused else None)  # `None` is torch's own choice
    _ask_no_gpu(optimizer)
    return optimizer


def is_torchs(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step of it is what torch has written, and nothing besides."""
    hooks = (getattr(optimizer, f"_optimizer_step_{when}_hooks", ()) for when in ("pre", "post"))
    return type(optimizer).__module__.startswith("torch.optim.") and not any(hooks)


def _ask_no_gpu(optimizer: torch.optim.Optimizer) -> None:
    """Keep an optimizer of parameters on the CPU from CUDA."""
    if any(one.is_cuda for group in optimizer.param_groups for one in group["params"]):
        return
    # In each step Adam asks whether a GPU is recording, wherever its parameters are: on a machine with GPUs that starts CUDA on cuda:0.
    for name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check"):  # earlier releases have the second
        setattr(optimizer, name, lambda: None)


def may_fuse(model: nn.Module, optimizer: str) -> bool:
    """Whether updates of the built-in `optimizer` are to be fused.

    torch can do that where all of the model is in real numbers without gaps, and no gradient is sparse. On the CPU it pays for Adam, whose
    update goes over the same memory ten times otherwise.
    """
    if any(getattr(module, "sparse", False) for module in model.modules()):
        return False
    parameters = list(model.parameters())
    if not all(one.is_floating_point() and has_no_gaps(one) for one in parameters):
        return False
    kinds = {one.device.type for one in parameters}
    return kinds == {"cuda"} or (kinds == {"cpu"} and optimizer in WITHOUT_MOMENTUM)


def update(optimizer: torch.optim.Optimizer, max_grad_norm: float | None = None) -> Callable[[], None]:
    """What `optimizer.step` and `zero_grad` do; of torch's own without the wrappers around them, which import its compiler, see
    `uncompiled`.

    Args:
        max_grad_norm: the gradients are clipped to it first, as torch's `clip_grad_norm_` does, which makes no device wait.
    """
    move: Callable[[], Any] = optimizer.step
    if is_torchs(optimizer):
        move = in_blocks(optimizer, partial(torch.no_grad()(inspect.unwrap(type(optimizer).step)), optimizer))
    parameters = [one for group in optimizer.param_groups for one in group["params"]]

    def run() -> None:
        if max_grad_norm is not None:
            clip_grad_norm_(parameters, max_grad_norm)
        _begin_momentum(optimizer)
        move()
        for one in parameters:
            one.grad = None

    return run


def _begin_momentum(optimizer: torch.optim.Optimizer) -> None:
    """Give each parameter its momentum, 0 before its first gradient, where updates are fused.

    Fused, torch's SGD takes it of all parameters or of none, and raises where one gets its first gradient at a later step than others.
    """
    for group in optimizer.param_groups:
        if not (group.get("fused") and group.get("momentum")):
            continue
        for parameter in group["params"]:
            if parameter.grad is not None and optimizer.state[parameter].get("momentum_buffer") is None:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def autocast(config: RunConfig, device: torch.device) -> AbstractContextManager[Any]:
    """What a forward pass runs under; it may be entered again and again."""
    return torch.autocast(device.type, torch.bfloat16) if config.precision == "bf16" else nullcontext()


def precision_notices(config: RunConfig, device: torch.device) -> list[Notice]:
    """What is worth knowing about `config.precision` and `config.compile` on this device."""
    notices = []
    slow = _why_bf16_is_slow(device) if config.precision == "bf16" else None
    if slow is not None:
        notices.append(Notice(level="warning", text=f"{device} {slow} than fp32."))
    if config.precision == "tf32" and not _has_tf32(device):
        notices.append(Notice(level="warning", text=f"{device} has no TF32: matrices are multiplied in fp32 there."))
    if config.compile:
        # The clock of a run with a target accuracy starts when that is done.
        when = "in" if config.target_accuracy is None else "before"
        notices.append(Notice(text=f"torch.compile compiles the model {when} the first step, which can take a minute."))
    return notices


def _why_bf16_is_slow(device: torch.device) -> str | None:
    """What makes bf16 slower than fp32 on a device, as a sentence on it up to "than fp32"; None where nothing does, or nobody knows."""
    emulated = "has no bf16 instructions: bf16 is emulated there, and slower"
    if device.type == "cuda":
        # torch's own question for this is about the current device only.
        return None if _has_tf32(device) else emulated
    try:
        words = set(_CPUINFO.read_text(encoding="utf-8").split())
    except OSError:
        return None
    if words.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"}):
        return emulated
    # On two cores of a Xeon a step of seed-cnn, transformer and resnet18 took 1.6, 1.3 and 1.5 times as long in bf16 as in fp32 where torch
    # was kept from AMX, and 0.7 times with it. An EPYC, which has no AMX, is faster in bf16.
    if "GenuineIntel" in words and "amx_bf16" not in words:
        return "is an Intel processor without AMX: bf16 is slower there"
    return None


def _has_tf32(device: torch.device) -> bool:
    """NVIDIA's cards have it, and bf16, since Ampere."""
    return device.type == "cuda" and (torch.version.hip is not None or bool(torch.cuda.get_device_properties(device).major >= 8))
