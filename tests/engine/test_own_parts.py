"""The ways in which a person's code gives its two parts of data: how it is called, what is refused, and how a script has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from engine_small import FakeControl, losses_of, of, run, small_config
from loading import loaded, refused
from test_export_script import compare, executed, exported
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, WeightedRandomSampler

from tuitrain.allowance import Allowance
from tuitrain.config import RunConfig
from tuitrain.events import Notice, RunStarted
from tuitrain.paths import cached_datasets

TRAIN, TEST = 12, 6


class Points(Dataset[Any]):
    """Points [5] of two classes."""

    def __init__(self, count: int) -> None:
        self._points = torch.randn(count, 5, generator=torch.Generator().manual_seed(count))

    def __len__(self) -> int:
        return len(self._points)

    def __getitem__(self, index: int) -> Any:
        return self._points[index], index % 2


class ByTrain(Points):
    def __init__(self, train: bool = True) -> None:
        assert isinstance(train, bool)
        super().__init__(TRAIN if train else TEST)


class BySplit(Points):
    def __init__(self, split: str, root: str = "here") -> None:
        assert root == "here"
        super().__init__({"train": TRAIN, "test": TEST}[split])


class Fetched(Points):
    """As torchvision's are made."""

    folders: ClassVar[list[str]] = []

    def __init__(self, root: str, train: bool = True, transform: Any = None, *, download: bool = False) -> None:
        assert transform is None
        assert download
        self.folders.append(root)
        super().__init__(TRAIN if train else TEST)


class Alone(Points):
    def __init__(self) -> None:
        super().__init__(TRAIN)


class OfFile(Points):
    def __init__(self, path: str, transform: Any = None) -> None:
        raise AssertionError


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        raise AssertionError


