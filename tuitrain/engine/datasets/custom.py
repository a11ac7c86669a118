"""Data from the person's own function, or a file of arrays."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuitrain.config import DEFAULTS, OF_CLASSES, ConfigError, RunConfig, written
from tuitrain.engine.datasets import torch_dataset
from tuitrain.engine.datasets.fitting import side_for
from tuitrain.engine.datasets.own_parts import PART, described, own_parts, way_out
from tuitrain.engine.datasets.packing import Packing, are_several
from tuitrain.engine.datasets.readers.wire import PartName
from tuitrain.engine.datasets.sample import IGNORED, is_one_hot, special_kind
from tuitrain.engine.datasets.samples import Dataset, Split, closed_on_failure
from tuitrain.engine.datasets.torch_beside import class_names
from tuitrain.engine.datasets.torch_samples import as_tensor, is_readable
from tuitrain.events import Notice, Progress

# A class number above this is a mistake (an identifier, a regression target), and a name for each would fill the memory.
MAX_CLASSES = 1_000_000


def load_custom(config: RunConfig, ending: Callable[[], bool]) -> Generator[Notice | Progress, None, Dataset]:
    """What the function named by `config.data` returns, or the file holds, checked; see `own_parts` for the ways in which it may.

    Each of the two parts is a pair `(inputs, labels)` of tensors or NumPy's arrays, and the second one `None` when there is no test set.
    Inputs [N, ...] are uint8 (divided by 255 for the model), other whole numbers (int64 for the model) or floats. Labels [N] or [N, ...]
    are whole numbers, class numbers from 0, for each sample or each of its positions; where `config.loss` is none of classes, they may be
    floats [N, ...]. Where a model takes several inputs they are a tuple or a dict of such. In the place of a pair may be a torch `Dataset`,
    see `torch_dataset.read`.

    Args:
        ending: asked now and then; `True` ends it.

    Raises:
        ConfigError: the function cannot be imported, raises, or returns something else; or the file cannot be read.
        Interrupted: `ending` said so.
    """
    parts = own_parts(config)
    if parts.said:
        yield Notice(text=parts.said)
    if parts.names == ("",):
        yield Notice(text=f"Data: {config.data} is one data set: all of it is trained with, and there is no test data.")
    if parts.of_loaders:
        as_the_run_says = f"batch_size is {config.batch_size:,} and shuffle {written(config.shuffle)}"
        yield Notice(text=f"Data: of the loaders of {config.data} the data sets are taken; the run cuts batches itself: {as_the_run_says}.")
    train, highest = yield from _split(config, "train", parts.train, ending, partial(side_for, config))
    if train.side is not None and config.image_size == DEFAULTS.image_size:
        yield Notice(text=f"Data: the images of {config.data} become {train.side}×{train.side} in colours, as {config.model} takes them.")
    test = None
    with closed_on_failure(train):
        if parts.test is not None:
            test, of_test = yield from _split(config, "test", parts.test, ending, lambda image: train.side)
            highest = max(highest, of_test)
    dataset = Dataset("custom", config.data, train, test, (), parts.names, parts.of_loaders)
    with closed_on_failure(dataset):
        _check_alike(f"data: {config.data!r}", train, test)
        dataset = replace(dataset, classes=_class_names(parts.train, train, highest))
    for split in dataset.splits:
        if split.readers is not None:
            split.readers.labels_are(split.labels.dtype, len(dataset.classes) or None)
    return dataset


def _check_alike(where: str, train: Split, test: Split | None) -> None:
    """Raises: ConfigError: the samples of the two differ in kind."""
    if test is not None and (test.inputs.shape[1:] != train.inputs.shape[1:] or test.packing != train.packing):
        shapes = f"{test.in_words()} and the train samples {train.in_words()}"
        raise ConfigError(f"{where}: the test samples have the shape {shapes}; they must be alike.")
    if test is not None and test.inputs.dtype != train.inputs.dtype:
        raise ConfigError(
            f"{where}: the test inputs are {test.inputs.dtype} and the train inputs {train.inputs.dtype}; they must be alike."
        )
    if test is not None and _kind(test.labels) != _kind(train.labels):
        raise ConfigError(
            f"{where}: the test labels are {_kind(test.labels)} and the train labels {_kind(train.labels)}; they must be alike."
        )


def _class_names(part: Any, train: Split, highest: int) -> tuple[str, ...]:
    """What `part` calls the classes that are there, up to the `highest`; their numbers where it names too few."""
    if train.labels.is_floating_point():
        return ()
    names = class_names(part)
    if len(names) <= highest:
        names = tuple(map(str, range(highest + 1)))
    # Of masks that are drawn at random, as parts of images are, others may have another class.
    return names if train.reads_labels else names[: highest + 1]


def _kind(labels: Tensor) -> str:
    """What a sample's labels are, in words."""
    shape = f" of the shape {list(labels.shape[1:])}" if labels.dim() > 1 else ""
    return f"{'numbers' if labels.is_floating_point() else 'class numbers'}{shape}"


