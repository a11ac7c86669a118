"""What a single sample may be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

IGNORED = -100
"""The class number of a position that counts for nothing, as torch's losses of classes have it (`ignore_index`)."""


def type_name(tensor: Tensor) -> str:
    """What torch calls the type of its numbers, as "int64"."""
    return str(tensor.dtype).removeprefix("torch.")


def type_named(name: str) -> torch.dtype:
    """The type that `type_name` has named."""
    found: torch.dtype = getattr(torch, name)
    return found


def special_kind(tensor: Tensor) -> str | None:
    """What kind of tensor it is that no batch can be cut from; `None` for an ordinary one."""
    if tensor.is_nested:
        return "a nested"
    if tensor.is_meta:
        return "a meta"
    return None if tensor.layout == torch.strided else "a sparse"


def is_image(sample: Tensor) -> bool:
    """Whether a sample seems to be an image [C, H, W] of bytes, many of which are best in channels_last memory."""
    return sample.dim() == 3 and sample.dtype == torch.uint8


def is_one_hot(labels: Tensor) -> bool:
    """Whether labels are rows that are 1 once, and else 0."""
    if labels.dim() != 2 or labels.shape[1] < 2:
        return False
    return bool(((labels == 0) | (labels == 1)).all()) and bool((labels.sum(1) == 1).all())


def is_whole(inputs: Tensor) -> bool:
    """Whether a model gets these as int64: whole numbers, such as those of tokens, and no images."""
    return inputs.dtype != torch.uint8 and not inputs.is_floating_point()


def for_model(inputs: Tensor, dtype: torch.dtype, *, copy: bool) -> Tensor:
    """What a model gets of `inputs`: bytes divided by 255 in `dtype`, other whole numbers as int64, floats in `dtype`; whether something is
    so or not stays bool.

    Args:
        copy: it may not be in the memory of `inputs`, which a model may change in place.
    """
    if inputs.dtype == torch.uint8:
        return inputs / torch.tensor(255, dtype=dtype, device="cpu")  # one kernel on a GPU, too
    if inputs.dtype == torch.bool:
        return inputs.clone()
    return inputs.to(torch.int64 if is_whole(inputs) else dtype, copy=copy)


@dataclass(frozen=True)
class ImageFile:
    """An image by its path in the data folder ("train/cat/0001.jpg") and its class number."""

    name: str
    label: int
