"""What a model's forward call may take and give: tensors, alone or in nests. An exported script carries the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor


def tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor in a nest of tuples, lists and mappings, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)


def named_logits(outputs: Any) -> Tensor | None:
    """The `logits` of a mapping; `None` where there are none."""
    found = outputs.get("logits") if isinstance(outputs, Mapping) else None
    return found if isinstance(found, Tensor) else None


def logits(outputs: Any) -> Tensor:
    """What the loss is computed from: the `logits` of a mapping, else the first tensor of a model's output; bf16 and fp16 as float32.

    Raises:
        TypeError: there is none.
    """
    scores = outputs if isinstance(outputs, Tensor) else named_logits(outputs)
    if scores is None:
        scores = next(tensors(outputs), None)
    if scores is None:
        raise TypeError(f"the model returned a {type(outputs).__name__} without a tensor")
    return scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores


def class_scores(outputs: Any, labels: Tensor) -> Tensor:
    """`logits`, with the classes on the second axis, where torch has them: [N, C, ...] for labels [N, ...].

    Language models give [N, T, C]. Where that could be either, as in [N, T, T], it is taken for what torch has.
    """
    scores = logits(outputs)
    return scores.movedim(-1, 1) if has_classes_last(scores, labels) else scores


def has_classes_last(scores: Tensor, labels: Tensor) -> bool:
    """Whether the scores of each position are along the last axis, and not along the second one."""
    return labels.dim() > 1 and scores.shape[:-1] == labels.shape != scores.shape[:1] + scores.shape[2:]