def _split(
    config: RunConfig, part: PartName, pair: Any, ending: Callable[[], bool], side_for: Callable[[Any], int | None]
) -> Generator[Notice | Progress, None, tuple[Split, int]]:
    """A part, and the highest of its class numbers; -1 where its labels are none."""
    told, loss = f"data: {config.data!r}: the {part}", config.loss
    if is_readable(pair):
        of_samples = _OfSamples(told, loss, len(class_names(pair)) - 1)

        def check(inputs: Tensor, labels: Tensor) -> Callable[[Tensor], None] | None:
            return of_samples.begin(labels, _checked_inputs(told, inputs))

        found = yield from torch_dataset.read(config, part, pair, ending, check, side_for)
        if found.readers is not None:
            with closed_on_failure(found.readers):
                if found.labels.dim() > 1:
                    kept, highest = of_samples.like(found.labels), of_samples.highest
                else:
                    kept, highest = _checked_labels(told, found.labels, found.inputs, loss)
            return Split(found.inputs, kept, found.packing, side=found.side, readers=found.readers), highest
        kept, highest = _checked_labels(told, found.labels, found.inputs, loss)
        return Split(_checked_inputs(told, found.inputs), kept, found.packing, side=found.side), highest
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ConfigError(f"{told} part is {described(pair)}; it must be {PART}{way_out(pair)}.")
    inputs, labels = pair
    packing = None
    if are_several(inputs):
        packing, inputs = _packed(told, inputs)
    else:
        inputs = _checked_inputs(told, _tensor(f"{told} inputs", inputs))
    kept, highest = _checked_labels(told, _tensor(f"{told} labels", labels), inputs, loss)
    return Split(inputs, kept, packing), highest


def _packed(told: str, inputs: Any) -> tuple[Packing, Tensor]:
    """Several inputs [N, ...] of the samples as rows of bytes.

    Raises:
        ConfigError: one of them is something else, or they are not of as many samples.
    """
    found = inputs if isinstance(inputs, Mapping) else {f"inputs[{place}]": part for place, part in enumerate(inputs)}
    named = {name: _tensor(f"{told} {name}", part) for name, part in found.items()}
    for name, part in named.items():
        if part.dim() == 0 or part.numel() == 0 or part.is_complex():
            raise ConfigError(f"{told} {name} are {list(part.shape)} of {part.dtype}; they must be [N, ...] of numbers and not empty.")
    if len(set(map(len, named.values()))) > 1:
        each = ", ".join(f"{len(part):,} {name}" for name, part in named.items())
        raise ConfigError(f"{told} inputs are {each}; they must be as many.")
    parts = {name: _trainable(part) for name, part in named.items()}
    several = parts if isinstance(inputs, Mapping) else [*parts.values()]
    try:
        packing = Packing.of(several)
    except TypeError as error:
        raise ConfigError(f"{told} part: {error}.") from None
    return packing, packing.pack(several)


def _tensor(told: str, value: Any) -> Tensor:
    """A tensor as it is, or what an array is as a tensor, in the same memory where that can be.

    Raises:
        ConfigError: it is something else, or no batch can be cut from it.
    """
    if not isinstance(value, (Tensor, np.ndarray)):
        raise ConfigError(f"{told} are {described(value)}; they must be a torch tensor or a NumPy array, as numpy.asarray makes one.")
    try:
        tensor = as_tensor(value)
    except (TypeError, ValueError):
        are_words = isinstance(value, np.ndarray) and value.dtype.kind in "SU"
        way = ", as numpy.unique(…, return_inverse=True)[1] makes them of words" if are_words else ""
        wanted = f"they must be numbers in the order of this machine's bytes{way}"
        raise ConfigError(f"{told} are an array of {value.dtype}; {wanted}.") from None
    if kind := special_kind(tensor):
        raise ConfigError(f"{told} are {kind} tensor; they must be an ordinary one, with a value in each place.")
    return tensor


class _OfSamples:
    """Labels of a `Dataset` where they are not kept: looked at for the highest class number, unless classes have names.

    Attributes:
        highest: the highest so far, -1 where there was none yet.
    """

    def __init__(self, where: str, loss: str, highest_named: int) -> None:
        self._where, self._loss, self.highest = where, loss, highest_named
        self._named = highest_named >= 0
        self._first = torch.empty(0)

    def begin(self, first: Tensor, inputs: Tensor) -> Callable[[Tensor], None] | None:
        """Take those of the first sample, [1, ...]; what is to look at those of all, `None` where nobody has to."""
        self._first = _typed_labels(self._where, first, inputs, self._loss)
        if self._first.is_floating_point():
            return None
        _highest(self._where, self._first)
        return None if self._named else self._look

    def like(self, labels: Tensor) -> Tensor:
        """Those of the first sample in the shape of `labels`, without memory for the others."""
        if not self._first.is_floating_point() and self.highest < 0:
            raise ConfigError(_all_ignored(self._where))
        return self._first.expand(labels.shape)

    def _look(self, labels: Tensor) -> None:
        self.highest = max(self.highest, _highest(self._where, labels.to(torch.int64)))


