"""Whether model and data fit each other, and in which memory the model can be trained with them."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import nn

from tuitrain.config import MODELS, ConfigError, RunConfig
from tuitrain.engine.data import Dataset, Split, batch
from tuitrain.engine.failures import breaks_cuda, first_line, is_out_of_memory, unusable
from tuitrain.engine.models import model_dtype
from tuitrain.engine.optim import autocast, make_criterion
from tuitrain.engine.outputs import logits, tensors
from tuitrain.engine.seeding import untouched_random


def tried(model: nn.Module, dataset: Dataset, config: RunConfig, device: torch.device) -> tuple[nn.Module, Dataset]:
    """Model and data in the memory that the run takes for them, tried on two samples without a trace.

    Images, and the weights of convolutions over them, are in channels_last memory, which is fastest. A person's own model may be one
    that can only be trained with contiguous ones, as `x.view(len(x), -1)` after a convolution asks for: then it gets both so, and the
    data says it, see `samples.Split.contiguous`.

    Args:
        model: in training mode, on `device` with its data.

    Raises:
        ConfigError: the model does not take these inputs, or does not give one score for each class.
    """
    images = dataset.train.inputs.dim() == 4 and not dataset.train.as_rows
    # Convolutions in double precision are no faster with it.
    widely = torch.channels_last if images and config.precision != "fp64" else torch.preserve_format
    model = _in_memory(model, widely)
    if not images or config.model in MODELS:
        _try_forward(model, dataset, config, device)
        return model, dataset
    refused: ConfigError | None = None
    try:
        _try_forward(model, dataset, config, device)
        if _can_step(model, dataset, config, device):
            return model, dataset
    except _Misfit as error:
        refused = error
    model, plain = _in_memory(model, torch.contiguous_format), _contiguous(dataset)
    # A model that fits in neither is told what is wrong in this one: it is that of a plain script.
    _try_forward(model, plain, config, device)
    if refused is not None or _can_step(model, plain, config, device):
        return model, plain
    # It is not for the memory that it cannot be trained, and its first step says what it is.
    return _in_memory(model, widely), dataset


class _Misfit(ConfigError):
    """Model and data do not fit each other."""


def _in_memory(model: nn.Module, memory_format: torch.memory_format) -> nn.Module:
    if memory_format == torch.preserve_format:
        return model
    moved: nn.Module = model.to(memory_format=memory_format)  # type: ignore[call-overload]
    return moved


def _contiguous(dataset: Dataset) -> Dataset:
    def plain(split: Split) -> Split:
        return replace(split, inputs=split.inputs.contiguous(), contiguous=True)

    return replace(dataset, train=plain(dataset.train), test=dataset.test and plain(dataset.test))


def _try_forward(model: nn.Module, dataset: Dataset, config: RunConfig, device: torch.device) -> None:
    """A forward pass of two samples.

    Raises:
        _Misfit: the model does not take these inputs, or does not give one score for each class.
        ConfigError: there is no room for them.
    """
    inputs, _ = batch(dataset.train, slice(0, 2), model_dtype(config), config.batch_dim)
    given = f"inputs {list(inputs.shape)} of the data {dataset.source!r}"
    model.eval()
    try:
        with untouched_random(device), torch.no_grad(), autocast(config, device):
            output = next(tensors(model(inputs)), None)
    except Exception as error:  # whatever the model raises says that the two do not fit
        if is_out_of_memory(error):
            raise unusable(error, [device]) from error
        # Where CUDA is broken now, another memory format cannot be tried.
        kind = ConfigError if breaks_cuda(error) else _Misfit
        raise kind(f"model: {config.model!r} does not take {given}: {first_line(error).rstrip('.')}.") from error
    finally:
        model.train()
    classes = max(len(dataset.classes), _highest_label(dataset) + 1)
    shape = "no tensor" if output is None else list(output.shape)
    if output is None or output.dim() != 2 or len(output) != len(dataset.train.labels[:2]) or output.shape[1] < classes:
        wanted = f"[{len(dataset.train.labels[:2])}, {classes}], one score for each of the {classes} classes"
        raise _Misfit(f"model: {config.model!r} gives {shape} for {given}; it must give {wanted}.")
    if not output.is_floating_point():
        raise _Misfit(f"model: {config.model!r} gives scores that are {output.dtype}; they must be of a floating type.")


def _can_step(model: nn.Module, dataset: Dataset, config: RunConfig, device: torch.device) -> bool:
    """Whether a copy of the model makes its way forward and back in training mode, as far as can be tried.

    Raises:
        ConfigError: trying it has broken CUDA.
    """
    try:
        twin = copy.deepcopy(model)
    except Exception:  # a tensor that was computed, a lock, no room: training needs no copy
        return True
    try:
        inputs, labels = batch(dataset.train, slice(0, 2), model_dtype(config), config.batch_dim)
        with untouched_random(device):
            with autocast(config, device):
                outputs = twin(inputs)
            make_criterion(config)(logits(outputs), labels).backward()
    except (Exception, SystemExit) as error:  # whatever the model raises
        if breaks_cuda(error):
            raise ConfigError(f"model: {config.model!r} cannot be trained on {device}: {first_line(error).rstrip('.')}.") from error
        return is_out_of_memory(error)
    return True


def _highest_label(dataset: Dataset) -> int:
    splits = [dataset.train] if dataset.test is None else [dataset.train, dataset.test]
    return max(int(split.labels.max()) for split in splits)
