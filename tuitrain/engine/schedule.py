"""Learning rates that change from step to step. Plain PyTorch: an exported script carries the source."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from tuitrain.config import SCHEDULES, ConfigError, RunConfig
from tuitrain.engine.own.imports import import_string
from tuitrain.engine.places import one_line
from tuitrain.engine.seeding import untouched_random


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


FACTORS = {"triangle": triangle, "cosine": cosine}
"""By what `lr_schedule` calls them."""
_LOOKED_AT = 1000
"""After so many steps, all over a run, a person's own schedule is asked before the run begins."""


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
        factor = FACTORS.get(config.lr_schedule) or _own(config)
        return lambda step, epoch: set_rates(optimizer, after_warm_up(factor, step, total_steps, warmup), epoch)
    if warmup:
        return lambda step, epoch: set_rates(optimizer, min(1.0, step / warmup), epoch)
    if any("until_epoch" in group for group in optimizer.param_groups):
        return lambda step, epoch: set_rates(optimizer, 1.0, epoch)
    return lambda step, epoch: None


def try_schedule(config: RunConfig, total_steps: int) -> None:
    """Ask a person's own schedule for some of its factors.

    Raises:
        ConfigError: it cannot be imported, raises, or gives what no learning rate can be multiplied with.
    """
    if config.lr_schedule in SCHEDULES:
        return
    factor, total = _own(config), max(total_steps - config.warmup_steps, 0)
    count = min(total, _LOOKED_AT)
    with untouched_random(torch.device("cpu")):
        for done in (number * (total - 1) // max(count - 1, 1) for number in range(count)):
            when = f"after {done:,} of {total:,} steps"
            try:
                found = factor(done, total)
            except BaseException as error:  # whatever the person's code raises is a sentence about their code
                raise ConfigError(f"lr_schedule: {config.lr_schedule!r} raised {one_line(error)} {when}.") from error
            if not 0 <= found < math.inf:
                raise ConfigError(f"lr_schedule: {config.lr_schedule!r} gives {found} {when}; it must give a number of 0 or more.")


def _own(config: RunConfig) -> Callable[[int, int], float]:
    function = import_string("lr_schedule", config.lr_schedule)
    return lambda done, total: float(function(done, total))
