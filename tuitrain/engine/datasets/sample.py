"""What a single sample may be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

IGNORED = -100
"""The class number of a position that counts for nothing, as torch's losses of classes have it (`ignore_index`)."""


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


def is_whole(inputs: Tensor) -> bool:
    """Whether a model gets these as int64: whole numbers, such as those of tokens, and no images."""
    return inputs.dtype != torch.uint8 and not inputs.is_floating_point()


@dataclass(frozen=True)
class ImageFile:
    """An image by its path in the data folder ("train/cat/0001.jpg") and its class number."""

    name: str
    label: int