def tensors(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.stack([Points(count)[index][0] for index in range(count)]), torch.arange(count) % 2


def by_train(config: RunConfig, train: bool) -> Any:
    assert config.model == "linear"
    return tensors(TRAIN if train else TEST)


def by_split(*, split: str = "train") -> Any:
    return BySplit(split)


def share(train: float = 0.8) -> Any:
    assert train == 0.8
    return Points(TRAIN), Points(TEST)


def one_set() -> Any:
    return Points(TRAIN)


def one_pair() -> Any:
    return tensors(TRAIN)


def lists() -> Any:
    return list(Points(TRAIN)), [{"label": label, "point": point} for point, label in Points(TEST)]


def one_list() -> Any:
    return list(Points(TRAIN))


def arrays() -> Any:
    """In memory that torch cannot take as it is: from its end, and not to be written to."""
    (inputs, labels), test = tensors(TRAIN), tensors(TEST)
    read_only = labels.numpy().astype("uint16")
    read_only.flags.writeable = False
    return (inputs.flip(0).numpy()[::-1], read_only), [part.numpy() for part in test]


def a_dict() -> Any:
    return {"validation": Points(TEST), "train": Points(TRAIN), "unsupervised": None}


def three_pairs() -> Any:
    return [tensors(TRAIN), tensors(TEST), tensors(TEST)]


train_set = Points(TRAIN)
both = train_set, Points(TEST)
train_alone = {"train": train_set}
train_loader = DataLoader(train_set)


def loaders() -> Any:
    return DataLoader(train_set, batch_size=4, shuffle=True, num_workers=2), DataLoader(Points(TEST), batch_size=3)


def a_tested_loader() -> Any:
    return tensors(TRAIN), DataLoader(Points(TEST))


WAYS = {
    "ByTrain": (TEST, "train, test = make_data(train=True), make_data(train=False)"),
    "BySplit": (TEST, 'train, test = make_data(split="train"), make_data(split="test")'),
    "Fetched": (TEST, 'make_data(root="data", train=True, download=True), make_data(root="data", train=False, download=True)'),
    "Alone": (0, "train, test = make_data(), None"),
    "by_train": (TEST, "train, test = make_data(config, train=True), make_data(config, train=False)"),
    "by_split": (TEST, 'train, test = make_data(split="train"), make_data(split="test")'),
    "share": (TEST, "train, test = make_data()\n"),
    "arrays": (TEST, "train, test = make_data()\n"),
    "lists": (TEST, "train, test = make_data()\n"),
    "one_list": (0, "train, test = make_data(), None"),
    "one_set": (0, "train, test = make_data(), None"),
    "one_pair": (0, "train, test = make_data(), None"),
    "a_dict": (TEST, 'parts = make_data()\ntrain, test = parts["train"], parts["validation"]'),
    "train_set": (0, "train, test = own_data, None"),
    "both": (TEST, "train, test = own_data\n"),
    "loaders": (TEST, "train, test = make_data()\ntrain = train.dataset\ntest = test.dataset\n"),
    "a_tested_loader": (TEST, "train, test = make_data()\ntest = test.dataset\n"),
    "train_loader": (0, "train, test = own_data, None\ntrain = train.dataset\n"),
    "train_alone": (0, 'parts = own_data\ntrain, test = parts["train"], None'),
}


@pytest.mark.parametrize("name", WAYS)
def test_all_ways_train_with_the_same_samples_and_so_do_their_scripts(tmp_path: Path, name: str) -> None:
    tests, line = WAYS[name]
    small: dict[str, Any] = {"model": "linear", "precision": "fp64", "batch_size": 5, "epochs": 2}
    text, losses, evals = exported(small_config(**small, data=f"test_own_parts:{name}"), tmp_path / "way")
    events = run(small_config(**small, data="test_own_parts:share"), FakeControl(tmp_path / "plain"))
    assert losses == losses_of(events)
    assert len(evals) == (2 if tests else 0)
    assert line in text
    compare(executed(text), losses, evals, 1e-9, 1e-9)


def test_what_can_fetch_its_samples_is_told_where_to_keep_them() -> None:
    Fetched.folders.clear()
    loaded("test_own_parts:Fetched")
    assert Fetched.folders == [str(cached_datasets())] * 2


def test_that_nothing_tests_is_said() -> None:
    _, events = loaded("test_own_parts:one_set")
    told = [event.text for event in events if isinstance(event, Notice)]
    assert told == ["Data: test_own_parts:one_set is one data set: all of it is trained with, and there is no test data."]
    assert not [event for event in loaded("test_own_parts:train_alone")[1] if isinstance(event, Notice)]


def test_that_a_loader_does_not_cut_the_batches_is_said() -> None:
    dataset, events = loaded("test_own_parts:loaders", batch_size=3)
    assert torch.equal(dataset.train.inputs, tensors(TRAIN)[0])
    (told,) = [event.text for event in events if isinstance(event, Notice)]
    way = "the run cuts batches itself: batch_size is 3 and shuffle false."
    assert told == f"Data: of the loaders of test_own_parts:loaders the data sets are taken; {way}"


def test_processes_that_read_ask_for_their_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of samples that are drawn at random, by one class for both."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setattr(Allowance, "processors", lambda self: 2)
    config = small_config(data="drawn_sets:ByPart", model="drawn_sets:make_point_net", precision="fp64", batch_size=8, epochs=2)
    control = FakeControl(tmp_path)
    events = run(config, control)
    (started,) = of(RunStarted, events)
    assert (started.train_samples, started.test_samples) == (26, 5)
    assert "read_anew_for_scores" in control.environment
    assert len(losses_of(events)) == 8


def collated(samples: list[Any]) -> Any:
    raise AssertionError


collating = DataLoader(train_set, collate_fn=collated)
batching = DataLoader(train_set, batch_sampler=[[0, 1], [2]])
weighing = DataLoader(train_set, sampler=WeightedRandomSampler([1.0] * TRAIN, 4))
repeating = DataLoader(train_set, sampler=RandomSampler(train_set, replacement=True))
number = 3
nothing: dict[str, Any] = {}


def a_loader() -> Any:
    return weighing, None


def endless() -> Any:
    return Endless()


def endless_loader() -> Any:
    return DataLoader(Endless())


def other_keys() -> Any:
    return {"a\x1b": 1, "test": 2}


A_PART = "(inputs, labels) or a torch Dataset"
BOTH = f"the training part and the test part or None, {A_PART}"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("OfFile", " needs more than the configuration (path); it must be a function like make_data(config)."),
        ("number", f" is a int; it must be a function, or have {BOTH}."),
        ("three_pairs", f" returned a list of 3; it must return {BOTH}."),
        (
            "collating",
            f" is a DataLoader with a collate_fn of its own; it must be a function, or have {BOTH}, such as the loader's `dataset`.",
        ),
        ("batching", f" is a DataLoader with a batch_sampler of its own; it must be a function, or have {BOTH}, such as"),
        ("repeating", f" is a DataLoader with a sampler of its own; it must be a function, or have {BOTH}, such as"),
        ("a_loader", f": the train part is a DataLoader with a sampler of its own; it must be {A_PART}, such as the loader's `dataset`."),
        ("endless_loader", f" returned a DataLoader; it must return {BOTH} with a length."),
        ("endless", f" returned a Endless; it must return {BOTH} with a length."),
        ("other_keys", " returned a dict of a·, test; it must have train and, where there is test data, test."),
        ("nothing", " is a dict of nothing; it must have train and, where there is test data, test."),
    ],
)
def test_what_is_no_data_is_named(name: str, words: str) -> None:
    assert f"'test_own_parts:{name}'{words}" in refused(f"test_own_parts:{name}")


def test_a_folder_for_what_is_fetched_needs_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise OSError(0, "nobody knows your home")

    monkeypatch.setattr("tuitrain.engine.datasets.own_parts.cached_datasets", nowhere)
    assert refused("test_own_parts:Fetched") == "data: nobody knows your home, so that there is no folder for what is downloaded."
