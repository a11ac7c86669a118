"""What a torch `Dataset` has beside its samples, as torchvision's have: names of classes, and the labels of all samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from tuitrain.text import clean

_LABELS = ("targets", "labels")
"""Where a `Dataset` has the class numbers of all its samples."""


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


def known_labels(dataset: Any, seen: Mapping[int, Tensor]) -> Tensor | None:
    """The class numbers [N] of all samples where a `Dataset` has them, and they are those of the samples that were `seen`; else `None`."""
    found = _labels(dataset)
    if found is None or not all(index < len(found) and torch.equal(found[index], label) for index, label in seen.items()):
        return None
    return found


def _labels(dataset: Any) -> Tensor | None:
    if isinstance(dataset, Subset):
        whole = _labels(dataset.dataset)
        return None if whole is None else whole[torch.as_tensor(dataset.indices)]
    for name in _LABELS:
        try:
            found = torch.as_tensor(getattr(dataset, name))
        except Exception:  # there is none, or what a person's own one has is something else
            continue
        if found.shape == (len(dataset),) and not found.is_floating_point():
            return found.to(torch.int64)
    return None
