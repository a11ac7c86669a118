"""The models that read images row by row, and the ResNet."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import FakeControl, of, run, small_config
from torch import nn

from tuitrain.config import RECIPES, ConfigError, with_changes
from tuitrain.engine.datasets.samples import Split, batch
from tuitrain.engine.models import build_model
from tuitrain.engine.sequences import Rnn, Transformer
from tuitrain.engine.train import train
from tuitrain.events import Predictions, RunEnded, RunStarted
from tuitrain.recipes import load_recipe

needs_torchvision = pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is an extra")


def test_a_row_of_an_image_is_one_moment_of_the_sequence() -> None:
    images = torch.randint(256, (5, 32, 32, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    split = Split(images, torch.zeros(5, dtype=torch.int64), as_rows=True)
    first, _ = batch(split, slice(0, 4), torch.float64, 0)
    second, labels = batch(split, slice(0, 4), torch.float64, 1)
    assert (first.shape, second.shape, labels.shape) == ((4, 32, 96), (32, 4, 96), (4,))
    assert torch.equal(first.movedim(0, 1), second)
    # Row 7 of image 2: red, green and blue of its first pixel, then of its second.
    assert torch.equal(second[7, 2, :6] * 255, images[2, :, 7, :2].T.flatten().double())


@pytest.mark.parametrize("kind", [Rnn, Transformer])
def test_the_twins_learn_the_same(kind: Any) -> None:
    torch.manual_seed(0)
    model = kind(dropout=0.0, batch_first=False).double()
    twin = kind(dropout=0.0, batch_first=True).double()
    twin.load_state_dict(model.state_dict())
    inputs = torch.randn(32, 6, 96, dtype=torch.float64)
    assert model(inputs).shape == (6, 10)
    assert torch.allclose(model(inputs), twin(inputs.transpose(0, 1)), rtol=1e-9)
    # A sample's scores depend on that sample alone: the state of an RNN is not cut at the wrong axis.
    assert torch.allclose(model(inputs)[:2], model(inputs[:, :2]), rtol=1e-9)


@pytest.mark.parametrize(("kind", "count"), [(Rnn, 63_242), (Transformer, 153_610)])
def test_how_many_parameters_they_have(kind: Any, count: int) -> None:
    assert sum(parameter.numel() for parameter in kind(0.1, True).parameters()) == count
    assert f"{count:,} parameters with 10 classes" in kind.__doc__


def test_the_configuration_decides_dropout_and_batch_axis() -> None:
    for recipe, first in (("transformer", False), ("transformer-batch-first", True)):
        model = build_model(with_changes(load_recipe(recipe), {"dropout": 0.25}))
        assert isinstance(model, Transformer)
        assert model.batch_first is first
        assert {module.p for module in model.modules() if isinstance(module, nn.Dropout)} == {0.25}
    assert [load_recipe(name).dropout for name in ("rnn", "transformer")] == [0.0, 0.1]


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_torchvision) if name == "resnet18" else name for name in RECIPES])
def test_every_recipe_makes_a_step(tmp_path: Path, name: str) -> None:
    recipe = load_recipe(name)
    data = "random" if recipe.model == "linear" else "engine_small:make_large_images"
    events = run(with_changes(recipe, {"device": "cpu", "data": data, "batch_size": 4, "max_steps": 1}), FakeControl(tmp_path))
    assert of(RunEnded, events)[0].state == "finished"
    assert of(RunStarted, events)[0].recipe == name


def test_predictions_of_a_model_that_reads_rows_have_their_pictures(tmp_path: Path) -> None:
    config = small_config(model="rnn", batch_dim=1, data="engine_small:make_large_images", epochs=1)
    told = of(Predictions, run(config, FakeControl(tmp_path)))[0]
    assert [len(sample.image) for sample in told.samples] == [32 * 32 * 3] * 6


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "rnn", "data": "random"}, ["model: 'rnn' does not take inputs"]),
        ({"model": "rnn", "data": "engine_small:make_large_images", "augment": "crop-flip"}, ["augment", "images", "[32, 96]"]),
    ],
)
def test_what_is_no_sequence_of_rows_is_refused(tmp_path: Path, changes: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        list(train(small_config(**changes), FakeControl(tmp_path)))
    assert all(word in str(refusal.value) for word in words), refusal.value


@needs_torchvision
def test_the_resnet_has_a_stem_for_small_images() -> None:
    model = build_model(load_recipe("resnet18"))
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_173_962
    sizes: list[tuple[int, ...]] = []
    model.layer1.register_forward_hook(lambda module, inputs, output: sizes.append(tuple(output.shape)))
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert sizes == [(2, 64, 32, 32)]


@needs_torchvision
@pytest.mark.parametrize(("sample", "large"), [((3, 64, 80), False), ((3, 65, 65), True), ((), False)])
def test_large_images_get_torchvisions_resnet_as_it_is(sample: tuple[int, ...], large: bool) -> None:
    import torchvision

    model, whole = build_model(load_recipe("resnet18"), 10, sample), torchvision.models.resnet18(num_classes=10)
    shapes, wanted = ({name: value.shape for name, value in net.state_dict().items()} for net in (model, whole))
    assert (shapes == wanted) is large
    assert isinstance(model.maxpool, torch.nn.MaxPool2d) is large


def test_without_torchvision_the_resnet_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as refusal:
        build_model(load_recipe("resnet18"))
    assert str(refusal.value) == "model: resnet18 needs torchvision, which is not installed: pip install 'tuitrain[vision]'."
