"""Learning rates that change from step to step. Plain PyTorch: an exported script carries the source."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from tuitrain.config import RunConfig


def triangle(done: int, total: int) -> float:
    """By how much the learning rate is multiplied after `done` of `total` steps: from 0.2 up to 1 at 23 %, then down to 0.07 at the end."""
    peak = int(0.23 * total)
    if done < peak:
        return 0.2 + 0.8 * done / peak
    return 1 - 0.93 * (done - peak) / (total - peak)


def cosine(done: int, total: int) -> float:
    """By how much the learning rate is multiplied after `done` of `total` steps: from 1 to 0 along half a cosine (arXiv 1608.03983)."""
    return (1 + math.cos(math.pi * done / total)) / 2


def after_warm_up(factor: Callable[[int, int], float], step: int, total: int, warmup: int) -> float:
    """By how much the learning rate is multiplied in `step`, from 1: more and more up to 1 in step `warmup`, then as `factor` says over the
    steps that are left."""
    return step / warmup if step <= warmup else factor(step - 1 - warmup, total - warmup)


SCHEDULES = {"triangle": triangle, "cosine": cosine}
"""By what `lr_schedule` calls them."""


def set_rates(optimizer: torch.optim.Optimizer, factor: float, epoch: int) -> None:
    """Give each group of parameters its own learning rate times `factor`, and 0 where it only learns until an epoch that is over."""
    for group in optimizer.param_groups:
        lr = group.setdefault("initial_lr", group["lr"])
        group["lr"] = lr * factor if epoch <= group.get("until_epoch", epoch) else 0.0


def make_schedule(config: RunConfig, optimizer: torch.optim.Optimizer, total_steps: int) -> Callable[[int, int], None]:
    """What sets the learning rates of a step; it is called with the step, from 1, and its epoch, and depends on nothing else.

    Args:
        total_steps: those that are planned; the schedule spans them.
    """
    warmup = config.warmup_steps
    if config.lr_schedule != "none":
        factor = SCHEDULES[config.lr_schedule]
        return lambda step, epoch: set_rates(optimizer, after_warm_up(factor, step, total_steps, warmup), epoch)
    if warmup:
        return lambda step, epoch: set_rates(optimizer, min(1.0, step / warmup), epoch)
    if any("until_epoch" in group for group in optimizer.param_groups):
        return lambda step, epoch: set_rates(optimizer, 1.0, epoch)
    return lambda step, epoch: None
