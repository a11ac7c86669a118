"""Data functions that return torch's data sets: what is read, what is refused, and what an exported script makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from engine_small import FakeControl, of, run, small_config
from PIL import Image
from test_export_script import compare, executed, exported
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from tuitrain import allowance
from tuitrain.config import ConfigError
from tuitrain.engine.control import Interrupted
from tuitrain.engine.data import load_data
from tuitrain.engine.datasets import torch_dataset
from tuitrain.engine.datasets.samples import Dataset as Loaded
from tuitrain.engine.datasets.torch_samples import as_tensor
from tuitrain.events import Event, Notice, Predictions, Progress, Replicas

CLASSES = ["cat", "dog", "bird"]


class Pets(Dataset[Any]):
    """Images of three classes, taken in turn, that tell by their colour which."""

    classes: Any = CLASSES

    def __init__(self, count: int, mode: str = "RGB") -> None:
        self._count, self._mode = count, mode

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        if index >= self._count:
            raise IndexError
        pixels = np.random.default_rng(index).integers(0, 100, (32, 32, 3), dtype=np.uint8)
        pixels[..., index % 3] += 100
        return Image.fromarray(pixels).convert(self._mode), index % 3


class Changed(Dataset[Any]):
    """Pets of which some samples are something else."""

    def __init__(self, change: Callable[[int, Any, Any], Any], count: int = 6) -> None:
        self._change, self._pets = change, Pets(count)

    def __len__(self) -> int:
        return len(self._pets)

    def __getitem__(self, index: int) -> Any:
        return self._change(index, *self._pets[index])


class Columns:
    """Pets as Hugging Face's library would have them: no torch `Dataset`, and each sample a dict."""

    def __init__(self, count: int, label: str = "label", names: Any = CLASSES) -> None:
        self._label, self._pets = label, Pets(count)
        self.features = {"image": object(), label: SimpleNamespace(names=names)}

    def __len__(self) -> int:
        return len(self._pets)

    def __getitem__(self, index: int) -> dict[str, Any]:
        image, label = self._pets[index]
        return {"image": image, self._label: label}


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from ()


PARTS: dict[str, Any] = {}


def make_data() -> Any:
    return PARTS["train"], PARTS["test"]


def make_pets() -> Any:
    return Pets(50), Pets(20)


def make_columns() -> Any:
    return Columns(50), Columns(20, "labels")


def make_net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 3))


def loaded(train: Any, test: Any = None, ending: Callable[[], bool] = lambda: False) -> tuple[Loaded, list[Event]]:
    PARTS.update(train=train, test=test)
    steps, events = load_data(small_config(data="test_torch_dataset:make_data"), ending), list[Event]()
    try:
        while True:
            events.append(next(steps))
    except StopIteration as end:
        return end.value, events


def refused(train: Any, test: Any = None) -> str:
    with pytest.raises(ConfigError) as error:
        loaded(train, test)
    return str(error.value)


def test_images_become_bytes_and_classes_have_their_names() -> None:
    data, events = loaded(Pets(7), Subset(Pets(20), range(3, 9)))
    assert data.train.inputs.shape == (7, 3, 32, 32)
    assert data.train.inputs.dtype == torch.uint8
    assert data.train.inputs.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(data.train.inputs[5], torch.from_numpy(np.array(Pets(7)[5][0])).permute(2, 0, 1))
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert data.test is not None
    assert data.test.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.classes == ("cat", "dog", "bird")
    assert of(Notice, events) == []
    assert of(Progress, events)[-1] == Progress(phase="reading the test samples", done=6, total=6, unit="samples")


@pytest.mark.parametrize("label", ["label", "labels"])
def test_samples_may_be_dicts_of_anything_that_has_numbers(label: str) -> None:
    columns, pairs = loaded(Columns(7, label), Subset(Columns(9, label), [2, 3]))[0], loaded(Pets(7))[0]
    assert torch.equal(columns.train.inputs, pairs.train.inputs)
    assert torch.equal(columns.train.labels, pairs.train.labels)
    assert columns.classes == ("cat", "dog", "bird")
    assert columns.test is not None
    assert columns.test.labels.tolist() == [2, 0]


@pytest.mark.parametrize("names", [["cat", "dog"], "cat", None])
def test_names_of_columns_that_do_not_fit_are_left_alone(names: Any) -> None:
    assert loaded(Columns(6, names=names))[0].classes == ("0", "1", "2")


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("1", 1), ("RGB", 3), ("P", 3), ("RGBA", 3), ("CMYK", 3)])
def test_images_of_every_mode_have_one_channel_or_three(mode: str, channels: int) -> None:
    assert loaded(Pets(3, mode))[0].train.inputs.shape == (3, channels, 32, 32)


