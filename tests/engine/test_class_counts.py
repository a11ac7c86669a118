"""Data of more and of fewer than ten classes, and the built-in networks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from engine_small import STARTED, FakeControl, go_on, losses_of, of, run, small_config
from PIL import Image
from test_export_script import compare, executed, exported

from tuitrain.config import ConfigError, with_changes
from tuitrain.engine.export import script
from tuitrain.events import Notice, Predictions, Replicas, RunStarted

SEED_CNN = 145_578
"""Its parameters with ten classes; one class more is a row of 64 weights and a bias."""


def folder_of(root: Path, classes: int) -> str:
    for number in range(classes):
        for part in ("train", "test"):
            (root / part / f"class {number}").mkdir(parents=True)
            pixels = np.random.default_rng(number).integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / part / f"class {number}" / "1.png")
    return str(root)


@pytest.mark.parametrize("count", [2, 12])
def test_a_built_in_network_gives_a_score_for_each_class_of_a_folder(tmp_path: Path, count: int) -> None:
    config = small_config(data=folder_of(tmp_path / "images", count), model="seed-cnn", batch_size=2, device="cpu,cpu", epochs=1)
    events = run(config, FakeControl(tmp_path / "run"))
    assert of(RunStarted, events)[0].parameters == SEED_CNN + (count - 10) * 65
    assert [replica.output for replica in of(Replicas, events)[0].replicas] == [(1, count)] * 2
    assert len(of(Predictions, events)[-1].classes) == count


@pytest.mark.parametrize("count", [2, 12])
def test_its_script_does_too(tmp_path: Path, count: int) -> None:
    config = small_config(data=folder_of(tmp_path / "images", count), model="seed-cnn", precision="fp64", batch_size=2)
    text, losses, evals = exported(config, tmp_path / "run")
    compare(executed(text), losses, evals, 1e-9, 0.0)


@pytest.mark.parametrize("data", ["make_large_images", "make_large_floats_without_test"])
def test_it_takes_the_classes_of_ones_own_data(tmp_path: Path, data: str) -> None:
    text, losses, evals = exported(small_config(data=f"engine_small:{data}", model="seed-cnn", precision="fp64"), tmp_path)
    compare(executed(text), losses, evals, 1e-9, 0.0)


def test_ones_own_network_is_told_how_many_a_folder_has(tmp_path: Path) -> None:
    config = small_config(data=folder_of(tmp_path / "images", 12), model="engine_small:Told", precision="fp64", batch_size=2)
    text, losses, evals = exported(config, tmp_path / "run")
    assert "make_model(num_classes=len(classes))" in text
    compare(executed(text), losses, evals, 1e-9, 0.0)


def test_a_network_for_larger_images_than_those_of_a_folder_is_told_of_their_size(tmp_path: Path) -> None:
    config = small_config(data=folder_of(tmp_path / "images", 2), model="engine_small:make_large_net", batch_size=2)
    with pytest.raises(ConfigError, match=r"image_size is how many pixels high and wide the images become, and is 32 here\.$"):
        run(config, FakeControl(tmp_path / "run"))
    with pytest.raises(ConfigError, match=r"cannot be multiplied [^;]*\.$"):
        run(with_changes(config, {"image_size": 40}), FakeControl(tmp_path / "run"))


@pytest.mark.parametrize(("data", "count"), [("synthetic", 10), ("random", 2)])
def test_the_script_of_one_on_built_in_data_tells_it_the_number(data: str, count: int) -> None:
    started = msgspec.structs.replace(STARTED, data=data)
    text = script(small_config(data=data, model="engine_small:Told"), started, {"model_called_with": "num_classes"})
    assert f"model = make_model(num_classes={count})" in text


def test_a_run_of_twelve_classes_goes_on(tmp_path: Path) -> None:
    config = small_config(data=folder_of(tmp_path / "images", 12), model="seed-cnn", batch_size=2, momentum=0.9, epochs=2)
    whole = losses_of(run(config, FakeControl(tmp_path / "whole")))
    run(with_changes(config, {"epochs": 1}), FakeControl(tmp_path / "parted"))
    rest = losses_of(go_on(config, FakeControl(tmp_path / "parted")))
    assert rest == {step: loss for step, loss in whole.items() if step > 6}


def test_a_folder_may_be_named_as_a_function_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of(tmp_path / "images:v2", 2)
    monkeypatch.chdir(tmp_path)
    events = run(small_config(data="images:v2", model="seed-cnn", epochs=1), FakeControl(tmp_path / "run"))
    assert of(RunStarted, events)[0].data == "imagefolder"


def test_a_single_class_is_said_to_be_one(tmp_path: Path) -> None:
    config = small_config(data=folder_of(tmp_path / "images", 1), model="seed-cnn", epochs=1)
    said = [event.text for event in run(config, FakeControl(tmp_path / "run")) if isinstance(event, Notice) and event.level == "warning"]
    assert said == ["The data has one class only, 'class 0': there is nothing to tell apart, and every answer is right."]
