"""Which strategy a run takes, and what must be right for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from tuitrain.config import MODELS, ConfigError, RunConfig, with_changes
from tuitrain.device_names import in_words, short
from tuitrain.engine.failures import first_line
from tuitrain.engine.group import Group
from tuitrain.engine.optim import autocast
from tuitrain.engine.strategies import Strategy
from tuitrain.engine.strategies.data_parallel import DataParallel
from tuitrain.engine.strategies.distributed import Distributed
from tuitrain.engine.strategies.single import Single
from tuitrain.engine.strategies.split import Replica, Split
from tuitrain.events import Notice
from tuitrain.strategies import limit, stands_for


def resolve(config: RunConfig, devices: Sequence[torch.device]) -> str:
    """The strategy's name, never "auto".

    Raises:
        ConfigError: it does not fit the devices.
    """
    names = tuple(map(str, devices))
    strategy = stands_for(config.strategy, names)
    if takes := limit(strategy, names):
        mend = "use split, or name one" if strategy == "single" else "use split"
        raise ConfigError(f"strategy: {takes}, and device {short(config.device)!r} takes {in_words(names)}; {mend}.")
    # What was left open decides it by now; what does not go together could not be read from the run's folder either.
    with_changes(config, {"device": ",".join(names), "strategy": strategy})
    return strategy


def check_even(config: RunConfig, count: int, sizes: Sequence[int]) -> None:
    """Check that batches of `sizes` samples divide over `count` replicas, where `config.even_split` asks for it.

    Raises:
        ConfigError: one does not.
    """
    odd = next((size for size in sizes if size % count), None)
    if not config.even_split or odd is None:
        return
    what = "batch_size" if odd == config.batch_size else "the last batch of an epoch"
    raise ConfigError(f"even_split: {what} is {odd}, which does not divide evenly over {count} replicas; change batch_size or device.")


def check_gradients(config: RunConfig, model: nn.Module) -> None:
    """Check that the strategy, already resolved, adds up the gradients of this model.

    Raises:
        ConfigError: it does not.
    """
    # Torch's DistributedDataParallel then divides the other gradients by the number of ranks twice, and says nothing.
    if config.strategy == "ddp" and any(getattr(module, "sparse", False) is True for module in model.modules()):
        text = f"strategy: ddp does not add up sparse gradients, and a layer of {config.model!r} has them"
        raise ConfigError(f"{text}; use split, or sparse=False.")


def copies(config: RunConfig, model: nn.Module, devices: Sequence[torch.device]) -> dict[torch.device, nn.Module]:
    """`model`, which is on the first device, and a copy of it for each other device that is to hold one; replicas on one device share it.

    Raises:
        ConfigError: it cannot be copied.
        RuntimeError: a device has no room for it, or cannot be used.
    """
    modules = {devices[0]: model}
    if config.strategy != "split":
        return modules
    for device in devices:
        if device in modules:
            continue
        try:
            twin = copy.deepcopy(model)
        except Exception as error:  # whatever stands in the way, such as a tensor that was computed
            reason = first_line(error)
            raise ConfigError(f"model: {config.model!r} cannot be copied to {device}: {reason}; train on one device.") from error
        modules[device] = twin.to(device)
    return modules


def make_strategy(
    config: RunConfig,
    devices: Sequence[torch.device],
    modules: Mapping[torch.device, nn.Module],
    criterion: nn.Module,
    group: Group | None = None,
) -> Strategy:
    """The strategy that `config`, already resolved, names, over `modules` as `copies` gives them, compiled or not.

    With a `group`, `devices` is this rank's own one.
    """
    first = devices[0]
    if group is not None:
        own = config.model not in MODELS
        return Distributed(modules[first], criterion, first, group.devices, autocast(config, first), config.batch_dim, group, may_skip=own)
    if config.strategy == "split":
        replicas = [Replica(modules[device], device, autocast(config, device)) for device in devices]
        return Split(replicas, criterion, config.batch_dim)
    if config.strategy == "dp":
        output = first if config.output_device is None else torch.device(config.output_device)
        return DataParallel(modules[first], criterion, devices, output, lambda: autocast(config, first), config.batch_dim)
    return Single(modules[first], criterion, first, autocast(config, first))


def nature_notices(config: RunConfig, model: nn.Module, devices: Sequence[torch.device]) -> Iterator[Notice]:
    """What makes this model learn something else on several replicas than on one."""
    if len(devices) == 1:
        return
    if any(isinstance(module, _BatchNorm) and module.training for module in model.modules()):
        shared = config.strategy == "split" and len(set(devices)) == 1
        kept = "all replicas in turn" if shared else "rank 0" if config.strategy == "ddp" else f"the replicas on {devices[0]}"
        text = "BatchNorm averages over each replica's own samples, so the losses differ a little from those of one device"
        yield Notice(text=f"{text}; the running averages that evaluation uses are of {kept}.")
    if any(_drops(module) for module in model.modules()):
        yield Notice(text="Dropout draws for each replica anew, so the losses differ by chance from those of one device.")


def _drops(module: nn.Module) -> bool:
    if isinstance(module, _DropoutNd):
        return module.p > 0
    return isinstance(module, (nn.RNNBase, nn.MultiheadAttention)) and module.dropout > 0
