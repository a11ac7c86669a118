"""Everything that must be good before a run exists: data, model, and that the two fit each other on the device."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import msgspec
import torch
from torch import nn

from tuitrain.config import MODELS, ConfigError, RunConfig
from tuitrain.engine import fingerprint
from tuitrain.engine.batches import Batches
from tuitrain.engine.checksum import checksum
from tuitrain.engine.control import Control, Interrupted
from tuitrain.engine.data import Dataset, load_data, rows_of
from tuitrain.engine.datasets.doubts import data_doubts
from tuitrain.engine.datasets.home import settled
from tuitrain.engine.datasets.packing import Unpacked
from tuitrain.engine.datasets.samples import closed_on_failure
from tuitrain.engine.environment import environment, facts_of
from tuitrain.engine.failures import describe, is_out_of_memory, reaching
from tuitrain.engine.group import Group
from tuitrain.engine.models import build_model, model_dtype, takes_rows
from tuitrain.engine.optim import precision_notices
from tuitrain.engine.own.imports import noted_arguments
from tuitrain.engine.placement import cuda_devices
from tuitrain.engine.resume import DECIDING
from tuitrain.engine.schedule import try_schedule
from tuitrain.engine.seeding import seed_replicas
from tuitrain.engine.strategies.choose import check_even, check_gradients, copies, nature_notices, resolve
from tuitrain.engine.substitutes import substitute
from tuitrain.engine.tryouts.data import check_data
from tuitrain.engine.tryouts.doubts import doubts
from tuitrain.engine.tryouts.model import tried, try_alone
from tuitrain.engine.tryouts.optimizer import try_optimizer
from tuitrain.engine.warm_up import fit, warm_up
from tuitrain.engine.weights import given_weights
from tuitrain.events import Event, Notice, Progress, RunStarted


@dataclass(frozen=True)
class Prepared:
    """What this process trains: data and model on its first device, the model in training mode.

    Attributes:
        config: with device, data and strategy as they were taken.
        devices: one for each replica of this process; in a group its rank's own one.
        modules: the model, and its copies on other devices where the strategy keeps some.
        batches: the training samples, batch by batch.
        total_steps: at which step the run is finished.
        environment: what else the losses depend on, see `environment`.
        fit_seconds: how long fitting the model to the data took; 0 where there was none.
        data_mark, code_marks: see `fingerprint`.
    """

    config: RunConfig
    devices: tuple[torch.device, ...]
    dataset: Dataset
    modules: dict[torch.device, nn.Module]
    batches: Batches
    total_steps: int
    environment: dict[str, str | int]
    fit_seconds: float
    group: Group | None
    data_mark: str
    code_marks: dict[str, str]

    @property
    def model(self) -> nn.Module:
        """The one whose parameters are updated."""
        return self.modules[self.devices[0]]

    @cached_property
    def trained(self) -> dict[torch.device, nn.Module]:
        """`modules`, compiled where that is asked for: for each size of batch by itself. After the second size torch would compile for any,
        and use that for whole batches too from then on, as a run that goes on would not."""
        if not self.config.compile:
            return self.modules
        _let_compile(len(self.modules))
        return {device: cast(nn.Module, torch.compile(module, dynamic=False)) for device, module in self.modules.items()}

    @property
    def where(self) -> str:
        """Its devices, each once, for a sentence."""
        return " or ".join(map(str, dict.fromkeys(self.devices)))

    @property
    def origin(self) -> dict[str, Any]:
        """What decides the losses and may be another when the run goes on later; the number of samples may not."""
        device = self.config.device if self.group is None else ",".join(self.group.devices)
        where = {"device": device, "strategy": self.config.strategy, "train_samples": len(self.dataset.train)}
        planned = {"planned_steps": self.total_steps} if self.config.looks_ahead else {}
        config = {field: getattr(self.config, field) for field in DECIDING}
        return {**where, "config": config, "data_mark": self.data_mark, "code": self.code_marks, **planned, **self.environment}

    def started(self, resumed_from: int | None = None) -> RunStarted:
        """The event that says so; `resumed_from` is the step that the run goes on after."""
        test = self.dataset.test
        return RunStarted(
            recipe=self.config.recipe,
            device=tuple(self.config.device.split(",")) if self.group is None else self.group.devices,
            strategy=self.config.strategy,
            data=self.dataset.kind,
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            train_samples=len(self.dataset.train),
            test_samples=0 if test is None else len(test),
            targets=self.dataset.train.targets,
            readers=0 if self.dataset.train.readers is None else self.dataset.train.readers.workers,
            steps_per_epoch=self.batches.per_epoch,
            total_steps=self.total_steps,
            resumed_from=resumed_from,
        )


def _let_compile(devices: int) -> None:
    """Let one network be compiled for as many devices. Each takes two sizes of batches, and the first one evaluates; of what comes after a
    limit torch compiles nothing more."""
    limits, name = torch._dynamo.config, _compile_limit()
    setattr(limits, name, max(getattr(limits, name), 2 * devices + 6))


def _compile_limit() -> str:
    """What torch calls it."""
    return "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"  # before torch 2.7


def prepare(
    config: RunConfig, control: Control, devices: tuple[torch.device, ...], group: Group | None = None, *, goes_on: bool = False
) -> Generator[Event, None, Prepared]:
    """Load the data, build the model, and try it on two samples; fills in `control.resolved` and `control.environment`.

    Args:
        devices: one for each replica of this machine.
        group: the ranks that train together; each has its own of its machine's devices.
        goes_on: the model's weights will be those of a checkpoint.

    Raises:
        ConfigError: something does not exist, does not fit, or has no room.
        Interrupted: the person asked to end.
    """
    resolved = msgspec.structs.replace(config, device=",".join(map(str, devices)), strategy=resolve(config, devices))
    count = len(devices) if group is None else group.size
    check_even(config, count, [config.batch_size])
    # In a group all ranks get those of rank 0, see `DistributedDataParallel`.
    given = None if config.weights is None or goes_on or not (group is None or group.leads) else given_weights(config.weights)
    for device in dict.fromkeys(devices):
        yield from precision_notices(config, device)
    with nullcontext() if group is None else group.leader_first():
        dataset = yield from _load(config, control)
    with closed_on_failure(dataset):
        if group is not None:
            group.must_agree({"data": _in_words(dataset)})
        data_mark = fingerprint.of_data(dataset)
        if config.batch_size > len(dataset.train):
            text = (
                f"batch_size is {config.batch_size:,}, and there are {len(dataset.train):,} training samples: each step takes all of them."
            )
            yield Notice(text=text)
        batches = Batches(dataset.train, config, group)
        total = min(config.epochs * batches.per_epoch, config.max_steps or 2**63)
        check_even(config, count, batches.sizes(total))
        try_schedule(config, total)
        if config.warmup_steps > total:
            text = (
                f"warmup_steps is {config.warmup_steps:,}, and the run has {total:,} steps: the learning rate does not reach {config.lr:g}."
            )
            yield Notice(level="warning", text=text)
        if config.model not in MODELS:
            yield Progress(phase=f"calling {config.model}")
        model = build_model(config, dataset.scores, dataset.sample)
        check_gradients(resolved, model)
        if dataset.train.packing is not None:
            model.register_forward_pre_hook(Unpacked(dataset.train.packing, model_dtype(config)), with_kwargs=True)
        own = devices if group is None else (group.own(devices),)
        dataset, modules = yield from _placed(model, dataset, resolved, own)
        try_alone(modules[own[0]], dataset, config, own[0], batches.sizes(total), count)
        yield from try_optimizer(modules[own[0]], config, own[0])
        with reaching(own[:1]):
            fit_seconds = fit(modules[own[0]], dataset.train, config)
            if given is not None:
                yield given.fit(modules[own[0]])
                given.put_into(modules.values())
        yield from nature_notices(resolved, model, devices if group is None else own * count)
        resolved = msgspec.structs.replace(resolved, data=dataset.source, weights=config.weights if given is None else str(given.path))
        control.resolved = resolved
        control.environment = environment(devices) | facts_of(dataset)
        control.environment |= noted_arguments(resolved)
        if group is not None and dataset.train.readers is not None:
            dataset.train.readers.ending = lambda: False  # ranks take each step together, and end after one
        batches = Batches(dataset.train, resolved, group)
        code = fingerprint.of_code(config)
        prepared = Prepared(resolved, own, dataset, modules, batches, total, control.environment, fit_seconds, group, data_mark, code)
        if config.target_accuracy is not None and (own[0].type == "cuda" or config.compile):
            yield Progress(phase="compiling" if config.compile else "warming up")
            _warm_up(prepared, control)
        return prepared


def _load(config: RunConfig, control: Control) -> Generator[Event, None, Dataset]:
    dataset = yield from load_data(config, lambda: control.ending)
    with closed_on_failure(dataset):
        if takes_rows(config):
            dataset = rows_of(dataset)
        check_data(config, dataset)
        for text in data_doubts(config, dataset):
            yield Notice(level="warning", text=text)
    return dataset


def _in_words(dataset: Dataset) -> str:
    """What ranks have to have the same of; a data function of one's own may draw in each of them anew."""
    samples = f"{dataset.kind} with {len(dataset.train):,} training and {len(dataset.test or ()):,} test samples"
    return samples if dataset.train.reads_labels else f"{samples} (their labels {checksum(dataset.train.labels):08x})"


