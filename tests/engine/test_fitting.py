"""Pillow's images of a person's `Dataset`: which are brought to one size and to colours, in runs, by processes, and in scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_small import FakeControl, run, small_config
from loading import loaded
from PIL import Image
from test_export_script import compare, executed, executed_alone, exported
from torch import nn
from torch.utils.data import Dataset

from tuitrain.allowance import Allowance
from tuitrain.config import ConfigError
from tuitrain.events import Notice


class Pictures(Dataset[Any]):
    """Images of two classes, each of another size unless one is given."""

    def __init__(self, mode: str, size: tuple[int, int] | None = None) -> None:
        self._mode, self._size = mode, size

    def __len__(self) -> int:
        return 10

    def image(self, index: int) -> Image.Image:
        width, height = self._size or (20 + index, 40)
        pixels = np.random.default_rng(index).integers(0, 255, (height, width, 3), dtype=np.uint8)
        return Image.fromarray(pixels).convert(self._mode)

    def __getitem__(self, index: int) -> Any:
        return self.image(index), index % 2


class Outlines(Pictures):
    """With a class for each pixel."""

    def __getitem__(self, index: int) -> Any:
        return self.image(index), self.image(index).convert("1").convert("L").point(lambda value: value // 255)


def greys() -> Any:
    return Pictures("L", (28, 28)), Pictures("L")


def colours() -> Any:
    return Pictures("RGB"), None


def small_colours() -> Any:
    return Pictures("RGB", (12, 12)), Pictures("L", (32, 32))


def fitting() -> Any:
    return Pictures("RGB", (32, 32)), Pictures("RGB", (32, 32))


def outlines() -> Any:
    return Outlines("RGB", (16, 16))


def make_net() -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.LazyLinear(2))


def make_outline_net() -> nn.Module:
    return nn.Conv2d(3, 2, 1)


HERE = "test_fitting:"


def expected(image: Image.Image, side: int) -> torch.Tensor:
    """As the images of a folder are."""
    fitted = image.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(fitted)).permute(2, 0, 1)


@pytest.mark.parametrize(
    ("data", "changes", "side"),
    [
        ("greys", {"model": "seed-cnn"}, 32),
        ("greys", {"model": "resnet18"}, 32),
        ("greys", {"model": "transformer"}, 32),
        ("small_colours", {"model": "seed-cnn"}, 32),
        ("greys", {"model": "resnet18", "image_size": 48}, 48),
        ("colours", {"model": f"{HERE}make_net", "image_size": 24}, 24),
    ],
)
def test_a_size_that_is_wanted_is_what_all_images_get(data: str, changes: dict[str, Any], side: int) -> None:
    dataset, events = loaded(f"{HERE}{data}", **changes)
    for made, split in zip(globals()[data](), dataset.splits, strict=False):
        assert split.side == side
        for index, image in enumerate(split.inputs):
            assert torch.equal(image, expected(made.image(index), side))
    said = [f"Data: the images of {HERE}{data} become 32×32 in colours, as {changes['model']} takes them."]
    assert [event.text for event in events if isinstance(event, Notice)] == (said if side == 32 else [])


@pytest.mark.parametrize(
    ("data", "model", "shape"),
    [
        ("fitting", "seed-cnn", [3, 32, 32]),
        ("fitting", f"{HERE}make_net", [3, 32, 32]),
    ],
)
def test_others_stay_as_they_are(data: str, model: str, shape: list[int]) -> None:
    dataset, events = loaded(f"{HERE}{data}", model=model)
    assert dataset.train.side is None
    assert list(dataset.train.inputs.shape[1:]) == shape
    assert not [event for event in events if isinstance(event, Notice)]


def test_of_several_sizes_the_field_that_makes_one_is_named() -> None:
    alike = r"train sample 1 is \[3, 40, 21\] .* first one \[3, 40, 20\] .* they must be alike, as image_size makes all images\.$"
    with pytest.raises(ConfigError, match=alike):
        loaded(f"{HERE}colours", model="resnet18")


def test_labels_of_pixels_are_not_resized(tmp_path: Path) -> None:
    config = small_config(data=f"{HERE}outlines", model=f"{HERE}make_outline_net", image_size=8)
    labels = r"^image_size: 8 is for images, and not labels for each of their pixels, which test_fitting:outlines has; leave it out\.$"
    with pytest.raises(ConfigError, match=labels):
        run(config, FakeControl(tmp_path))


@pytest.mark.parametrize("changes", [{"data": "greys"}, {"data": "small_colours", "device": "cpu,cpu", "strategy": "split"}])
def test_a_script_makes_the_same_of_them(tmp_path: Path, changes: dict[str, Any]) -> None:
    config = small_config(**(changes | {"data": f"{HERE}{changes['data']}"}), model="seed-cnn", precision="fp64", batch_size=4)
    text, losses, evals = exported(config, tmp_path)
    assert len(evals) == config.epochs
    compare(executed(text), losses, evals, 1e-9, 0.0)


def test_processes_that_read_make_the_same_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of images that are mirrored by chance."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setattr(Allowance, "processors", lambda self: 2)
    text, losses, evals = exported(small_config(data="drawn_sets:make_images", model="seed-cnn", precision="fp64", batch_size=8), tmp_path)
    assert "def read(part" in text
    (output,) = executed_alone([text], tmp_path)
    compare(output, losses, evals, 1e-9, 0.0)
