"""The data sets without files, batches, `auto`, wrong names, import strings and people's own functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from loading import loaded, refused
from torch import nn

from tuitrain.config import ConfigError
from tuitrain.engine.data import Dataset, Split, batch, to_device
from tuitrain.engine.datasets.synthetic import synthetic_images
from tuitrain.engine.models import seed_cnn
from tuitrain.engine.own.imports import import_string
from tuitrain.events import Notice


@pytest.fixture(autouse=True)
def _no_data_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


# -- batches -------------------------------------------------------------------------------------------------------------


def image_split(count: int = 300) -> Split:
    pixels = torch.arange(count * 32 * 32 * 3, dtype=torch.int64).remainder(256).to(torch.uint8).view(count, 32, 32, 3)
    return Split(pixels.permute(0, 3, 1, 2), torch.arange(count))


def test_a_batch_of_images_has_the_values_of_to_tensor() -> None:
    split = image_split()
    inputs, labels = batch(split, slice(10, 20), torch.float32, 0)
    assert inputs.dtype == torch.float32
    # torchvision's ToTensor: `.to(float32).div(255)`.
    assert torch.equal(inputs, split.inputs[10:20].to(torch.float32).div(255))
    assert inputs.max() == 1.0
    assert torch.equal(labels, torch.arange(10, 20))


@pytest.mark.parametrize("index", [slice(3, 7), torch.tensor([3, 4, 5, 6])])
def test_a_batch_keeps_channels_last_for_a_slice_and_for_positions(index: slice | torch.Tensor) -> None:
    split = image_split()
    inputs, labels = batch(split, index, torch.float64, 0)
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(inputs, split.inputs[3:7].to(torch.float64) / 255)
    assert labels.tolist() == [3, 4, 5, 6]


def test_positions_are_picked_in_their_order() -> None:
    split = image_split()
    inputs, labels = batch(split, torch.tensor([9, 2, 9]), torch.float32, 0)
    assert labels.tolist() == [9, 2, 9]
    assert torch.equal(inputs[1] * 255, split.inputs[2].float())


def test_cutting_a_batch_leaves_the_samples_as_they_are() -> None:
    split = Split(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1]))
    inputs, _ = batch(split, slice(0, 2), torch.float64, 0)
    assert inputs.dtype == torch.float64
    assert split.inputs.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_batch_dim_one_moves_the_batch_of_the_inputs_only() -> None:
    split = Split(torch.randn(20, 7, 3), torch.zeros(20, dtype=torch.int64))
    inputs, labels = batch(split, slice(0, 5), torch.float32, 1)
    assert inputs.shape == (7, 5, 3)
    assert labels.shape == (5,)
    assert torch.equal(inputs[:, 2], split.inputs[2])


def test_to_device_keeps_bytes_and_layout() -> None:
    dataset = Dataset("custom", "a:b", image_split(4), None, ("a",))
    moved = to_device(dataset, "cpu")
    assert moved.train.inputs.dtype == torch.uint8
    assert moved.train.inputs.is_contiguous(memory_format=torch.channels_last)
    assert moved.test is None
    assert moved.source == "a:b"


# -- random and synthetic -------------------------------------------------------------------------------------------------


def test_random_is_100_samples_of_5_numbers_from_the_seed() -> None:
    dataset, events = loaded("random", seed=3)
    generator = torch.Generator().manual_seed(3)
    assert torch.equal(dataset.train.inputs, torch.randn(100, 5, generator=generator))
    assert torch.equal(dataset.train.labels, torch.randint(0, 2, (100,), generator=generator))
    assert (dataset.kind, dataset.source, dataset.test, events) == ("random", "random", None, [])
    assert not torch.equal(loaded("random", seed=4)[0].train.inputs, dataset.train.inputs)


def test_synthetic_is_shaped_like_cifar_and_the_same_for_every_seed() -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    dataset, _ = loaded("synthetic", seed=1)
    other, _ = loaded("synthetic", seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert dataset.test is not None
    assert other.test is not None
    assert dataset.train.inputs.shape == (12_800, 3, 32, 32)
    assert dataset.test.inputs.shape == (2_000, 3, 32, 32)
    assert dataset.train.inputs.dtype == torch.uint8
    assert dataset.train.inputs.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(dataset.train.inputs, other.train.inputs)
    assert torch.equal(dataset.test.labels, other.test.labels)
    assert len(dataset.classes) == 10
    # Mixed: the first batch already holds every class.
    assert set(dataset.train.labels[:64].tolist()) == set(range(10))
    assert not torch.equal(dataset.train.inputs[:2000], dataset.test.inputs)


def test_the_seed_net_learns_the_synthetic_images_within_two_epochs() -> None:
    """It starts at ln 10, has moved little after ten steps, and classifies at least 90 % of the test images after two epochs."""
    train_inputs, train_labels, test_inputs, test_labels = synthetic_images()
    train, test = Split(train_inputs, train_labels), Split(test_inputs, test_labels)
    torch.manual_seed(0)
    model = seed_cnn().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    losses: list[float] = []
    # No further than it takes: that is less than one epoch.
    for start in 2 * [*range(0, len(train), 64)]:
        inputs, labels = batch(train, slice(start, start + 64), torch.float32, 0)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if sum(losses[-10:]) / 10 < 0.7 and len(losses) > 110:
            break
    with torch.no_grad():
        parts = [batch(test, slice(start, start + 500), torch.float32, 0) for start in range(0, 2000, 500)]
        accuracy = sum(int((model(inputs).argmax(1) == labels).sum()) for inputs, labels in parts) / 2000
    assert losses[0] == pytest.approx(2.30, abs=0.1)
    assert sum(losses[:10]) / 10 > 2.2
    assert sum(losses[90:110]) / 20 < 2.2
    assert accuracy >= 0.9


# -- auto and wrong names -------------------------------------------------------------------------------------------------


def test_auto_without_cifar10_takes_synthetic_and_says_so() -> None:
    dataset, events = loaded("auto")
    assert (dataset.kind, dataset.source) == ("synthetic", "synthetic")
    texts = [event.text for event in events if isinstance(event, Notice)]
    assert len(texts) == 1
    assert "synthetic" in texts[0]
    assert "data=cifar10" in texts[0]


def test_a_misspelt_name_gets_the_nearest() -> None:
    sentence = refused("cifr10")
    assert sentence.startswith("data: 'cifr10' is neither one of auto, cifar10, synthetic, random, nor a folder")
    assert sentence.endswith("Did you mean 'cifar10'?")


def test_a_missing_folder_is_named_with_its_nearest_neighbour(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    sentence = refused(str(tmp_path / "pictuers"))
    assert f"the folder {tmp_path / 'pictuers'} does not exist" in sentence
    assert "Did you mean 'pictures'?" in sentence


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "data.zip").write_bytes(b"")
    assert f"{tmp_path / 'data.zip'} is a file" in refused("data.zip")
    assert refused("data.zip").endswith(" Unpack it, and give the folder that comes out.")


# -- import strings -------------------------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Writes a module into the working directory and returns its name, another one for every test."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(source: str) -> str:
        name = f"mine_{abs(hash(request.node.nodeid))}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


GOOD = """
import torch
def make_data(config):
    generator = torch.Generator().manual_seed(config.seed)
    return (torch.randn(20, 4, generator=generator), torch.arange(20) % 3), {test}