@pytest.mark.parametrize("kind", [torch.tensor, np.array, list])
def test_inputs_of_numbers_are_taken_as_they_are(kind: Callable[[list[float]], Any]) -> None:
    data = loaded(Changed(lambda index, image, label: (kind([index / 2, 1.0]), label)))[0]
    assert data.train.inputs.tolist() == [[index / 2, 1.0] for index in range(6)]


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, torch.tensor, lambda label: torch.tensor([label])])
def test_labels_of_every_kind_of_number(kind: Callable[[int], Any]) -> None:
    assert loaded(Changed(lambda index, image, label: (image, kind(label))))[0].train.labels.tolist() == [0, 1, 2] * 2


def test_a_tensor_dataset_is_taken_without_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(TensorDataset, "__getitem__")
    inputs = torch.randn(20, 4)
    data, events = loaded(TensorDataset(inputs, torch.arange(20) % 3))
    assert data.train.inputs is inputs or data.train.inputs.data_ptr() == inputs.data_ptr()
    assert data.classes == ("0", "1", "2")
    assert of(Progress, events) == [Progress(phase="calling test_torch_dataset:make_data")]


def test_a_part_of_each_kind_goes_together() -> None:
    pair = (torch.zeros(4, 3, 32, 32, dtype=torch.uint8), torch.tensor([0, 1, 2, 3]))
    data, _ = loaded(ConcatDataset([Pets(4), Pets(5)]), pair)
    assert len(data.train) == 9
    assert data.classes == ("0", "1", "2", "3")


@pytest.mark.parametrize("names", [["cat", "dog"], "cat", [1, 2, 3], None])
def test_names_that_do_not_fit_are_left_alone(names: Any) -> None:
    pets = Pets(6)
    pets.classes = names
    assert loaded(pets)[0].classes == ("0", "1", "2")


def test_names_are_cleaned_and_as_many_as_there_are_classes() -> None:
    pets = Pets(6)
    pets.classes = ["c\x1bat", "dog", "bird", "of a sample that is not here"]
    assert loaded(pets)[0].classes == ("c·at", "dog", "bird")


def one(index: int, bad: Any, good: Any) -> Any:
    return bad if index == 4 else good


def failing(index: int, image: Any, label: Any) -> Any:
    if index == 4:
        raise FileNotFoundError("cat.png is not there")
    return image, label


