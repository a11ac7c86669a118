"""What a data set has beside its samples, as torchvision's and Hugging Face's have: names of classes, and the labels of all samples."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Subset

from tuitrain.text import clean

_COLUMNS = ("label", "labels")
"""What the label is called where a sample is a dict, see `torch_samples.pair`."""


def class_names(part: Any) -> tuple[str, ...]:
    """What a data set calls its classes, in order of their numbers; of a subset, what the whole calls them. Empty where it does not."""
    while isinstance(part, Subset):
        part = part.dataset
    for find in (attrgetter("classes"), _names_of_labels):
        try:
            names = find(part)
        except Exception:  # there are none, or a property of theirs does anything
            continue
        if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
            return tuple(map(clean, names))
    return ()


def known_labels(dataset: Any, seen: Mapping[int, Tensor]) -> Tensor | None:
    """The class numbers [N] of all samples where a data set has them, and they are those of the samples that were `seen`; else `None`."""
    found = _labels(dataset)
    if found is None or not all(index < len(found) and torch.equal(found[index], label) for index, label in seen.items()):
        return None
    return found


def _labels(dataset: Any) -> Tensor | None:
    if isinstance(dataset, Subset):
        whole = _labels(dataset.dataset)
        return None if whole is None else whole[torch.as_tensor(dataset.indices)]
    for find in (attrgetter("targets"), attrgetter("labels"), _label_column):
        try:
            found = torch.as_tensor(find(dataset))
        except Exception:  # there is none, or what a person's own one has is something else
            continue
        if found.shape == (len(dataset),) and not found.is_floating_point():
            return found.to(torch.int64)
    return None


def _names_of_labels(dataset: Any) -> Any:
    """As Hugging Face's have them."""
    return next(dataset.features[name].names for name in _COLUMNS if name in dataset.features)


def _label_column(dataset: Any) -> Any:
    """As Hugging Face's have them."""
    return next(dataset[name][:] for name in _COLUMNS if name in dataset.column_names)
