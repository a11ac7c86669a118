"""Whether model and data fit each other, and in which memory the model can be trained with them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import torch
from torch import Tensor, nn

from tuitrain.config import DEFAULTS, MODELS, OF_CLASSES, ConfigError, RunConfig
from tuitrain.engine.control import Interrupted
from tuitrain.engine.criterion import make_criterion
from tuitrain.engine.data import Dataset, Split, batch
from tuitrain.engine.datasets.sample import is_one_hot
from tuitrain.engine.failures import breaks_cuda, first_line, first_line_and_place, is_of_the_device, is_out_of_memory, unusable
from tuitrain.engine.models import made_for, model_dtype
from tuitrain.engine.optim import autocast
from tuitrain.engine.outputs import class_scores, has_classes_last, logits, named_logits, tensors
from tuitrain.engine.seeding import untouched_random
from tuitrain.engine.tryouts.doubts import TOLD_HOW_MANY
from tuitrain.engine.tryouts.loss import loss_misfit
from tuitrain.events import Targets


def tried(model: nn.Module, dataset: Dataset, config: RunConfig, device: torch.device) -> tuple[nn.Module, Dataset, Tensor]:
    """Model and data in the memory that the run takes for them, tried on two samples without a trace, and their outputs [2, ...].

    The data says what its labels are for this model, see `samples.Split.targets`.

    Args:
        model: in training mode, on `device` with its data.

    Raises:
        ConfigError: the model does not take these inputs, or gives nothing that the loss can compare with their labels.
        RuntimeError: the device has no room, or cannot be used.
    """
    model, dataset, output = _in_fitting_memory(model, dataset, config, device)
    labels = dataset.train.labels[: len(output)]
    last, output = has_classes_last(output, labels), class_scores(output, labels)
    found = _targets(output, labels, len(dataset.classes), config)
    if config.target_accuracy is not None and found == "numbers":
        raise ConfigError(f"target_accuracy: {config.target_accuracy} is of answers that are right or wrong; here it must be none.")
    test = dataset.test and replace(dataset.test, targets=found)
    train = replace(dataset.train, targets=found, classes_last=last and found == "positions")
    return model, replace(dataset, train=train, test=test), output


def _in_fitting_memory(model: nn.Module, dataset: Dataset, config: RunConfig, device: torch.device) -> tuple[nn.Module, Dataset, Tensor]:
    """See `tried`.

    Images, and the weights of convolutions over them, are in channels_last memory, which is fastest. A person's own model may be one
    that can only be trained with contiguous ones, as `x.view(len(x), -1)` after a convolution asks for: then it gets both so, and the
    data says it, see `samples.Split.contiguous`.
    """
    images = dataset.train.inputs.dim() == 4 and not dataset.train.as_rows
    # Convolutions in double precision are no faster with it.
    widely = torch.channels_last if images and config.precision != "fp64" else torch.preserve_format
    model = _in_memory(model, widely)
    if not images or config.model in MODELS:
        return model, dataset, _try_forward(model, dataset, config, device)
    refused: ConfigError | None = None
    try:
        scores = _try_forward(model, dataset, config, device)
        if _can_step(model, dataset, config, device):
            return model, dataset, scores
    except _Misfit as error:
        refused = error
    model, plain = _in_memory(model, torch.contiguous_format), _contiguous(dataset)
    # A model that fits in neither is told what is wrong in this one: it is that of a plain script.
    scores = _try_forward(model, plain, config, device)
    if refused is not None or _can_step(model, plain, config, device):
        return model, plain, scores
    # It is not for the memory that it cannot be trained, and its first step says what it is.
    return _in_memory(model, widely), dataset, scores


def try_alone(model: nn.Module, dataset: Dataset, config: RunConfig, device: torch.device, sizes: Sequence[int], count: int) -> None:
    """Try a single sample where training or evaluation comes to one: it would fail there after an epoch.

    Normalization over a batch, and a `squeeze` that takes the batch's axis too, ask for two or more.

    Args:
        model: a person's own one, or a built-in one, which takes it; in training mode, on `device` with its data.
        sizes: how many samples the training batches have.
        count: the replicas that share each.

    Raises:
        ConfigError: the model does not take one.
    """
    if config.model in MODELS:
        return
    tries = [(dataset.train, "train", "trained")] if any(_comes_to_one(size, count) for size in sizes) else []
    if dataset.test is not None and 1 in (config.batch_size, len(dataset.test) % config.batch_size):
        tries.append((dataset.test, "test", "evaluated"))
    if not tries or (twin := twin_of(model)) is None:
        return
    for split, part, done in tries:
        learns = split is dataset.train
        twin.train(learns)
        reason = _why_no_loss(twin, split, config, device, 1, back=learns)
        # What fails with two as well is told by the first step.
        if reason is not None and _why_no_loss(twin, split, config, device, 2, back=learns) is None:
            whose = "a replica" if learns and count > 1 else "a batch"
            left = f"{len(split):,} {part} samples in batches of {config.batch_size} leave {whose} with a single one"
            raise ConfigError(f"batch_size: {left}, and {config.model!r} cannot be {done} with it: {reason}; change batch_size.")


def _comes_to_one(size: int, count: int) -> bool:
    """Whether a part of a batch of `size` samples, cut as `torch.chunk` cuts it, has a single one."""
    part = -(-size // count)
    return 1 in (part, size % part)


class _Misfit(ConfigError):
    """Model and data do not fit each other."""


def _in_memory(model: nn.Module, memory_format: torch.memory_format) -> nn.Module:
    """The same model, with what it holds of images, which has four axes, in this memory; `Module.to` fails where something has five."""
    if memory_format != torch.preserve_format:
        for tensor in chain(model.parameters(), model.buffers()):
            if tensor.dim() == 4:
                tensor.data = tensor.data.to(memory_format=memory_format)
    return model


def _contiguous(dataset: Dataset) -> Dataset:
    def plain(split: Split) -> Split:
        inputs = split.inputs.contiguous() if split.readers is None else split.inputs
        return replace(split, inputs=inputs, contiguous=True)

    return replace(dataset, train=plain(dataset.train), test=dataset.test and plain(dataset.test))


def _try_forward(model: nn.Module, dataset: Dataset, config: RunConfig, device: torch.device) -> Tensor:
    """The outputs for two samples, by a copy where there can be one: what a model keeps of its first pass is to be of the first batch.

    Raises:
        _Misfit: the model does not take these inputs, or gives nothing that the loss can compare with their labels.
        ConfigError: there is no room for them.
    """
    twin = None if config.model in MODELS else twin_of(model)
    if twin is not None:
        try:
            scores = _check_forward(twin, dataset, config, device)
        except ConfigError as error:
            if error.__cause__ is None or not is_out_of_memory(error.__cause__):
                raise
            twin = None  # there may be room for the model alone
    # Layers that the first pass makes are made now, so that the optimizer gets them.
    if twin is None or _names(twin) != _names(model):
        scores = _check_forward(model, dataset, config, device)
    return scores


def _names(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_parameters()]


def _check_forward(model: nn.Module, dataset: Dataset, config: RunConfig, device: torch.device) -> Tensor:
    """See `_try_forward`."""
    inputs, labels = batch(dataset.train, slice(0, 2), model_dtype(config), config.batch_dim)
    shape_of = list(inputs.shape) if dataset.train.packing is None else dataset.train.in_words(len(labels))
    given = f"inputs {shape_of} of the data {dataset.source!r}"
    model.eval()
    try:
        with untouched_random(device), torch.no_grad(), autocast(config, device):
            outputs = model(inputs)
        shapes = [list(tensor.shape) for tensor in tensors(outputs)]
        output = logits(outputs) if shapes else None
    except Exception as error:  # whatever the model raises says that the two do not fit
        if is_of_the_device(error):
            raise unusable(error, [device]) from error
        # Where CUDA is broken now, another memory format cannot be tried.
        kind = ConfigError if breaks_cuda(error) else _Misfit
        reason = made_for(config, dataset.train.inputs.shape[1:]) or f"{first_line_and_place(error)}{_way(dataset, config, inputs, error)}"
        raise kind(f"model: {config.model!r} does not take {given}: {reason}.") from error
    finally:
        model.train()
    if output is not None and config.loss not in OF_CLASSES:
        if (unfit := loss_misfit(outputs, labels, config, device)) is not None:
            raise _Misfit(unfit)
        return output
    classes = len(dataset.classes)
    shape = "no tensor" if output is None else list(output.shape)
    fitting = [len(labels), classes, *labels.shape[1:]]
    if shape != fitting and fitting in shapes and named_logits(outputs) is None:
        several = f"{', '.join(map(str, shapes[:-1]))} and {shapes[-1]}"
        rather = f"the scores seem to be the {fitting}: return them first, or in a dict as 'logits'"
        raise _Misfit(f"model: {config.model!r} gives {several} for {given}, of which the first is taken for the scores; {rather}.")
    if output is None or not _scores_classes(class_scores(output, labels), labels, classes):
        either = f"{fitting} or {[*labels.shape, classes]}" if labels.dim() > 1 else f"{fitting}"
        wanted = f"{either}, one score for each of the {classes} classes{' at each position' if labels.dim() > 1 else ''}"
        hint = "" if output is None else _hint(output, inputs, labels, dataset, config, classes)
        raise _Misfit(f"model: {config.model!r} gives {shape} for {given}; it must give {wanted}.{hint}")
    if not output.is_floating_point():
        raise _Misfit(f"model: {config.model!r} gives scores that are {output.dtype}; they must be of a floating type.")
    return output


def _way(dataset: Dataset, config: RunConfig, inputs: Tensor, error: Exception) -> str:
    """What may help, as the end of a sentence; empty where nothing is known.

    Whole numbers may have come to a layer that computes with floats, or images may be smaller than those that the model was made for.
    """
    if (dataset.kind == "imagefolder" or dataset.train.side is not None) and config.image_size == DEFAULTS.image_size:
        return f"; image_size is how many pixels high and wide the images become, and is {config.image_size} here"
    # As torch's layers call the type of their input.
    of_type = not inputs.is_floating_point() and any(name in str(error) for name in ("Long", "long int", "int64"))
    return "; the data gives whole numbers, which stay such: give floats, or uint8 where they are pixels" if of_type else ""


def _scores_classes(output: Tensor, labels: Tensor, classes: int) -> bool:
    """Whether it has a score for each class of each label: [N, C] for labels [N], [N, C, ...] for [N, ...], as torch has it."""
    return output.dim() == labels.dim() + 1 and output.shape[:1] + output.shape[2:] == labels.shape and output.shape[1] >= classes


def _targets(output: Tensor, labels: Tensor, classes: int, config: RunConfig) -> Targets:
    """What the labels are for a model that gives such outputs for the first samples."""
    # Other outputs than scores, for a person's own loss, are hardly ever as many as there are classes.
    if not classes or not _scores_classes(output, labels, classes) or (config.loss not in OF_CLASSES and output.shape[1] != classes):
        return "numbers"
    return "positions" if labels.dim() > 1 else "classes"


def _hint(scores: Tensor, inputs: Tensor, labels: Tensor, dataset: Dataset, config: RunConfig, classes: int) -> str:
    """What may be behind scores that do not fit."""
    if scores.shape == labels.shape and is_one_hot(labels):
        return " Rows that are 1 once are class numbers by labels.argmax(1)."
    if scores.dim() != 2:
        return ""
    other = 1 - config.batch_dim
    # As torch's recurrent layers do without batch_first.
    if inputs.dim() == 3 and len(scores) == inputs.shape[other]:
        return f" A model that takes the samples on axis {other} needs batch_dim {other}."
    lowest = int(dataset.train.labels.min()) if labels.dim() == 1 else 0
    if lowest and scores.shape[1] == classes - lowest:
        return f" The training labels begin at {lowest}; class numbers count from 0."
    if config.model not in MODELS and len(scores) == inputs.shape[config.batch_dim]:
        return f" {TOLD_HOW_MANY.capitalize()}."
    return ""


def _can_step(model: nn.Module, dataset: Dataset, config: RunConfig, device: torch.device) -> bool:
    """Whether a copy of the model makes its way forward and back in training mode, as far as can be tried.

    Raises:
        ConfigError: trying it has broken CUDA.
    """
    twin = twin_of(model)
    return twin is None or _why_no_loss(twin, dataset.train, config, device, 2, back=True) is None


def twin_of(model: nn.Module) -> nn.Module | None:
    """A copy to try things with; `None` where there can be none."""
    try:
        return copy.deepcopy(model)
    except Exception:  # a tensor that was computed, a lock, no room: training needs no copy
        return None


def _why_no_loss(twin: nn.Module, split: Split, config: RunConfig, device: torch.device, count: int, *, back: bool) -> str | None:
    """What is wrong with a copy of the model and the first `count` samples, forward and, for `back`, backward; no room says nothing.

    Raises:
        ConfigError: trying it has broken CUDA.
    """
    try:
        inputs, labels = batch(split, slice(0, count), model_dtype(config), config.batch_dim)
        with untouched_random(device), torch.set_grad_enabled(back):
            with autocast(config, device):
                outputs = twin(inputs)
            loss = make_criterion(config)(outputs, labels)
            # Of a single sample the criterion takes scores without an axis for it, until it goes back.
            if config.loss in OF_CLASSES and (scores := logits(outputs)).dim() != labels.dim() + 1:
                return f"it gives {list(scores.shape)}"
            if back:
                loss.backward()
    except Interrupted:
        raise
    except (Exception, SystemExit) as error:  # whatever the model raises
        if breaks_cuda(error):
            raise ConfigError(f"model: {config.model!r} cannot be trained on {device}: {first_line(error)}.") from error
        return None if is_out_of_memory(error) else first_line_and_place(error)
    return None
