"""What comes before the clock of a run with a target accuracy starts, as in other speed runs."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import nn

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.batches import Batches
from tuitrain.engine.criterion import make_criterion
from tuitrain.engine.data import Split, batch
from tuitrain.engine.failures import first_line
from tuitrain.engine.models import model_dtype
from tuitrain.engine.optim import autocast, make_optimizer, may_fuse, update
from tuitrain.engine.seeding import untouched_random
from tuitrain.engine.speedrun import SpeedrunNet
from tuitrain.engine.views import six_views

FIT_SAMPLES = 5000
_TIMES = 3


def fit(model: nn.Module, train: Split, config: RunConfig) -> float:
    """Fit a model to the first training samples, where it is one that asks for that; how many seconds that took.

    Args:
        model: on the device of `train`.

    Raises:
        ConfigError: these samples are such that it cannot be fitted to them.
        RuntimeError: the device cannot be used, or has no room.
    """
    if not isinstance(model, SpeedrunNet):
        return 0.0
    seconds = 0.0
    # Of a GPU the second time counts: in the first one it loads kernels.
    for _ in range(2 if train.labels.is_cuda else 1):
        begin = time.perf_counter()
        try:
            model.fit(batch(train, slice(0, FIT_SAMPLES), model_dtype(config), 0)[0])
        except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
            raise ConfigError(f"data: {config.model} cannot be fitted to these samples: {first_line(error)}.") from error
        seconds = time.perf_counter() - begin
    return seconds


def warm_up(
    model: nn.Module, batches: Batches, sizes: Iterable[int], config: RunConfig, device: torch.device, compiled: nn.Module | None = None
) -> None:
    """A few steps and an evaluation: a GPU loads its kernels, and chooses them for each size of batch, and a compiler makes its own.

    Neither the model nor any random generator is another one afterwards.

    Args:
        model: in training mode, on `device`.
        sizes: how many samples the run's batches have, each number once.
        compiled: the model as `torch.compile` gave it. It is warm itself then, where otherwise a copy of the model does the steps.
    """
    with untouched_random(device), nullcontext() if compiled is None else _put_back(model):
        twin, criterion = copy.deepcopy(model) if compiled is None else model, make_criterion(config)
        scores = twin if compiled is None else compiled
        optimizer = make_optimizer(config, twin, fused=may_fuse(twin, config.optimizer))
        step = update(optimizer)
        whole, labels = batches.get(1, 0, 1)
        for size in sizes:
            inputs = whole.narrow(config.batch_dim, 0, size)
            for _ in range(_TIMES):
                with autocast(config, device):
                    outputs = scores(inputs)
                criterion(outputs, labels[:size]).backward()
                step()
        twin.eval()
        with torch.no_grad(), autocast(config, device):
            _ = six_views(scores, whole) if config.tta else scores(whole)
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def _put_back(model: nn.Module) -> Iterator[None]:
    """What steps inside do to a model in training mode is undone."""
    values = [*model.parameters(), *model.buffers()]
    before = [value.detach().clone() for value in values]
    yield
    with torch.no_grad():
        for value, was in zip(values, before, strict=True):
            value.copy_(was)
    model.zero_grad()
    model.train()
