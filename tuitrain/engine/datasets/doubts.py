"""Data that can be trained on, and may not be what it was meant to be."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tuitrain.config import RunConfig
from tuitrain.engine.datasets.samples import Dataset, Split

_MANY = 8
"""So many samples of a class in the mean do not lie side by side by chance."""
_LOOKED_AT = 1000
"""So many of the first samples tell whether pixels were scaled."""
_SCALED = 32
"""Floats that were scaled stay below."""


def data_doubts(config: RunConfig, data: Dataset) -> Iterator[str]:
    """What is worth saying of data before it is trained on, in a sentence or two each."""
    inputs = data.train.inputs
    if data.kind == "custom" and inputs.dtype == torch.uint8 and inputs.dim() == 2 and data.train.packing is None:
        yield "The inputs are uint8, so they are divided by 255 as pixels are; as int64 the numbers of tokens stay what they are."
    if (most := _raw_pixels(data.train)) is not None:
        yield (
            f"The inputs look like pixels up to {most:g} as {inputs.dtype}, and floats are taken as they are: few networks learn from such "
            "numbers. Divide them by 255, or give uint8, which is."
        )
    if config.augment != "none" and not data.classes:
        yield f"augment={config.augment} moves and mirrors the images, and not what their labels may say of places in them."
    if data.train.labels.dim() > 1 or not data.classes:
        return
    if not config.shuffle and len(data.train) > config.batch_size and _lie_class_after_class(data.train):
        yield (
            "The training samples come class after class, and shuffle is false: a step sees one class, and the network forgets the others. "
            "With shuffle=true they are mixed."
        )
    if len(data.classes) == 1:
        yield f"The data has one class only, {data.classes[0]!r}: there is nothing to tell apart, and every answer is right."
    elif data.kind == "custom" and min(int(split.labels.min()) for split in data.splits) == 1:
        scores = f"The network has {len(data.classes)} scores, one of them for nothing."
        yield f"No sample is of class 0: labels count from 0, and these from 1. {scores}"


def _raw_pixels(split: Split) -> float | None:
    """The greatest of what seem to be pixels [N, C, H, W] that are floats and were not scaled; `None` where they are something else."""
    if not split.inputs.is_floating_point() or split.inputs.dim() != 4:
        return None
    first = split.inputs[:_LOOKED_AT].float()  # of types with 8 bits torch tells nothing
    least, most = map(float, torch.aminmax(first))
    return most if least >= 0 and _SCALED < most <= 255 and bool((first == first.round()).all()) else None


def _lie_class_after_class(split: Split) -> bool:
    labels = split.labels
    classes, stretches = len(torch.unique(labels)), 1 + int((labels[1:] != labels[:-1]).sum())
    return 1 < classes == stretches and len(labels) >= _MANY * classes
