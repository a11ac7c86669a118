"""Loss, optimizer and precision of a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tuitrain.config import RunConfig
from tuitrain.events import Notice


def make_criterion(config: RunConfig) -> nn.Module:
    """The loss function: mean over the samples it is given."""
    return nn.CrossEntropyLoss() if config.loss == "cross_entropy" else nn.NLLLoss()


def make_optimizer(config: RunConfig, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer over `parameters`, which are already on their device."""
    _leave_compiler_out()
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay)
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, lr=config.lr, weight_decay=config.weight_decay)


def update(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """What `optimizer.step` does, without the wrappers around it: they import torch's compiler, see `_leave_compiler_out`."""
    step = inspect.unwrap(type(optimizer).step)

    def run() -> None:
        with torch.no_grad():
            step(optimizer)

    return run


def _leave_compiler_out() -> None:
    """Keep an optimizer's methods from importing torch's compiler when they are first called.

    That import takes 1 to 2 seconds, in which the screen stutters, and 100 MB. It only serves to hide the methods from the compiler,
    and nothing here ever compiles an optimizer. Where a torch release does it in another way, this changes nothing.
    """
    for method in vars(torch.optim.Optimizer).values():
        plain = getattr(method, "__wrapped__", None)
        if plain is not None:
            plain.__dynamo_disable = plain


def autocast(config: RunConfig, device: torch.device) -> AbstractContextManager[Any]:
    """What a forward pass runs under; it may be entered again and again."""
    return torch.autocast(device.type, torch.bfloat16) if config.precision == "bf16" else nullcontext()


def precision_notices(config: RunConfig, device: torch.device) -> list[Notice]:
    """What is worth knowing about `config.precision` and `config.compile` on this device."""
    notices = []
    if config.precision == "bf16" and not _has_bf16(device):
        text = f"{device} has no bf16 instructions: bf16 is emulated there, and slower than fp32."
        notices.append(Notice(level="warning", text=text))
    if config.compile:
        notices.append(Notice(text="torch.compile compiles the model in the first step, which can take a minute."))
    return notices


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    try:
        words = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return True  # nobody knows: no warning
    return not words.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})
