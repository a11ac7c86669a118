"""In which memory a model gets its weights and its images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import CLASSES, STARTED, FakeControl, LeNet, go_on, losses_of, make_large_images, of, run, small_config
from test_export_script import compare, executed, exported
from torch import nn

from tuitrain.config import ConfigError
from tuitrain.engine import prepare
from tuitrain.engine.check import check
from tuitrain.engine.export import script
from tuitrain.events import RunEnded

LENET = {"model": "engine_small:make_lenet", "data": "engine_small:make_large_images", "shuffle": True}
VIEWS = ["make_lenet", "make_view_of_inputs", "make_view_in_training", "make_view_in_backward"]


def ended(events: Any) -> RunEnded:
    return of(RunEnded, events)[-1]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
@pytest.mark.parametrize("model", VIEWS)
def test_a_view_that_asks_for_contiguous_memory_trains(tmp_path: Path, model: str, precision: str) -> None:
    control = FakeControl(tmp_path)
    events = run(small_config(**{**LENET, "model": f"engine_small:{model}", "precision": precision}), control)
    assert (ended(events).state, ended(events).error) == ("finished", None)


@pytest.mark.parametrize(
    "changes",
    [
        {"augment": "crop-flip"},
        {"augment": "flip-shift", "tta": True},
        {"precision": "bf16"},
        {"precision": "fp64"},
        {"device": "cpu,cpu"},
        {"data": "engine_small:make_large_floats"},
    ],
    ids=["crop", "shift", "bf16", "fp64", "split", "floats"],
)
def test_its_script_and_the_run_that_goes_on_do_the_same(tmp_path: Path, changes: Any) -> None:
    config = small_config(**{**LENET, "momentum": 0.9, **changes})
    text, losses, evals = exported(config, tmp_path / "whole")
    compare(executed(text), losses, evals, 1e-6, 0.1)
    assert "channels_last)" not in text.split("model, loss and optimizer")[1].split("training ---")[0]
    control = FakeControl(tmp_path / "parts", {1: ["stop"]})
    first = run(config, control)
    assert ended(first).state == "stopped"
    rest = go_on(config, FakeControl(tmp_path / "parts"))
    assert losses_of(first) | losses_of(rest) == losses


@pytest.mark.parametrize("model", ["engine_small:make_lenet", "seed-cnn"])
def test_a_script_of_a_model_that_nobody_has_tried_says_what_may_be_refused(model: str) -> None:
    config, said = small_config(**{**LENET, "model": model}), ".view() after a convolution may be refused; .reshape() does the same"
    assert (said in script(config, STARTED)) == (model != "seed-cnn")
    assert said not in script(config, STARTED, {"torch": "2.6"})


def test_its_losses_are_those_of_a_plain_script(tmp_path: Path) -> None:
    config = small_config(**{**LENET, "shuffle": False})
    events = run(config, FakeControl(tmp_path))
    torch.manual_seed(config.seed)
    model = LeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
    (inputs, labels), _ = make_large_images(config)
    losses = []
    for _ in range(config.epochs):
        for images, truth in zip((inputs / 255).split(8), labels.split(8), strict=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.contiguous()), truth)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert list(losses_of(events).values()) == losses


def test_other_models_keep_channels_last(tmp_path: Path) -> None:
    for model in ("make_net", "make_in_place", "make_chance", "make_mapping"):
        control = FakeControl(tmp_path / model)
        run(small_config(model=f"engine_small:{model}"), control)
        assert "memory_format" not in control.environment


def test_a_view_of_the_wrong_size_is_told_its_size(tmp_path: Path) -> None:
    config = small_config(model="engine_small:make_view_of_inputs")
    with pytest.raises(ConfigError, match=r"does not take inputs \[2, 3, 8, 8\].*mat1 and mat2 shapes cannot be multiplied"):
        run(config, FakeControl(tmp_path))


def test_it_may_wait_in_the_queue() -> None:
    check(small_config(model="engine_small:make_lenet", data="synthetic"))


class Deep(nn.Module):
    """Looks at the colours of an image as at layers, which takes weights with five axes beside those with four."""

    def __init__(self) -> None:
        super().__init__()
        self.flat, self.deep, self.layer = nn.Conv2d(3, 4, 3), nn.Conv3d(1, 2, 3), nn.Linear(2, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layer(self.deep(self.flat(inputs)[:, None]).mean((2, 3, 4)))
        return scores


def make_deep(config: Any) -> nn.Module:
    return Deep()


def test_weights_with_five_axes_stay_as_they_are_and_those_with_four_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[Any] = []
    prepared = prepare.copies
    monkeypatch.setattr(prepare, "copies", lambda config, model, devices: models.append(model) or prepared(config, model, devices))
    assert ended(run(small_config(model="test_memory_format:make_deep"), FakeControl(tmp_path))).state == "finished"
    assert models[0].flat.weight.is_contiguous(memory_format=torch.channels_last)
    assert models[0].deep.weight.is_contiguous()


def test_the_script_of_a_model_with_weights_of_five_axes_does_the_same(tmp_path: Path) -> None:
    text, losses, evals = exported(small_config(model="test_memory_format:make_deep"), tmp_path)
    compare(executed(text), losses, evals, 1e-6, 0.1)
