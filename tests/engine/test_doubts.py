"""Networks whose scores are not what the loss is for: they train, and a sentence says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import CLASSES, FakeControl, make_net, of, run, small_config
from torch import nn

from tuitrain.config import RECIPES, with_changes
from tuitrain.engine.models import build_model, takes_rows
from tuitrain.engine.tryouts.doubts import doubts
from tuitrain.events import Notice
from tuitrain.recipes import load_recipe

PROBABILITIES = (
    "The model's scores look like probabilities: those of a sample sum to 1. The loss cross_entropy has a softmax of its own, and learns "
    "slowly through another one: leave that out of the model."
)
NO_LOGARITHMS = (
    "The loss nll is for a model that ends in log_softmax, and the scores of this one are no logarithms of probabilities: the loss means "
    "nothing so, and falls below 0. The loss cross_entropy is for such scores."
)


def make_soft(config: Any) -> nn.Module:
    return nn.Sequential(make_net(config), nn.Softmax(1))


def make_soft_halves(config: Any) -> nn.Module:
    model = make_soft(config)
    model.register_forward_hook(lambda module, inputs, output: {"logits": output.half()})
    return model


@pytest.mark.parametrize(
    ("model", "loss", "said"),
    [
        ("test_doubts:make_soft", "cross_entropy", [PROBABILITIES]),
        ("test_doubts:make_soft_halves", "cross_entropy", [PROBABILITIES]),
        ("engine_small:make_net", "cross_entropy", []),
        ("engine_small:make_log_net", "cross_entropy", []),
        ("engine_small:make_log_net", "nll", []),
        ("engine_small:make_net", "nll", [NO_LOGARITHMS]),
        ("test_doubts:make_soft", "nll", [NO_LOGARITHMS]),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cpu,cpu"])
def test_what_a_run_says_of_the_scores(tmp_path: Path, model: str, loss: str, said: list[str], device: str) -> None:
    events = run(small_config(model=model, loss=loss, max_steps=1, device=device), FakeControl(tmp_path))
    assert [notice.text for notice in of(Notice, events) if notice.level == "warning"] == said


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "resnet18"])  # that one needs an extra
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_of_the_recipes(recipe: str, seed: int) -> None:
    config = with_changes(load_recipe(recipe), {"seed": seed})
    shape: tuple[int, ...] = (5,) if config.model == "linear" else (3, 32, 32)
    inputs = torch.rand(2, *shape)
    if takes_rows(config):
        inputs = inputs.reshape(2, 32, 96).movedim(0, config.batch_dim)
    assert list(doubts(config, build_model(config).eval()(inputs), 2 if config.model == "linear" else 10)) == []


def test_scores_that_tell_nothing_of_a_softmax() -> None:
    config = small_config()
    one = torch.ones(2, 1)
    missing = torch.full((2, CLASSES), torch.nan)
    zeros = torch.zeros(2, CLASSES)
    negative = torch.tensor([[2.0, -1.0], [0.5, 0.5]])
    assert [text for scores in (one, missing, zeros, negative) for text in doubts(config, scores, CLASSES)] == []


def test_twice_as_many_scores_as_there_are_classes_are_told_of() -> None:
    many = torch.randn(2, 1000)
    assert list(doubts(small_config(), many, 501)) == []
    assert list(doubts(small_config(loss="mse"), many, 10)) == []
    assert list(doubts(small_config(), torch.randn(2, 1000, 7), 10)) == []
    assert list(doubts(small_config(), many, 10)) == [
        "The model gives 1,000 scores for each sample, and the data has 10 classes; a parameter num_classes of the function or class that "
        "makes it is told how many."
    ]