NO_DATA = [(3, "a int"), ({"x": 1}, "a dict"), ("some", "a str"), (np.zeros((3, 2)), "a ndarray"), (torch.zeros(3, 2), "a Tensor")]
BEGINNING = "data: 'test_torch_dataset:make_data'"


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (Changed(failing), "train sample 4 raised FileNotFoundError: cat.png is not there (test_torch_dataset.py, line "),
        (Changed(lambda index, *pair: one(index, (*pair, 1), pair)), "train sample 4 is a tuple of 3; it must be (input, label), or"),
        (Changed(lambda index, *pair: {}), "train sample 0 is a dict; it must be (input, label), or a dict of `label` and its"),
        (Changed(lambda index, *pair: {"x": 1}), "train sample 0 is a dict of x; it must be (input, label), or a dict of"),
        (
            Changed(lambda index, *pair: {"ids": [1], "\x1bmask": [1], "labels": 1}),
            "a tensor, an array or an image (TypeError: an input is called '\\x1bmask', which can be no parameter of a network).",
        ),
        (Changed(lambda index, *pair: {"ids": [1], "text": "no", "label": 1}), "an array or an image (TypeError: input 'text': "),
        (Changed(lambda index, image, label: ((image, torch.ones(0)), label)), "(TypeError: input 1 is [0] of torch.float32)."),
        (Changed(lambda index, *pair: {"label": 1, "labels": 1, "x": 1}), "train sample 0 is a dict of label, labels, x; it must be"),
        (Changed(lambda index, *pair: 7), "train sample 0 is a int; it must be (input, label)"),
        (
            Changed(lambda index, image, label: (one(index, image.resize((40, 32)), image), label)),
            "train sample 4 is [3, 32, 40] of torch.uint8, and the first one [3, 32, 32] of torch.uint8; they must be alike, as image_size "
            "makes all images.",
        ),
        (
            Changed(lambda index, image, label: (torch.zeros(one(index, 5, 4)), label)),
            "train sample 4 is [5] of torch.float32, and the first one [4] of torch.float32; they must be alike, as padding makes texts.",
        ),
        (
            Changed(lambda index, image, label: (image, "cat")),
            "train sample 0 is (Image, str), and the input must be a tensor, an array or an image of bytes, and the label a number, "
            "a tensor, an array or an image (TypeError: ",
        ),
        (
            Changed(lambda index, image, label: (image, one(index, [0, 1], 0))),
            "train sample 4 has a label that is [2] of torch.int64, and the first one [] of torch.int64; they must be alike.",
        ),
        (Changed(lambda index, image, label: (image, [])), "(ValueError: the label is empty)."),
        (Changed(lambda index, image, label: (image, 2**63)), "train sample 0 is (Image, int), and the input"),
        (Changed(lambda index, image, label: (image.convert("I"), label)), "(TypeError: its pixels, of mode I, are no bytes)."),
        (Changed(lambda index, image, label: (torch.eye(3).to_sparse(), label)), "(TypeError: it is a sparse, nested or meta tensor)."),
        (Changed(lambda index, image, label: (object(), label)), "train sample 0 is (object, int), and the input must be"),
        (Changed(lambda index, image, label: (torch.tensor([True]), label)), "the train inputs are torch.bool; they must be uint8, as"),
        (Changed(lambda index, image, label: (1.5, label)), "the train inputs have the shape [1]; they must be [N, ...]"),
        (Changed(lambda index, image, label: (image, 0.5)), "the train labels are torch.float32; they must be whole numbers"),
        (Changed(lambda index, image, label: (image, one(index, -1, 1))), "the train labels hold -1; they must be class numbers from 0"),
        (Pets(0), "the train part is a Pets without a sample."),
        (Dataset(), "the train part, a Dataset, cannot say how many samples it has: TypeError: "),
        (Endless(), "the train part is a Endless; it must be (inputs, labels) or a torch Dataset with a length."),
        (
            DataLoader(Pets(3), batch_size=None),
            "the train part is a DataLoader without batches; it must be (inputs, labels) or a torch Dataset, such as the loader's",
        ),
        *((part, f"the train part is {words}; it must be (inputs, labels) or a torch Dataset.") for part, words in NO_DATA),
    ],
)
def test_what_cannot_be_read_is_named(train: Any, words: str) -> None:
    said = refused(train)
    assert said.startswith(BEGINNING)
    assert words in said


def test_what_has_no_room_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_dataset, "free_memory", lambda: 40)
    sentence = "the labels [] of 6 train samples take 1 KiB of memory, and 1 KiB are free; they must be smaller, or fewer."
    assert refused(Changed(lambda index, image, label: (image, label))) == f"{BEGINNING}: {sentence}"


def test_free_memory_is_a_part_of_the_machine() -> None:
    assert 2**20 < allowance.free_memory() < 2**50


def test_a_stop_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_dataset, "_TOLD_SECONDS", 0.0)
    read: list[int] = []

    def counted(index: int, image: Any, label: Any) -> Any:
        read.append(index)
        return image, label

    with pytest.raises(Interrupted):
        loaded(Changed(counted, 1000), ending=lambda: len(read) > 5)
    assert len(read) < 10


def test_a_run_learns_and_shows_pictures_with_names(tmp_path: Path) -> None:
    config = small_config(data="test_torch_dataset:make_pets", model="test_torch_dataset:make_net", epochs=3, lr=0.1, batch_size=10)
    events = run(config, FakeControl(tmp_path))
    assert of(Replicas, events)[0].replicas[0].input == (10, 3, 32, 32)
    predictions = of(Predictions, events)[-1]
    assert predictions.classes == ("cat", "dog", "bird")
    assert {sample.truth for sample in predictions.samples} <= {0, 1, 2}


@pytest.mark.parametrize(("data", "strategy"), [("make_pets", "single"), ("make_pets", "split"), ("make_columns", "single")])
def test_an_exported_script_trains_on_the_same_samples(tmp_path: Path, data: str, strategy: str) -> None:
    device = "cpu" if strategy == "single" else "cpu,cpu"
    changes: dict[str, Any] = {"data": f"test_torch_dataset:{data}", "model": "test_torch_dataset:make_net", "precision": "fp64"}
    text, losses, evals = exported(small_config(**changes, epochs=2, batch_size=16, strategy=strategy, device=device), tmp_path)
    compare(executed(text), losses, evals, 1e-9, 1e-9)


def test_as_tensor_takes_what_numpy_has_of_an_image() -> None:
    image = Pets(1)[0][0]
    assert torch.equal(as_tensor(image), torch.from_numpy(np.array(image)).permute(2, 0, 1))
    kept: Tensor = torch.ones(2)
    assert as_tensor(kept) is kept