def _checked_inputs(where: str, inputs: Tensor) -> Tensor:
    if inputs.dtype == torch.bool or inputs.dtype.is_complex:
        raise ConfigError(f"{where} inputs are {inputs.dtype}; they must be uint8, as images are, other whole numbers or floats.")
    if inputs.dim() < 2 or inputs.numel() == 0:
        raise ConfigError(f"{where} inputs have the shape {list(inputs.shape)}; they must be [N, ...] and not empty.")
    kept = _trainable(inputs)
    is_images = kept.dim() == 4 and kept.dtype == torch.uint8
    return kept.contiguous(memory_format=torch.channels_last) if is_images else kept.contiguous()


def _checked_labels(where: str, labels: Tensor, inputs: Tensor, loss: str) -> tuple[Tensor, int]:
    """The labels, and the highest of their class numbers; -1 where they are none."""
    typed = _typed_labels(where, labels, inputs, loss)
    if typed.is_floating_point():
        return typed, -1
    highest = _highest(where, typed)
    if highest < 0:
        raise ConfigError(_all_ignored(where))
    return typed, highest


def _typed_labels(where: str, labels: Tensor, inputs: Tensor, loss: str) -> Tensor:
    """Labels as floats or int64, whichever the loss takes."""
    if labels.dim() == 0 or len(labels) != len(inputs) or labels.numel() == 0:
        raise ConfigError(f"{where} labels have the shape {list(labels.shape)} for {len(inputs)} inputs; they must be [N] or [N, ...].")
    if labels.dtype.is_complex:
        raise ConfigError(f"{where} labels are {labels.dtype}; they must be whole numbers or floats.")
    plain = _trainable(labels)
    if loss in OF_CLASSES:
        _check_classes(where, labels, loss)
    elif loss == "mse" or plain.is_floating_point() or plain.dtype == torch.bool:
        return plain if plain.dtype in (torch.float32, torch.float64) else plain.float()
    # Of the larger unsigned types torch knows no minimum.
    return plain.to(torch.int64)


def _highest(where: str, labels: Tensor) -> int:
    """The highest class number of int64 labels, -1 where all positions count for nothing."""
    counted = labels if labels.dim() == 1 else labels[labels != IGNORED]
    if not len(counted):
        return -1
    lowest, highest = int(counted.min()), int(counted.max())
    if lowest < 0 or highest >= MAX_CLASSES:
        wrong = lowest if lowest < 0 else highest
        raise ConfigError(f"{where} labels hold {wrong}; they must be class numbers from 0 to {MAX_CLASSES - 1:,}.")
    return highest


def _all_ignored(where: str) -> str:
    return f"{where} labels are all {IGNORED}, which counts for nothing; they must be class numbers."


def _check_classes(where: str, labels: Tensor, loss: str) -> None:
    """Raises: ConfigError: they cannot be class numbers."""
    if labels.dtype.is_floating_point or labels.dtype == torch.bool:
        told = f"{where} labels are {labels.dtype}; they must be whole numbers, one class number a sample, for the loss {loss}"
        raise ConfigError(f"{told}{_way_to_classes(labels)}.")
    if labels.dim() == 2 and labels.shape[1] == 1:
        told = f"{where} labels have the shape {list(labels.shape)} for {len(labels)} inputs"
        raise ConfigError(f"{told}; they must be one number a sample, as labels.squeeze(1) makes them.")


def _way_to_classes(labels: Tensor) -> str:
    """What makes class numbers of labels that are none, or what else they are for, as the end of a sentence."""
    if is_one_hot(labels):
        return ", as labels.argmax(1) makes them of rows that are 1 once"
    whole = bool((labels == labels.long()).all()) and labels.shape[1:] in ((), (1,))
    way = f", as labels{'.squeeze(1)' if labels.dim() == 2 else ''}.long() makes them" if whole else ""
    return way if labels.dtype == torch.bool else f"{way}. To come near to numbers is what the loss mse is for"


def _trainable(tensor: Tensor) -> Tensor:
    """The tensor on the CPU, as one that backward may keep, also where it was made in inference mode."""
    kept = tensor.detach().cpu()
    return kept.clone() if kept.is_inference() else kept
