"""Data in a file of NumPy's arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_small import FakeControl, go_on, losses_of, run, small_config
from loading import loaded, refused
from PIL import Image
from test_export_script import compare, executed, exported

from tuitrain.config import ConfigError
from tuitrain.engine import data
from tuitrain.engine.check import check
from tuitrain.engine.datasets import arrays, torch_dataset
from tuitrain.engine.export import script
from tuitrain.events import Notice

DICE = np.random.default_rng(0)


def pixels(*shape: int) -> Any:
    return DICE.integers(0, 256, shape, dtype=np.uint8)


def classes(count: int) -> Any:
    return np.arange(count) % 3


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """40 grey images with labels, and 12 to test with."""
    file = tmp_path / "digits.npz"
    np.savez(file, x_train=pixels(40, 28, 28), y_train=classes(40), x_test=pixels(12, 28, 28), y_test=classes(12))
    return file


@pytest.fixture
def points(tmp_path: Path) -> Path:
    """60 samples of five numbers, class after class."""
    file = tmp_path / "points.npz"
    np.savez(file, X=DICE.random((60, 5)), y=np.repeat([0, 1], 30))
    return file


def said(events: Any) -> str:
    return "\n".join(event.text for event in events if isinstance(event, Notice))


def test_images_of_bytes_are_brought_to_what_a_built_in_network_takes(digits: Path) -> None:
    dataset, events = loaded(digits)
    assert dataset.train.inputs.shape == (40, 3, 32, 32)
    with np.load(digits) as found:
        first = Image.fromarray(found["x_train"][0]).convert("RGB").resize((32, 32), Image.Resampling.BILINEAR)
    assert np.array_equal(dataset.train.inputs[0].permute(1, 2, 0).numpy(), np.asarray(first))
    assert dataset.test is not None
    assert (dataset.kind, dataset.source, len(dataset.test), dataset.classes) == ("custom", str(digits), 12, ("0", "1", "2"))
    assert "Data: of digits.npz x_train and y_train are trained with, and x_test and y_test tested with." in said(events)


def test_a_network_of_ones_own_gets_them_as_they_are(digits: Path) -> None:
    dataset, _ = loaded(digits, model="engine_small:make_net")
    with np.load(digits) as found:
        assert np.array_equal(dataset.train.inputs[:, 0].numpy(), found["x_train"])


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((4, 8, 8, 3), 3), ((4, 3, 8, 8), 3), ((4, 8, 8, 1), 1), ((4, 1, 8, 8), 1), ((4, 8, 8), 1)],
)
def test_colours_may_be_on_either_axis(tmp_path: Path, shape: tuple[int, ...], channels: int) -> None:
    images = pixels(*shape)
    np.savez(tmp_path / "d.npz", images_train=images, labels_train=classes(4), images_val=images, labels_val=classes(4))
    dataset, _ = loaded(tmp_path / "d.npz", model="engine_small:make_net")
    assert dataset.train.inputs.shape == (4, channels, 8, 8)
    in_order = torch.from_numpy(images).view(4, -1, 8, 8) if shape[-1] == 8 else torch.from_numpy(images).permute(0, 3, 1, 2)
    assert torch.equal(dataset.train.inputs, in_order[:, :channels])


@pytest.mark.parametrize("shape", [(4, 8, 8, 4), (4, 5, 8, 8), (4, 8)])
def test_other_bytes_are_no_images(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = pixels(*shape)
    np.savez(tmp_path / "d.npz", x_train=values, y_train=classes(4), x_test=values, y_test=classes(4))
    dataset, _ = loaded(tmp_path / "d.npz", model="engine_small:make_net")
    assert np.array_equal(dataset.train.inputs.numpy(), values)


def test_of_one_part_a_fifth_of_each_class_is_held_out(points: Path) -> None:
    dataset, events = loaded(points, model="linear")
    test = dataset.test
    assert test is not None
    assert (len(dataset.train), test.labels.bincount().tolist()) == (48, [6, 6])
    assert int((dataset.train.labels[1:] != dataset.train.labels[:-1]).sum()) > 10, "the classes are mixed"
    with np.load(points) as found:
        table = {tuple(row): label for row, label in zip(found["X"], found["y"], strict=True)}
    both = [(tuple(row.tolist()), int(label)) for split in dataset.splits for row, label in zip(split.inputs, split.labels, strict=True)]
    assert sorted(both) == sorted(table.items()), "each sample with its label, in one of the two"
    again = loaded(points, model="linear", seed=7)[0]
    assert torch.equal(again.train.inputs, dataset.train.inputs)
    assert "Data: of points.npz X and y are taken, a fifth of the samples to test with." in said(events)


@pytest.mark.parametrize("targets", [(60,), (60, 1), (60, 2)])
def test_of_numbers_a_fifth_of_all_is_held_out(tmp_path: Path, targets: tuple[int, ...]) -> None:
    np.savez(tmp_path / "d.npz", DICE.random((60, 5)), DICE.random(targets))
    dataset, _ = loaded(tmp_path / "d.npz", model="linear", loss="mse")
    assert dataset.test is not None
    assert dataset.train.labels.shape == (48, *targets[1:])
    assert len(dataset.test) == 12


def test_class_numbers_may_be_a_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", train_images=pixels(9, 8, 8), train_labels=classes(9)[:, None], ids=np.arange(9))
    dataset, events = loaded(tmp_path / "d.npz")
    assert dataset.train.labels.shape == (6,)
    assert "; left out: ids." in said(events)


@pytest.mark.parametrize(
    ("holds", "sentence"),
    [
        ({"x": np.array([{}, {}]), "y": classes(2)}, ": the array x cannot be read: ValueError: Object arrays"),
        ({"x": pixels(3, 5), "y": classes(2)}, " has x [3, 5] and y [2]; they must be as many inputs as labels, on the first axis."),
        ({"x": pixels(3, 5), "y": np.float32(1)}, " has x [3, 5] and y []; they must be as many inputs as labels, on the first axis."),
        ({"x": pixels(5, 5), "y": np.array(["cat"] * 5)}, "bytes, as numpy.unique(…, return_inverse=True)[1] makes them of words."),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_with_is_a_sentence(tmp_path: Path, holds: Any, sentence: str) -> None:
    np.savez(tmp_path / "d.npz", **holds)
    assert sentence in refused(tmp_path / "d.npz")


def test_a_damaged_file_is_a_sentence(digits: Path) -> None:
    whole = digits.read_bytes()
    digits.write_bytes(whole[:5000] + b"\xff" * 100 + whole[5100:])
    assert "the array x_train cannot be read: BadZipFile" in refused(digits)


def test_a_file_for_which_there_is_no_memory_is_not_read(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "free_memory", lambda: 40_000)
    assert refused(digits).endswith("digits.npz takes 41 KiB of memory, and 40 KiB are free; it must be smaller.")


def test_what_is_no_such_file_is_refused_before_it_waits(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", a=classes(2))
    with pytest.raises(ConfigError, match=r"d\.npz holds a; it must hold"):
        check(small_config(data=str(tmp_path / "d.npz")))


def test_its_script_makes_the_same_steps(digits: Path, points: Path, tmp_path: Path) -> None:
    for file, model in ((digits, "seed-cnn"), (points, "linear")):
        config = small_config(data=str(file), model=model, batch_size=5, max_steps=9, precision="fp64")
        text, losses, evals = exported(config, tmp_path / model)
        compare(executed(text), losses, evals, 1e-9, 0.0)
        compare(executed(script(config)), losses, evals, 1e-9, 0.0)


def test_a_run_goes_on_with_it_bit_for_bit(digits: Path, tmp_path: Path) -> None:
    config = small_config(data=str(digits), model="seed-cnn", shuffle=True)
    whole = losses_of(run(config, FakeControl(tmp_path / "whole")))
    first = FakeControl(tmp_path / "parts", {4: ["stop"]})
    begun = losses_of(run(config, first))
    assert 0 < len(begun) < len(whole)
    assert first.resolved is not None
    assert begun | losses_of(go_on(first.resolved, FakeControl(tmp_path / "parts"))) == whole


def test_processes_read_it_where_its_images_do_not_fit_in_memory(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config(data=str(digits), model="seed-cnn", max_steps=4)
    in_memory = losses_of(run(config, FakeControl(tmp_path / "in-memory")))
    monkeypatch.setattr(torch_dataset, "free_memory", lambda: 0)
    assert losses_of(run(config, FakeControl(tmp_path / "anew"))) == in_memory
    assert data.stand_in(config) is None
