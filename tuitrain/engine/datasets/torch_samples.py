"""A torch `Dataset` of a person's own, sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from tuitrain.config import ConfigError
from tuitrain.engine.datasets.packing import Packing, Several, are_several
from tuitrain.engine.datasets.sample import special_kind
from tuitrain.engine.places import one_line
from tuitrain.text import clean, first_few


def is_readable(part: Any) -> bool:
    """Whether it is a `Dataset` whose samples have numbers, or something that can be asked for them like one: Hugging Face's, or a list of
    more than three samples; fewer may be the parts of the data, or inputs and labels."""
    if isinstance(part, Dataset):
        return not isinstance(part, IterableDataset)
    if isinstance(part, list):
        return len(part) > 3 and all(isinstance(sample, Mapping) or (isinstance(sample, tuple) and len(sample) == 2) for sample in part)
    has_numbers = hasattr(type(part), "__getitem__") and hasattr(type(part), "__len__")
    return has_numbers and not (isinstance(part, (tuple, list, str, bytes, Mapping)) or hasattr(part, "__array__"))


class Samples:
    """The samples of a `Dataset`, each as two tensors.

    Args:
        packing: that of one that was read before, where it has several inputs.
        side: that of the images, where the first one was read before.

    Attributes:
        packing: how several inputs are in the first of the two; of the sample that was read first, and others must have it.
        side: to how many pixels, in height and in width, Pillow's images are brought; `None` where they stay as they are.
    """

    def __init__(self, which: str, dataset: Any, packing: Packing | None = None, side: int | None = None) -> None:
        self._which, self._dataset, self._kind = which, dataset, f"a {type(dataset).__name__}"
        self.packing, self.side = packing, side
        self._are_images = side is not None

    def count(self, whole: str) -> int:
        """Raises: ConfigError: there are none, or it cannot say how many."""
        try:
            count = len(self._dataset)
        except BaseException as error:
            raise ConfigError(f"{whole}, {self._kind}, cannot say how many samples it has: {one_line(error)}.") from error
        if count < 1:
            raise ConfigError(f"{whole} is {self._kind} without a sample.")
        return count

    def get(self, index: int, side_for: Callable[[Any], int | None] | None = None) -> tuple[Tensor, Tensor]:
        """Input and label of a sample.

        Args:
            side_for: of the first one that is read, which decides for all: gets it where it is one of Pillow's images, and gives `side`.

        Raises:
            ConfigError: it cannot be read, or is something else.
        """
        which = f"{self._which} {index:,}"
        try:
            sample = self._dataset[index]
        except BaseException as error:
            raise ConfigError(f"{which} raised {one_line(error)}.") from error
        try:
            value, label = pair(sample)
        except (TypeError, ValueError, AttributeError):
            raise ConfigError(f"{which} is {_described(sample)}; it must be (input, label), or a dict of `label` and its inputs.") from None
        try:
            if side_for is not None and hasattr(value, "convert"):
                self._are_images, self.side = True, side_for(value)
            inputs = self._packed(which, value) if are_several(value) else _ordinary(as_tensor(value, self.side).detach())
            return inputs, _label(label)
        except (TypeError, ValueError, RuntimeError) as error:
            kinds = "the input must be a tensor, an array or an image of bytes, and the label a number, a tensor, an array or an image"
            both = f"({type(value).__name__}, {type(label).__name__})"
            raise ConfigError(f"{which} is {both}, and {kinds} ({one_line(error)}).") from None

    def _packed(self, which: str, value: Any) -> Tensor:
        """Several inputs of a sample as a row of bytes.

        Raises:
            ConfigError: they are not like those of the first one.
            TypeError: one of them is no tensor, or has no name that a model could be called with.
        """
        several: Several
        if isinstance(value, Mapping):
            several = {name: _batched(name, part) for name, part in value.items()}
        else:
            several = [_batched(place, part) for place, part in enumerate(value)]
        packing = Packing.of(several)
        self.packing = self.packing or packing
        if packing != self.packing:
            both = f"{packing.in_words()}, and the first one {self.packing.in_words()}"
            raise ConfigError(f"{which} has the inputs {both}; they must be alike.")
        return packing.pack(several)[0]

    def alike(self, index: int, first: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """As `get`, of a sample whose input and label must be of the shapes and types of the first one's.

        Raises:
            ConfigError: they are not, or it cannot be read.
        """
        value, other = self.get(index)
        if (value.shape, value.dtype) != (first.shape, first.dtype):
            pillows = "image_size makes all images" if self._are_images else "Resize and CenterCrop make images"
            way = pillows if first.dim() == 3 else "padding makes texts"
            raise ConfigError(f"{self._unlike(index, value, first)}, as {way}.")
        if (other.shape, other.dtype) != (label.shape, label.dtype):
            raise ConfigError(f"{self._unlike(index, other, label, 'has a label that ')}.")
        return value, other

    def _unlike(self, index: int, value: Tensor, first: Tensor, what: str = "") -> str:
        both = f"is {list(value.shape)} of {value.dtype}, and the first one {list(first.shape)} of {first.dtype}"
        return f"{self._which} {index:,} {what}{both}; they must be alike"


def pair(sample: Any) -> tuple[Any, Any]:
    """Input and label of a sample; of a dict the label is its `label` or `labels`, and the input what else it has, several as a dict."""
    if isinstance(sample, (tuple, list)):
        value, label = sample
        return value, label
    (name,) = [name for name in ("label", "labels") if name in sample]
    rest = {other: value for other, value in sample.items() if other != name}
    first, *others = rest.values()
    return (rest if others else first), sample[name]


def as_tensor(value: Any, side: int | None = None) -> Tensor:
    """An input as a tensor; of an image its bytes [C, H, W], with `side` brought to [3, side, side]."""
    if isinstance(value, np.ndarray) and (not value.flags.writeable or min(value.strides, default=0) < 0):
        value = value.copy()  # torch cannot be in such memory
    if not hasattr(value, "convert"):
        return torch.as_tensor(value)
    if value.mode[0] in "IF":
        raise TypeError(f"its pixels, of mode {value.mode}, are no bytes")
    if side is not None:
        value = value.convert("RGB").resize((side, side), 2)  # bilinear, by Pillow's number
    pixels = np.array(value.convert("L" if value.mode in ("1", "L") else "RGB"))
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)


def _described(sample: Any) -> str:
    """A sample that is no pair, in words."""
    kind = f"a {type(sample).__name__}"
    if isinstance(sample, (tuple, list)):
        return f"{kind} of {len(sample)}"
    return f"{kind} of {clean(first_few(list(map(str, sample))))}" if isinstance(sample, Mapping) and sample else kind


def _batched(name: Any, part: Any) -> Tensor:
    """Raises: TypeError: it is nothing that a row could hold."""
    try:
        tensor = _ordinary(as_tensor(part).detach()).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"input {name!r}: {error}") from None
    if tensor.is_complex() or tensor.numel() == 0:
        raise TypeError(f"input {name!r} is {list(tensor.shape)} of {tensor.dtype}")
    return tensor[None]


def _ordinary(tensor: Tensor) -> Tensor:
    """Raises: TypeError: it is sparse, nested or without values."""
    if special_kind(tensor):
        raise TypeError("it is a sparse, nested or meta tensor")
    return tensor


def _label(label: Any) -> Tensor:
    """A label as a tensor; of a single whole number whatever its type an int64 one without axes."""
    if type(label) is int:
        return torch.tensor(label)
    # An image of class numbers, as for segmentation: with a palette, its places there.
    found = torch.from_numpy(np.array(label)) if hasattr(label, "convert") else _ordinary(torch.as_tensor(label).detach())
    if found.numel() == 0:
        raise ValueError("the label is empty")
    if found.numel() == 1 and not found.is_floating_point():
        return torch.tensor(found.item())
    return found.cpu()