def _placed(
    model: nn.Module, dataset: Dataset, config: RunConfig, devices: Sequence[torch.device]
) -> Generator[Event, None, tuple[Dataset, dict[torch.device, nn.Module]]]:
    """The data on the first device, and the model there, tried, and on every other device that keeps a copy; each device seeded.

    Raises:
        ConfigError: there is no room for them, a device cannot be used, or model and data do not fit each other.
    """
    first = devices[0]
    _wake(cuda_devices(devices))
    with reaching([first]):
        dataset = yield from settled(dataset, first)
        model = model.to(first, model_dtype(config))
        # A person's own train() may have forgotten to return the module.
        model.train()
        model, dataset, output = tried(model, dataset, config, first)
        doubted = list(doubts(config, output, len(dataset.classes)))
    for text in doubted:
        yield Notice(level="warning", text=text)
    yield from substitute(model, config, first)
    with reaching(devices):
        modules = copies(config, model, devices)
        seed_replicas(config.seed, devices)
    return dataset, modules


def _wake(cards: Sequence[torch.device]) -> None:
    """Have each card do something, and forget its peak of memory.

    Raises:
        ConfigError: a card cannot be used; one for which torch has no kernels is counted all the same, and says so only when asked for one.
    """
    for card in cards:
        with reaching([card]):
            # With the CPU as the first device nothing has started CUDA yet, and torch keeps no peaks before.
            torch.cuda.init()  # type: ignore[no-untyped-call]
            _ = torch.ones(1, device=card) + 1
            torch.cuda.reset_peak_memory_stats(card)


def _warm_up(prepared: Prepared, control: Control) -> None:
    """Raises: ConfigError: there is no room for a whole batch, or the model cannot be trained with one.

    Interrupted: the person asked to end, and Ctrl+C reaches the processes of torch's compiler too.
    """
    config, device, batches = prepared.config, prepared.devices[0], prepared.batches
    try:
        compiled = prepared.trained[device] if config.compile else None
        warm_up(prepared.model, batches, batches.sizes(prepared.total_steps), config, device, compiled)
    except Exception as error:  # the model's first whole batches: whatever it raises would end the run
        if config.compile and control.ending:
            raise Interrupted from error
        field = "device" if is_out_of_memory(error) else "model"
        raise ConfigError(f"{field}: {describe(error, 'warming up', device)}") from error
