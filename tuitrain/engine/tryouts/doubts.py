"""Scores that the loss can be computed of, and makes nothing of."""

from __future__ import annotations

from torch import Tensor

from tuitrain.config import OF_CLASSES, RunConfig

# Of what a sum of probabilities misses 1 by where half precision has rounded them.
_ROUNDED = 0.01


def doubt(config: RunConfig, scores: Tensor) -> str | None:
    """One sentence on scores [N, classes] or [N, classes, ...] that are not what `config.loss` is for, as an untrained model gives them.

    They are probabilities where `cross_entropy`, which puts a softmax before it, is to take them, or no logarithms of probabilities where
    `nll` is to.
    """
    if config.loss not in OF_CLASSES:
        return None
    if config.loss == "nll":
        if _sum_to_one(scores.exp()):
            return None
        wanted = "The loss nll is for a model that ends in log_softmax, and the scores of this one are no logarithms of probabilities"
        return f"{wanted}: the loss means nothing so, and falls below 0. The loss cross_entropy is for such scores."
    if scores.dim() > 2 and len(set(scores.shape[1:])) == 1:
        shape = ", ".join(map(str, scores.shape[1:]))
        return (
            f"The scores [N, {shape}] could have the classes on the second axis or on the last one: the second is taken, as torch has it."
        )
    # Of a single class any softmax is 1.
    if scores.shape[1] == 1 or bool((scores < 0).any()) or not _sum_to_one(scores):
        return None
    return (
        "The model's scores look like probabilities: those of a sample sum to 1. The loss cross_entropy has a softmax of its own, "
        "and learns slowly through another one: leave that out of the model."
    )


def _sum_to_one(rows: Tensor) -> bool:
    return bool(((rows.sum(1) - 1).abs() < _ROUNDED).all())
