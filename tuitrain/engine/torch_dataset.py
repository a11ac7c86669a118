"""A torch `Dataset` of a person's own, read once into memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from tuitrain import words
from tuitrain.allowance import free_memory
from tuitrain.config import ConfigError
from tuitrain.engine.places import one_line
from tuitrain.engine.samples import Interrupted, special_kind
from tuitrain.events import Notice, Progress
from tuitrain.text import clean

_TOLD_SECONDS = 0.1
_READ_AGAIN = 16
"""About so many samples are read a second time: of images that are mirrored by chance, nearly always one is another one then."""


def is_readable(part: Any) -> bool:
    """Whether it is a `Dataset` whose samples have numbers."""
    return isinstance(part, Dataset) and not isinstance(part, IterableDataset)


def read(
    where: str, part: str, dataset: Any, ending: Callable[[], bool], check: Callable[[Tensor, Tensor], object]
) -> Generator[Notice | Progress, None, tuple[Tensor, Tensor]]:
    """The inputs [N, ...] and labels [N] or [N, ...] of a `Dataset` of (input, label).

    An input is a tensor, an array, or one of Pillow's images, which becomes bytes [C, H, W]; a label is a number, a
    tensor, an array, or an image of class numbers.

    Args:
        where: the beginning of a sentence about it.
        part: what its samples are for, "train" or "test".
        ending: asked now and then; `True` ends it.
        check: gets inputs and labels of the first sample alone, and raises where they cannot be trained with.

    Raises:
        ConfigError: a sample cannot be read or is not alike the others, or there is no memory for all of them.
        Interrupted: `ending` said so.
    """
    if type(dataset) is TensorDataset and len(dataset.tensors) == 2:
        inputs, labels = dataset.tensors
        return inputs, labels
    samples = _Samples(f"{where}: {part} sample", dataset)
    count = samples.count(f"{where}: the {part} part")
    first, label = samples.get(0)
    check(first[None], label[None])
    inputs = _room_for(count, first, f"{where}: the {count:,} {part} samples of {list(first.shape)}")
    labels = _room_for(count, label, f"{where}: the labels {list(label.shape)} of {count:,} {part} samples")
    told = 0.0
    for index in range(count):
        if (now := time.monotonic()) >= told + _TOLD_SECONDS:
            if ending():
                raise Interrupted
            told = now
            yield Progress(phase=f"reading the {part} samples", done=index, total=count, unit="samples")
        value, other = samples.get(index)
        if (value.shape, value.dtype) != (first.shape, first.dtype):
            raise ConfigError(f"{samples.unlike(index, value, first)}, as Resize and CenterCrop make images.")
        if (other.shape, other.dtype) != (label.shape, label.dtype):
            raise ConfigError(f"{samples.unlike(index, other, label, 'has a label that ')}.")
        inputs[index], labels[index] = value, other
    yield Progress(phase=f"reading the {part} samples", done=count, total=count, unit="samples")
    if any(not torch.equal(samples.get(index)[0], inputs[index]) for index in range(0, count, max(1, count // _READ_AGAIN))):
        yield Notice(level="warning", text=_DRAWN_ONCE.format(part=part))
    return inputs, labels


_DRAWN_ONCE = (
    "The {part} samples are not the same each time that they are read, as where they are augmented at random. Each was read once, and is "
    "the same in every epoch; `augment` draws anew in each step."
)


def class_names(part: Any) -> tuple[str, ...]:
    """What a `Dataset` calls its classes, as torchvision's do, in order of their numbers; of a subset, what the whole calls them."""
    while isinstance(part, Subset):
        part = part.dataset
    try:
        names = getattr(part, "classes", None)
    except Exception:  # a property of theirs may do anything
        names = None
    named = isinstance(part, Dataset) and isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    return tuple(map(clean, names or ())) if named else ()


class _Samples:
    """The samples of a `Dataset`, each as two tensors."""

    def __init__(self, which: str, dataset: Any) -> None:
        self._which, self._dataset, self._kind = which, dataset, f"a {type(dataset).__name__}"

    def count(self, whole: str) -> int:
        """Raises: ConfigError: there are none, or it cannot say how many."""
        try:
            count = len(self._dataset)
        except BaseException as error:
            raise ConfigError(f"{whole}, {self._kind}, cannot say how many samples it has: {one_line(error)}.") from error
        if count < 1:
            raise ConfigError(f"{whole} is {self._kind} without a sample.")
        return count

    def get(self, index: int) -> tuple[Tensor, Tensor]:
        """Raises: ConfigError: it cannot be read, or is something else."""
        which = f"{self._which} {index:,}"
        try:
            sample = self._dataset[index]
        except BaseException as error:
            raise ConfigError(f"{which} raised {one_line(error)}.") from error
        if not isinstance(sample, (tuple, list)) or len(sample) != 2:
            count = f" of {len(sample)}" if isinstance(sample, (tuple, list)) else ""
            raise ConfigError(f"{which} is a {type(sample).__name__}{count}; it must be (input, label).")
        value, label = sample
        try:
            return _ordinary(as_tensor(value).detach()), _label(label)
        except (TypeError, ValueError, RuntimeError) as error:
            kinds = "the input must be a tensor, an array or an image of bytes, and the label a number, a tensor, an array or an image"
            pair = f"({type(value).__name__}, {type(label).__name__})"
            raise ConfigError(f"{which} is {pair}, and {kinds} ({one_line(error)}).") from None

    def unlike(self, index: int, value: Tensor, first: Tensor, what: str = "") -> str:
        """What to say where a sample, or what it has, is not like the first one; without a full stop."""
        both = f"is {list(value.shape)} of {value.dtype}, and the first one {list(first.shape)} of {first.dtype}"
        return f"{self._which} {index:,} {what}{both}; they must be alike"


def as_tensor(value: Any) -> Tensor:
    """An input as a tensor; of an image its bytes [C, H, W]."""
    if not hasattr(value, "convert"):
        return torch.as_tensor(value)
    if value.mode[0] in "IF":
        raise TypeError(f"its pixels, of mode {value.mode}, are no bytes")
    pixels = np.array(value.convert("L" if value.mode in ("1", "L") else "RGB"))
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)


def _ordinary(tensor: Tensor) -> Tensor:
    """Raises: TypeError: it is sparse, nested or without values."""
    if special_kind(tensor):
        raise TypeError("it is a sparse, nested or meta tensor")
    return tensor


def _label(label: Any) -> Tensor:
    """A label as a tensor; of a single whole number whatever its type an int64 one without axes."""
    # An image of class numbers, as for segmentation: with a palette, its places there.
    found = torch.from_numpy(np.array(label)) if hasattr(label, "convert") else _ordinary(torch.as_tensor(label).detach())
    if found.numel() == 0:
        raise ValueError("the label is empty")
    if found.numel() == 1 and not found.is_floating_point():
        return torch.tensor(found.item())
    return found.cpu()


def _room_for(count: int, first: Tensor, what: str) -> Tensor:
    """An empty tensor for as many inputs like the first.

    Raises:
        ConfigError: there is no memory for them.
    """
    needed, free = count * first.numel() * first.element_size(), free_memory()
    if needed > free:
        raise ConfigError(f"{what} take {words.size(needed)} of memory, and {words.size(free)} are free; they must be smaller, or fewer.")
    is_image = first.dim() == 3 and first.dtype == torch.uint8
    layout = torch.channels_last if is_image else torch.contiguous_format
    return torch.empty((count, *first.shape), dtype=first.dtype, memory_format=layout)