def make_model(config): ...
number = 3
"""


def test_own_data_without_and_with_a_test_set(module: Callable[[str], str]) -> None:
    name = module(GOOD.format(test="None"))
    dataset, _ = loaded(f"{name}:make_data", seed=2)
    assert (dataset.kind, dataset.source, dataset.test, dataset.classes) == ("custom", f"{name}:make_data", None, ("0", "1", "2"))
    assert torch.equal(dataset.train.inputs, torch.randn(20, 4, generator=torch.Generator().manual_seed(2)))
    assert dataset.train.labels.dtype == torch.int64


def test_own_uint8_images_get_channels_last(module: Callable[[str], str]) -> None:
    images = "torch.zeros(6, 3, 8, 8, dtype=torch.uint8)"
    name = module(f"import torch\ndef f(config): return ({images}, torch.zeros(6, dtype=torch.int32)), ({images}, torch.ones(6).long())")
    dataset, _ = loaded(f"{name}:f")
    assert dataset.train.inputs.is_contiguous(memory_format=torch.channels_last)
    assert dataset.train.labels.dtype == torch.int64
    assert dataset.test is not None
    assert dataset.classes == ("0", "1")


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64"])
def test_labels_of_every_whole_type(module: Callable[[str], str], kind: str) -> None:
    dataset, _ = loaded(
        f"{module(f'import torch{chr(10)}def f(config): return (torch.zeros(2, 2), torch.tensor([0, 5], dtype=torch.{kind})), None')}:f"
    )
    assert (dataset.train.labels.dtype, dataset.train.labels.tolist()) == (torch.int64, [0, 5])


def test_data_that_was_made_in_inference_mode_can_be_trained_with(module: Callable[[str], str]) -> None:
    made = "with torch.inference_mode(): return (torch.ones(4, 2), torch.zeros(4).long()), None"
    train = loaded(f"{module(f'import torch{chr(10)}def f(config):{chr(10)} {made}')}:f")[0].train
    assert not train.inputs.is_inference()
    assert not train.labels.is_inference()


def test_import_mistakes_are_told_apart(module: Callable[[str], str]) -> None:
    name = module(GOOD.format(test="None"))
    assert "there is no module no_such_module_x" in refused("no_such_module_x:f")
    assert "has no 'make_dta'. Did you mean 'make_data'?" in refused(f"{name}:make_dta")
    assert "is a int; it must be a function" in refused(f"{name}:number")


def test_a_module_that_fails_while_imported_is_not_called_missing(module: Callable[[str], str]) -> None:
    assert "failed: ModuleNotFoundError: No module named 'no_such_dependency'" in refused(f"{module('import no_such_dependency')}:f")


def test_a_module_that_exits_does_not_end_the_program(module: Callable[[str], str]) -> None:
    with pytest.raises(
        ConfigError, match=r"model: .* ends the program \(SystemExit: 3 \(.*, line 1\)\); what only a script does belongs below"
    ):
        import_string("model", f"{module('raise SystemExit(3)')}:f")


def test_a_syntax_error_and_a_submodule(module: Callable[[str], str]) -> None:
    name = module("def f(:\n")
    assert "SyntaxError" in refused(f"{name}:f")
    assert "there is no module json.nothing" in refused("json.nothing:f")


def test_a_module_that_hides_ones_own_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("queue.py").write_text("def make_data(config): ...")
    Path("numpy").mkdir()
    Path("numpy", "data.py").write_text("def make_data(config): ...")
    hidden = "needs another name."
    assert refused("queue:make_data") == f"data: 'queue:make_data': the module queue is Python's own, not your queue.py, which {hidden}"
    assert refused("numpy.data:f") == f"data: 'numpy.data:f': the module numpy is an installed one, not your numpy/, which {hidden}"
    assert "has no 'make_data'" in refused("json:make_data")


X = "torch.zeros(4, 2)"
Y = "torch.zeros(4, dtype=torch.long)"


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("3", "returned a int"),
        (f"({X}, {Y}, None)", "returned a tuple of 3"),
        (f"{X}, None", "the train part is a Tensor; it must be (inputs, labels)"),
        (
            "([1, 2], [0, 1]), None",
            "the train inputs are a list of 2; they must be a torch tensor or a NumPy array, as numpy.asarray makes one.",
        ),
        (
            f"({X}, {Y}), torch.utils.data.DataLoader(torch.utils.data.TensorDataset({X}, {Y}), collate_fn=list)",
            "the test part is a DataLoader with a collate_fn of its own; it must be (inputs, labels) or a torch Dataset, such as the",
        ),
        (f"({X}, [0, 1, 0, 1]), None", "the train labels are a list of 4"),
        (
            f"({X}, numpy.array(['a'] * 4)), None",
            "the train labels are an array of <U1; they must be numbers in the order of this machine's",
        ),
        (f"({X}, torch.zeros(4)), None", "labels are torch.float32; they must be whole numbers, one class number a sample, for the loss"),
        (
            f"({X}, torch.zeros(4)), None",
            "for the loss cross_entropy, as labels.long() makes them. To come near to numbers is what the loss mse is for.",
        ),
        (f"({X}, torch.ones(4, 1) > 0), None", "labels are torch.bool;"),
        (f"({X}, torch.ones(4, 1) > 0), None", "cross_entropy, as labels.squeeze(1).long() makes them."),
        (f"({X}, torch.eye(4)), None", "cross_entropy, as labels.argmax(1) makes them of rows that are 1 once."),
        (f"({X}, torch.zeros(4) + 0.5), None", "cross_entropy. To come near to numbers is what the loss mse is for."),
        (f"({X}, torch.zeros(5, dtype=torch.long)), None", "the shape [5] for 4 inputs"),
        (f"({X}, {Y}[:, None]), None", "the shape [4, 1] for 4 inputs"),
        ("(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long)), None", "not empty"),
        (f"({X}, {Y} - 1), None", "labels hold -1; they must be class numbers from 0"),
        (f"({X}, {Y} + 2**40), None", "labels hold 1099511627776; they must be class numbers from 0 to 999,999."),
        (f"({X} > 1, {Y}), None", "inputs are torch.bool; they must be uint8, as images are, other whole numbers or floats."),
        (f"({X} * 1j, {Y}), None", "inputs are torch.complex64; they must be uint8"),
        (f"({X}, {Y}), (torch.zeros(4, 3), {Y})", "the test samples have the shape [3] and the train samples [2]"),
        (f"({X}, {Y}), ({X}.double(), {Y})", "they must be alike"),
        (f"({X}.to_sparse(), {Y}), None", "the train inputs are a sparse tensor; they must be an ordinary one"),
        (f"({X}, {Y}), ({X}, {Y}.to_sparse())", "the test labels are a sparse tensor"),
        (
            f"(torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged), {Y}), None",
            "the train inputs are a nested tensor",
        ),
        (f"({X}.to('meta'), {Y}), None", "the train inputs are a meta tensor"),
        ("[][1]", "raised IndexError: list index out of range"),
        ("exit(2)", "raised SystemExit: 2"),
        ("exec('raise ValueError(\"There are too few. \")')", "raised ValueError: There are too few (mine_"),
    ],
)
def test_what_an_own_function_returns_is_checked(module: Callable[[str], str], returned: str, words: str) -> None:
    sentence = refused(f"{module(f'import numpy, torch{chr(10)}def f(config): return {returned}')}:f")
    assert sentence.startswith("data: '")
    assert words in sentence
    assert not sentence.endswith("..")


def test_a_hostile_error_text_is_one_clean_line(module: Callable[[str], str]) -> None:
    sentence = refused(f"{module('def f(config): raise ValueError(chr(27) + chr(10) + chr(27) + chr(91))')}:f")
    assert sentence.isprintable()


def test_a_folder_named_like_an_import_string_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    assert f"{tmp_path / 'a:b'} is empty" in refused("a:b")
