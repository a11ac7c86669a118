"""Scores that the loss can be computed of, and makes little or nothing of."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from tuitrain.config import OF_CLASSES, RunConfig

TOLD_HOW_MANY = "a parameter num_classes of the function or class that makes it is told how many"
"""Where the scores of a person's own model are not as many as the classes."""
# Of what a sum of probabilities misses 1 by where half precision has rounded them.
_ROUNDED = 0.01
# So many times as many scores as there are classes are hardly meant: they are those of what a known network was made for.
_MANY = 2


def doubts(config: RunConfig, scores: Tensor, classes: int) -> Iterator[str]:
    """What a run is warned of, in sentences.

    Args:
        scores: [N, scores] or [N, scores, ...] as the untrained model gives them for some samples.
        classes: how many the data has.
    """
    if config.loss not in OF_CLASSES:
        return
    if (unfit := _not_for_the_loss(config, scores)) is not None:
        yield unfit
    # Of tokens a part of the data need not have those of a whole vocabulary.
    if scores.dim() == 2 and scores.shape[1] >= _MANY * classes:
        yield f"The model gives {scores.shape[1]:,} scores for each sample, and the data has {classes:,} classes; {TOLD_HOW_MANY}."


def _not_for_the_loss(config: RunConfig, scores: Tensor) -> str | None:
    """One sentence on scores that are not what `config.loss` is for.

    They are probabilities where `cross_entropy`, which puts a softmax before it, is to take them, or no logarithms of probabilities where
    `nll` is to.
    """
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
