"""Images of a folder, brought to another size than CIFAR-10's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engine_small
import numpy as np
import pytest
from engine_small import FakeControl, of, run, small_config
from PIL import Image
from test_export_script import compare, executed, exported
from test_sequences import needs_torchvision
from torch import nn

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine import data
from tuitrain.engine.check import check
from tuitrain.engine.data import Dataset, load_data
from tuitrain.engine.datasets import decode
from tuitrain.engine.datasets.folder_contents import mixing_key
from tuitrain.engine.export import script
from tuitrain.events import Event, Notice, Predictions, Replicas
from tuitrain.paths import CIFAR10_BATCHES


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes with images of several sizes, one of them 48x48."""
    dice = np.random.default_rng(0)
    for part, count in (("train", 5), ("test", 3)):
        for name in ("cat", "dog"):
            (tmp_path / "pets" / part / name).mkdir(parents=True)
            for number in range(count):
                size = ((48, 48), (60, 50), (20, 30))[number % 3]
                pixels = dice.integers(0, 256, (*size, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "pets" / part / name / f"{number}.png")
    return tmp_path / "pets"


@pytest.fixture
def _net(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(config: Any) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3, stride=8), nn.Flatten(), nn.Linear(144, 2))  # for images of 48x48 alone

    monkeypatch.setattr(engine_small, "make_for_48", make, raising=False)


def loaded(folder: Path, size: int) -> tuple[Dataset, list[Event]]:
    events: list[Event] = []
    loading = load_data(RunConfig(data=str(folder), image_size=size, model="resnet18"), lambda: False)
    while True:
        try:
            events.append(next(loading))
        except StopIteration as end:
            return end.value, events


def test_images_have_the_size_that_is_asked_for(folder: Path) -> None:
    dataset, events = loaded(folder, 48)
    paths = sorted((path.relative_to(folder).as_posix() for path in folder.glob("train/*/*")), key=mixing_key)
    assert dataset.train.inputs.shape == (10, 3, 48, 48)
    for path, image in zip(paths, dataset.train.inputs, strict=True):
        expected = Image.open(folder / path).resize((48, 48), Image.Resampling.BILINEAR)
        assert np.array_equal(image.permute(1, 2, 0).numpy(), np.asarray(expected)), path
    assert [event.text for event in events if isinstance(event, Notice)] == ["10 images resized to 48×48."]


def test_each_size_is_kept_for_the_next_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {size: loaded(folder, size)[0].train.inputs.shape for size in (48, 32, 64)}

    def never(*given: Any) -> Any:
        raise AssertionError("decoded again")

    monkeypatch.setattr(decode, "decode_image", never)
    assert {size: loaded(folder, size)[0].train.inputs.shape for size in (64, 32, 48)} == shapes
    (folder / "train" / "cat" / "0.png").unlink()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
    assert len(loaded(folder, 48)[0].train) == 9
    assert len(list((folder.parent / "cache" / "tuitrain" / "decoded").iterdir())) == 3, "of each size only the newest"


@pytest.mark.usefixtures("_net")
def test_a_run_trains_with_them_and_shows_them(folder: Path, tmp_path: Path) -> None:
    config = small_config(data=str(folder), model="engine_small:make_for_48", image_size=48, batch_size=5)
    check(config)
    events = run(config, FakeControl(tmp_path / "run"))
    assert of(Replicas, events)[0].replicas[0].input == (5, 3, 48, 48)
    told = of(Predictions, events)[-1].samples
    assert len({one.image for one in told}) == len(told) == 6
    assert {len(one.image) for one in told} == {32 * 32 * 3}


@pytest.mark.usefixtures("_net")
def test_as_a_script(folder: Path, tmp_path: Path) -> None:
    config = small_config(data=str(folder), model="engine_small:make_for_48", image_size=48, batch_size=4, precision="fp64")
    text, losses, evals = exported(config, tmp_path / "run")
    compare(executed(text), losses, evals, 1e-9, 0.0)


@needs_torchvision
def test_the_resnet_of_large_images_as_a_script(folder: Path, tmp_path: Path) -> None:
    config = small_config(data=str(folder), model="resnet18", image_size=72, batch_size=5, max_steps=2, precision="fp64")
    text, losses, evals = exported(config, tmp_path / "run")
    assert all("model = resnet18(large=True, num_classes=" in one for one in (text, script(config))), "before the first run too"
    compare(executed(text), losses, evals, 1e-9, 0.0)


def test_the_resnet_of_small_images_as_a_script(folder: Path) -> None:
    assert "model = resnet18(num_classes=" in script(small_config(data=str(folder), model="resnet18", image_size=64))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"image_size": 64}, "image_size: 64 is for a folder of images, and data is auto; name a folder, or leave image_size out."),
        (
            {"image_size": 64, "data": "./pets", "model": "seed-cnn"},
            "image_size: 64 is not what the model seed-cnn takes, which is 32; resnet18 and models of your own take others.",
        ),
        ({"image_size": 7}, "image_size: 7 is not allowed; it must be a whole number from 8 to 1024."),
    ],
)
def test_what_it_does_not_go_with_is_a_sentence(changes: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        small_config(**({"data": "auto"} | changes))
    assert str(refused.value).replace("'7'", "7") == sentence


def test_data_that_is_no_folder_of_images_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ConfigError, match=r"^image_size: 48 is for a folder of images, or a Dataset of Pillow's, and engine_small:make_images is n"
    ):
        run(small_config(image_size=48), FakeControl(tmp_path / "run"))
    for name in CIFAR10_BATCHES:
        (tmp_path / name).touch()
    monkeypatch.setattr(data, "check_batches", lambda folder: None)
    with pytest.raises(ConfigError, match=r"^image_size: 48 is for a folder of images, and .* is none; leave image_size out\.$"):
        check(small_config(data=str(tmp_path), image_size=48))
