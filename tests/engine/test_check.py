"""What is said against a run before its turn has come, without decoding or downloading anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import small_config
from PIL import Image

from tuitrain.config import RECIPES, ConfigError, with_changes
from tuitrain.engine import data
from tuitrain.engine.check import check
from tuitrain.paths import CIFAR10_BATCHES
from tuitrain.recipes import load_recipe


@pytest.fixture(autouse=True)
def _nothing_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any) -> Any:
        raise AssertionError("the data was loaded")

    for name in ("read_cifar10", "fetch_cifar10", "load_imagefolder", "load_custom", "synthetic_images"):
        monkeypatch.setattr(data, name, never)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def refusal(**changes: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        check(small_config(**changes))
    return str(refused.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes with an image each in both parts; the images are none."""
    root = tmp_path / "pets"
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            (root / part / name).mkdir(parents=True)
            (root / part / name / "1.png").write_bytes(b"no image")
    return root


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "resnet18"])  # that one needs an extra
def test_nothing_speaks_against_the_recipes(recipe: str) -> None:
    check(with_changes(load_recipe(recipe), {"device": "cpu"}))


@pytest.mark.parametrize("model", ["seed-cnn", "rnn", "engine_small:make_images_net"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_what_fits_is_taken(folder: Path, monkeypatch: pytest.MonkeyPatch, model: str, precision: str) -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 2))
    monkeypatch.setattr("engine_small.make_images_net", lambda config: net, raising=False)
    check(small_config(model=model, data=str(folder), precision=precision))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "seed-cnn", "data": "random"}, "model: 'seed-cnn' does not take inputs [2, 5] of the data 'random'"),
        ({"model": "linear", "data": "cifar10"}, "model: 'linear' does not take inputs [2, 3, 32, 32] of the data 'cifar10'"),
        ({"model": "linear", "data": "auto"}, "model: 'linear' does not take inputs [2, 3, 32, 32] of the data 'synthetic'"),
        (
            {"model": "engine_small:make_log_net", "data": "synthetic"},
            "model: 'engine_small:make_log_net' does not take inputs [2, 3, 32, 32]",
        ),
        ({"model": "linear", "data": "random", "augment": "crop-flip"}, "augment: crop-flip is for images; a sample of random is [5]"),
        ({"model": "linear", "data": "random", "target_accuracy": 0.9}, "target_accuracy: 0.9 is of test data, and random has none"),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_refused(changes: dict[str, Any], words: str) -> None:
    assert words in refusal(**changes)


def test_a_folder_that_cannot_be_trained_on_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "is empty; a folder of images holds train/<class>/ and test/<class>/ or val/<class>/" in refusal(
        model="seed-cnn", data=str(tmp_path / "empty")
    )
    assert "does not exist" in refusal(model="seed-cnn", data=str(tmp_path / "gone"))
    (folder / "test" / "dog" / "1.png").unlink()
    assert "holds no image" in refusal(model="seed-cnn", data=str(folder))
    batches = tmp_path / "cifar-10-batches-py"
    batches.mkdir()
    (batches / CIFAR10_BATCHES[0]).write_bytes(b"")
    assert "CIFAR-10 needs all of its six batches" in refusal(model="seed-cnn", data=str(tmp_path))


def test_built_in_networks_take_the_number_of_classes_from_a_folder_and_ones_own_must_have_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("train", "test"):
        for number in range(9):
            (folder / part / f"class{number}").mkdir()
            Image.new("RGB", (4, 4)).save(folder / part / f"class{number}" / "1.png")
    for model in ("seed-cnn", "rnn", "speedrun"):
        check(small_config(model=model, data=str(folder)))
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
    monkeypatch.setattr("engine_small.make_images_net", lambda config: net, raising=False)
    refused = refusal(model="engine_small:make_images_net", data=str(folder))
    assert "it must give [2, 11], one score for each of the 11 classes" in refused


def test_functions_of_a_persons_own_are_not_called_for_data(monkeypatch: pytest.MonkeyPatch) -> None:
    check(small_config())
    check(small_config(model="engine_small:Told"))
    assert "has no 'make_imagse'" in refusal(data="engine_small:make_imagse")


def test_a_persons_own_model_is_not_tried_on_the_cpu_in_the_place_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("tuitrain.engine.placement.cuda_count", lambda: 1)
    check(small_config(model="engine_small:make_net", data="synthetic", device="cuda:0"))
    assert "does not take inputs" in refusal(model="linear", data="synthetic", device="cuda:0")
