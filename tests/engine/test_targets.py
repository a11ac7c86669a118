"""What a network's outputs are compared with beside the classes of samples: numbers, classes of positions, and by losses of one's own."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_small import CLASSES, FakeControl, go_on, losses_of, make_images, of, run, small_config
from PIL import Image
from test_checkpoint import saved_where_epochs_fly
from test_export_script import executed, exported
from torch import Tensor, nn
from torch.torch_version import TorchVersion
from torch.utils.data import Dataset, TensorDataset

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine import checkpoint, export
from tuitrain.engine.check import check
from tuitrain.engine.criterion import make_criterion
from tuitrain.engine.evaluate import Score
from tuitrain.events import Checkpoint, Eval, Notice, Predictions, RunEnded, RunStarted, encode
from tuitrain.paths import CHECKPOINTS

HERE = "test_targets"


def make_points() -> Any:
    """The small images, and of each two numbers [N, 2] that show in it."""
    return tuple((images, torch.stack((images[:, 0].float().mean((1, 2)), labels.float()), 1) / 50) for images, labels in make_images(None))


def make_point() -> Any:
    return tuple((images, labels[:, 0].double()) for images, labels in make_points())


def make_counts() -> Any:
    return tuple((images, labels[:, None]) for images, labels in make_images(None))


def make_masks() -> Any:
    """A class for each pixel, in the place of which the network is to say whether it is dark or bright."""
    return tuple((images, (images[:, 0] > 90).long() + (images[:, 0] > 160)) for images, _ in make_images(None))


def make_padded() -> Any:
    """As `make_masks`, where a part of the pixels counts for nothing."""
    return tuple((images, labels.where(images[:, 1] > 40, -100)) for images, labels in make_masks())


def make_tokens() -> Any:
    """Numbers of tokens [N, 5] and of those that come next."""
    drawn = torch.randint(0, 7, (76, 6), generator=torch.Generator().manual_seed(3), dtype=torch.int32)
    drawn[:, 1::2] = drawn[:, ::2]  # every second one is known
    return (drawn[:56, :-1], drawn[:56, 1:]), (drawn[56:, :-1], drawn[56:, 1:])


def make_unlabelled() -> Any:
    return tuple((images, torch.full_like(labels, -100)) for images, labels in make_masks())


def make_minus_one() -> Any:
    return tuple((images, labels - 1) for images, labels in make_masks())


def make_flags() -> Any:
    return tuple((images, labels > 1) for images, labels in make_images(None))


def make_same() -> Any:
    return tuple((images / 255, images / 255) for images, _ in make_images(None))


class Shapes(Dataset[Any]):
    """Images with a mask that is an image too, as of data sets for segmentation."""

    def __init__(self, count: int) -> None:
        self.images = make_images(None)[0][0][:count]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        pixels = self.images[index].permute(1, 2, 0).contiguous().numpy()
        mask = Image.fromarray((pixels[:, :, 0] > 90).astype(np.uint8), "P")
        return Image.fromarray(pixels), mask


class Centres(Shapes):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], (index / 10, 0.5)


def make_shapes() -> Any:
    return Shapes(20), Shapes(6)


def make_centres() -> Any:
    return Centres(20), Centres(6)


def make_pairs() -> Any:
    return TensorDataset(*make_points()[0]), TensorDataset(*make_points()[1])


def make_regressor(num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, num_classes))


def make_places(num_classes: int) -> nn.Module:
    """Gives two numbers for each class."""
    return make_regressor(2 * num_classes)


def make_one_score() -> nn.Module:
    return nn.Sequential(make_regressor(1), nn.Flatten(0))


def make_pixels() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))


class Language(nn.Module):
    """Says of each token which comes next; it counts them from 1, in the place of the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.scores = nn.Embedding(8, 6), nn.Linear(6, 7)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens += 1
        scores: Tensor = self.scores(self.tokens(tokens))
        return scores.movedim(-1, 1)


class Transformer(Language):
    """Has the classes on the last axis, and its scores in a mapping, as libraries of such networks have them."""

    def forward(self, tokens: Tensor) -> Any:
        return {"hidden": self.tokens(tokens), "logits": super().forward(tokens).movedim(1, -1)}


class ClassesLast(nn.Module):
    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.net, self.classes = make_pixels(), classes

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.net(images)
        return scores.movedim(1, -1)[..., : self.classes]


def make_two_last() -> nn.Module:
    return ClassesLast(2)


def of_positions(scores: Any, labels: Tensor) -> Tensor:
    """As one writes it for a network whose classes are last."""
    scores = scores if isinstance(scores, Tensor) else scores["logits"]
    return nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.reshape(-1))


class Coder(nn.Module):
    """Gives what it makes of an image, and the code from which it made that."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(192, 6), nn.Linear(6, 192)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        code = self.down(images.flatten(1))
        return self.up(code).view_as(images), code


def far(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - labels).abs().mean()


def changing(outputs: Tensor, labels: Tensor) -> Tensor:
    """Changes what it is given."""
    labels -= 1
    outputs -= 1
    return (outputs - labels).square().mean()


def coded(outputs: tuple[Tensor, Tensor], images: Tensor) -> Tensor:
    made, code = outputs
    return nn.functional.mse_loss(made, images) + 0.01 * code.square().mean()


def pulled(outputs: Tensor, labels: Tensor) -> Tensor:
    """Of labels that are class numbers, and outputs that are no scores of these."""
    return (outputs.gather(1, labels[:, None]) - 1).square().mean()


class Focal(nn.Module):
    def __init__(self, power: float = 2.0) -> None:
        super().__init__()
        self.power = power

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        sure = torch.log_softmax(scores, 1).gather(1, labels[:, None])[:, 0]
        return (-((1 - sure.exp()) ** self.power) * sure).mean()


class Learning(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.centre = nn.Parameter(torch.zeros(2))

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs - self.centre).square().mean()


class Failing:
    def __init__(self) -> None:
        raise RuntimeError("not today")


weighted = nn.CrossEntropyLoss(weight=torch.arange(1.0, CLASSES + 1))
a_number = 3


def summed(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - labels).square().sum()


def summed_code(outputs: tuple[Tensor, Tensor], images: Tensor) -> Tensor:
    return (outputs[0] - images).square().sum()


def make_whole_numbers() -> nn.Module:
    model = make_regressor(2)
    model.register_forward_hook(lambda module, inputs, outputs: outputs.long())
    return model


def of_two_alone(outputs: Tensor, labels: Tensor) -> Tensor:
    """Takes two samples at most."""
    first, second = outputs
    return (first - labels[0]).square().mean() + (second - labels[1]).square().mean()


def apart(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - labels).square()


def detached(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs.detach() - labels).square().mean()


def constant(outputs: Tensor, labels: Tensor) -> float:
    return 1.0


def raising(outputs: Tensor, labels: Tensor) -> Tensor:
    raise ValueError("these do not fit")


def alone(outputs: Tensor) -> Tensor:
    return outputs.mean()


KINDS: dict[str, dict[str, Any]] = {
    "mse": {"loss": "mse", "data": f"{HERE}:make_points", "model": f"{HERE}:make_regressor"},
    "of torch": {"loss": "torch.nn:HuberLoss", "data": f"{HERE}:make_point", "model": f"{HERE}:make_one_score"},
    "function": {"loss": f"{HERE}:far", "data": f"{HERE}:make_points", "model": f"{HERE}:make_regressor"},
    "changing": {"loss": f"{HERE}:changing", "data": f"{HERE}:make_points", "model": f"{HERE}:make_regressor"},
    "flags": {"loss": "torch.nn:BCEWithLogitsLoss", "data": f"{HERE}:make_flags", "model": f"{HERE}:make_one_score"},
    "several outputs": {"loss": f"{HERE}:coded", "data": f"{HERE}:make_same", "model": f"{HERE}:Coder"},
    "places": {"loss": f"{HERE}:pulled", "model": f"{HERE}:make_places"},
    "positions": {"data": f"{HERE}:make_masks", "model": f"{HERE}:make_pixels"},
    "padded": {"data": f"{HERE}:make_padded", "model": f"{HERE}:make_pixels"},
    "tokens": {"data": f"{HERE}:make_tokens", "model": f"{HERE}:Language"},
    "texts": {"data": f"{HERE}:make_tokens", "model": f"{HERE}:Transformer"},
    "own loss of texts": {"data": f"{HERE}:make_tokens", "model": f"{HERE}:Transformer", "loss": f"{HERE}:of_positions"},
    "classes last": {"data": f"{HERE}:make_padded", "model": f"{HERE}:ClassesLast"},
    "weighted": {"loss": f"{HERE}:weighted", "model": "engine_small:make_net"},
    "class": {"loss": f"{HERE}:Focal", "model": "engine_small:make_net"},
}
LAST = ("texts", "own loss of texts", "classes last")
"""Those whose networks have the classes on the last axis."""
TARGETS = dict.fromkeys(("positions", "padded", "tokens", *LAST), "positions") | {"weighted": "classes", "class": "classes"}
"""Of the others the targets are numbers."""


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def of_kind(kind: str, **changes: Any) -> RunConfig:
    return small_config(**{"precision": "fp64", "lr": 0.01} | KINDS[kind] | changes)


def plain(kind: str) -> tuple[list[float], list[tuple[float, float]]]:
    """The losses of a plain loop over two epochs, and after each the test loss and how many answers were right."""
    config = of_kind(kind)
    make_data = (lambda: make_images(None)) if config.data.startswith("engine_small") else globals()[config.data.partition(":")[2]]
    (inputs, labels), (test_inputs, test_labels) = make_data()
    torch.manual_seed(0)
    makers: dict[str, Callable[[], nn.Module]] = {
        "make_regressor": lambda: make_regressor(2),
        "make_net": lambda: make_regressor(CLASSES),
        "make_one_score": make_one_score,
        "make_places": lambda: make_places(CLASSES),
        "make_pixels": make_pixels,
        "Coder": Coder,
        "Language": Language,
        "Transformer": Transformer,
        "ClassesLast": ClassesLast,
    }
    model = makers[config.model.partition(":")[2]]().double()
    losses: dict[str, Any] = {"mse": nn.MSELoss(), "of torch": nn.HuberLoss(), "flags": nn.BCEWithLogitsLoss()}
    losses |= dict.fromkeys(("positions", "padded", "tokens"), nn.CrossEntropyLoss()) | dict.fromkeys(LAST, of_positions)
    own: dict[str, Any] = {"function": far, "changing": changing, "several outputs": coded, "class": Focal(), "places": pulled}
    criterion = (losses | own | {"weighted": nn.CrossEntropyLoss(weight=weighted.weight.double())})[kind]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def pair(given: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
        floats = said.double() if said.is_floating_point() or said.dtype == torch.bool else said
        if given.dtype == torch.int32:
            return given.long(), floats.long()
        return (given / torch.tensor(255, dtype=torch.double) if given.dtype == torch.uint8 else given.double()), floats.clone()

    steps, tests = [], []
    for _ in range(2):
        for first in range(0, len(inputs), 8):
            given, said = pair(inputs[first : first + 8], labels[first : first + 8])
            loss = criterion(model(given), said)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append(loss.item())
        total, right = 0.0, 0
        with torch.no_grad():
            for first in range(0, len(test_inputs), 8):
                given, said = pair(test_inputs[first : first + 8], test_labels[first : first + 8])
                scores = model(given)
                total += criterion(scores, said.clone()).item() * len(said)
                if kind in TARGETS:
                    scores = scores if isinstance(scores, Tensor) else scores["logits"]
                    right += int((scores.argmax(-1 if kind in LAST else 1) == said).sum())
        tests.append((total / len(test_inputs), right / int((test_labels != -100).sum()) if kind in TARGETS else math.nan))
    return steps, tests


def test_a_run_learns_what_a_plain_loop_learns(tmp_path: Path, kind: str) -> None:
    events = run(of_kind(kind), FakeControl(tmp_path))
    assert events[-1] == RunEnded(state="finished", step=14)
    steps, tests = plain(kind)
    assert list(losses_of(events).values()) == pytest.approx(steps, rel=1e-9)
    found = of(Eval, events)
    assert [one.loss for one in found] == pytest.approx([loss for loss, _ in tests], rel=1e-9)
    assert [one.accuracy for one in found] == pytest.approx([accuracy for _, accuracy in tests], nan_ok=True)
    assert of(RunStarted, events)[0].targets == TARGETS.get(kind, "numbers")
    assert bool(of(Predictions, events)) == (TARGETS.get(kind) == "classes")
    assert [notice.text for notice in of(Notice, events)] == []


def test_replicas_learn_what_one_device_learns(tmp_path: Path, kind: str) -> None:
    one = run(of_kind(kind, batch_size=9), FakeControl(tmp_path / "one"))
    three = run(of_kind(kind, batch_size=9, device="cpu,cpu,cpu"), FakeControl(tmp_path / "three"))
    # Where samples count unalike it is no mean over them, and that of a part weighs them otherwise.
    assert losses_of(three) == pytest.approx(losses_of(one), rel={"weighted": 0.2, "padded": 0.02, "classes last": 0.02}.get(kind, 1e-9))


@pytest.mark.usefixtures("two_threads")
def test_a_run_goes_on_bit_for_bit(tmp_path: Path, kind: str) -> None:
    unbroken = run(of_kind(kind), FakeControl(tmp_path / "unbroken"))
    control = FakeControl(tmp_path / "broken", {9: ["stop"]})
    begun = run(of_kind(kind), control)
    assert len(losses_of(begun)) == 9
    rest = go_on(of_kind(kind), FakeControl(tmp_path / "broken"))
    assert losses_of(begun) | losses_of(rest) == losses_of(unbroken)
    assert of(RunStarted, rest)[0].targets == of(RunStarted, unbroken)[0].targets


@pytest.mark.parametrize("changes", [{}, {"device": "cpu,cpu"}, {"precision": "bf16"}], ids=["single", "split", "bf16"])
def test_the_script_learns_it_too(tmp_path: Path, kind: str, changes: dict[str, str]) -> None:
    if kind == "several outputs" and changes.get("precision") == "bf16" and TorchVersion(torch.__version__) < "2.7":
        pytest.skip("torch 2.6 has no gradient of mse_loss between bf16 and float32, which this loss takes")
    text, losses, evals = exported(of_kind(kind, max_steps=9, **changes), tmp_path)
    output = executed(text)
    told = {int(step): float(loss) for step, loss in re.findall(r"^step (\d+) loss (\S+)$", output, re.MULTILINE)}
    assert told == pytest.approx(losses, rel=1e-9 if not changes.get("precision") else 1e-5)
    tested = re.findall(r"^epoch \d+ test loss (\S+) \(sum over batches \S+\)(?: accuracy (\S+))?$", output, re.MULTILINE)
    assert [float(loss) for loss, _ in tested] == pytest.approx([one.loss for one in evals], rel=1e-5)
    accuracies = [float(accuracy) if accuracy else math.nan for _, accuracy in tested]
    assert accuracies == pytest.approx([one.accuracy for one in evals], nan_ok=True)


def test_the_script_says_where_the_classes_are(tmp_path: Path) -> None:
    texts = {kind: exported(of_kind(kind, epochs=1), tmp_path / kind)[0] for kind in ("tokens", "texts", "own loss of texts")}
    assert "outputs = logits(model(inputs))\n" in texts["tokens"]
    assert "outputs = logits(model(inputs)).movedim(-1, 1)\n" in texts["texts"]
    assert "right += (logits(outputs).movedim(-1, 1).argmax(1) == labels)" in texts["own loss of texts"]


class AsMany(Language):
    """As many classes as positions."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(6, 5)


def make_five() -> Any:
    return tuple((inputs, labels % 5) for inputs, labels in make_tokens())


def test_where_the_classes_could_be_on_either_axis_the_second_one_has_them(tmp_path: Path) -> None:
    config = of_kind("tokens", data=f"{HERE}:make_five", model=f"{HERE}:AsMany", max_steps=1)
    events = run(config, FakeControl(tmp_path))
    assert [notice.text for notice in of(Notice, events)] == [
        "The scores [N, 5, 5] could have the classes on the second axis or on the last one: the second is taken, as torch has it."
    ]
    torch.manual_seed(0)
    model, (inputs, labels) = AsMany().double(), make_five()[0]
    loss = nn.functional.cross_entropy(model(inputs[:8].long()), labels[:8].long())
    assert losses_of(events)[1] == pytest.approx(loss.item(), rel=1e-9)


class Eight(nn.Module):
    """As many classes as an image of 6 x 8 pixels is wide."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.net(images)
        return scores


def make_wide() -> Any:
    return tuple((images[:, :, :6], labels[:, :6]) for images, labels in make_masks())


def test_classes_that_are_as_many_as_a_row_is_long_are_no_matter_of_doubt(tmp_path: Path) -> None:
    events = run(of_kind("positions", data=f"{HERE}:make_wide", model=f"{HERE}:Eight", max_steps=1), FakeControl(tmp_path))
    assert of(Notice, events) == []


@pytest.mark.parametrize("shape", [(4, 7), (4, 7, 5), (4, 7, 5, 6)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_scores_side_by_side_and_apart_have_one_loss(shape: tuple[int, ...], smoothing: float) -> None:
    drawn = torch.Generator().manual_seed(1)
    scores = torch.rand(shape, dtype=torch.float64, generator=drawn)
    labels = torch.randint(0, 7, (shape[0], *shape[2:]), generator=drawn)
    if labels.dim() > 1:
        labels[0, 0] = -100
    expected = nn.functional.cross_entropy(scores, labels, label_smoothing=smoothing).item()
    criterion = make_criterion(small_config(label_smoothing=smoothing))
    last = scores.movedim(1, -1).contiguous()
    for given in (scores, last.movedim(-1, 1), last):
        assert criterion(given, labels).item() == pytest.approx(expected, rel=1e-12)


def test_the_script_of_what_was_not_tried_yet_has_the_loss(kind: str) -> None:
    text = export.script(of_kind(kind))
    compile(text, "exported.py", "exec")
    named = of_kind(kind).loss.rpartition(":")[2]
    losses = {"cross_entropy": "criterion = nn.CrossEntropyLoss()", "mse": "criterion = nn.MSELoss()"}
    assert losses.get(named, f"import {named} as own_loss") in text


@pytest.mark.parametrize("kind", ["tokens", "positions", "several outputs"])
def test_the_script_of_what_was_not_tried_yet_takes_inputs_of_each_type(tmp_path: Path, kind: str) -> None:
    config = of_kind(kind, epochs=1)
    text = export.script(config).replace("(config)", "()")  # nobody has looked what the functions take either
    told = [float(loss) for loss in re.findall(r"^step \d+ loss (\S+)$", executed(text), re.MULTILINE)]
    assert told == pytest.approx(list(losses_of(run(config, FakeControl(tmp_path))).values()), rel=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {"data": f"{HERE}:make_shapes", "model": f"{HERE}:make_pixels"},
        {"data": f"{HERE}:make_centres", "model": f"{HERE}:make_regressor", "loss": "mse"},
        {"data": f"{HERE}:make_pairs", "model": f"{HERE}:make_regressor", "loss": "mse"},
        {"data": f"{HERE}:make_counts", "model": f"{HERE}:make_regressor", "loss": "mse"},
    ],
    ids=["masks", "tuples", "tensors", "whole numbers"],
)
def test_torch_data_sets_and_whole_numbers(tmp_path: Path, changes: dict[str, str]) -> None:
    text, losses, evals = exported(small_config(epochs=1, **changes), tmp_path)
    told = [float(loss) for loss in re.findall(r"^step \d+ loss (\S+)$", executed(text), re.MULTILINE)]
    assert told == pytest.approx(list(losses.values()), rel=1e-5)
    assert math.isnan(evals[0].accuracy) == ("loss" in changes)


def test_a_built_in_network_gives_as_many_numbers_as_a_sample_has(tmp_path: Path) -> None:
    events = run(
        small_config(data=f"{HERE}:make_wide_points", model="seed-cnn", loss="mse", optimizer="adam", lr=0.001), FakeControl(tmp_path)
    )
    assert of(RunStarted, events)[0].parameters == 145_578 - 8 * 65
    losses = list(losses_of(events).values())
    assert losses[-1] < losses[0] / 2


def make_wide_points() -> Any:
    return tuple((images.repeat(1, 1, 4, 4), labels) for images, labels in make_points())


def test_json_has_no_number_where_there_is_no_accuracy(tmp_path: Path) -> None:
    events = run(of_kind("mse"), FakeControl(tmp_path))
    assert json.loads(encode(of(Eval, events)[0]))["accuracy"] is None
    assert json.loads(encode(of(RunStarted, events)[0]))["targets"] == "numbers"


def find_losses(monkeypatch: pytest.MonkeyPatch, losses: Iterable[float]) -> None:
    """What the evaluations find, one after the other."""
    left = iter(losses)

    def scored(self: Any) -> Any:
        loss = next(left)
        return Score(loss, loss, math.nan, None)
        yield

    monkeypatch.setattr("tuitrain.engine.evaluate.Evaluator.run", scored)


def test_the_best_checkpoint_is_that_of_the_least_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_losses(monkeypatch, [3.0, 1.0, math.nan, 2.0, 1.5, 0.5, 0.7])
    folder = tmp_path / "run"
    events = run(of_kind("mse", epochs=4), FakeControl(folder))
    assert [event.step for event in of(Checkpoint, events) if event.kind == "best"] == [7, 14]
    newest = checkpoint.checkpoints(folder / CHECKPOINTS)[-1]
    assert (checkpoint.load(newest).position.best_loss, checkpoint.load(newest).position.best_accuracy) == (1.0, None)
    # What was best before counts for a run that goes on.
    more = go_on(of_kind("mse", epochs=7), FakeControl(folder))
    assert [event.step for event in of(Checkpoint, more) if event.kind == "best"] == [42]


def test_where_epochs_fly_not_each_one_with_a_lesser_loss_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_losses(monkeypatch, map(float, range(100, 0, -1)))
    saved = saved_where_epochs_fly(of_kind("mse", epochs=24), tmp_path, monkeypatch, "best")
    assert saved == [*range(1, 11), 21, 24]


def refused(config: RunConfig, folder: Path) -> str:
    with pytest.raises(ConfigError) as error:
        run(config, FakeControl(folder))
    assert list(folder.iterdir()) == []
    return str(error.value)


MODEL, DATA = f"model: '{HERE}:", f"data: '{HERE}:"
TWO = "for outputs [2, 2] and labels [2, 2]"


@pytest.mark.parametrize(
    ("base", "changes", "said"),
    [
        (
            "mse",
            {"data": f"{HERE}:make_point", "model": f"{HERE}:make_regressor"},
            " gives [2, 1] for labels [2]; for the loss mse both must have one shape, as labels.unsqueeze(1) gives it to them.",
        ),
        ("mse", {"model": "engine_small:make_net"}, " gives [2, 4] for labels [2, 2]; for the loss mse both must have one shape."),
        (
            "mse",
            {"loss": "cross_entropy"},
            "labels are torch.float32; they must be whole numbers, one class number a sample, for the loss cross_entropy. To come "
            "near to numbers is what the loss mse is for.",
        ),
        (
            "mse",
            {"data": f"{HERE}:make_counts", "loss": "nll"},
            "labels have the shape [50, 1] for 50 inputs; they must be one number a sample, as labels.squeeze(1) makes them.",
        ),
        (
            "mse",
            {"data": "synthetic", "model": "seed-cnn"},
            "loss: mse is of numbers, and the labels of synthetic are class numbers, which cross_entropy is for.",
        ),
        (
            "mse",
            {"data": f"{HERE}:make_uneven"},
            "the test labels are numbers of the shape [1] and the train labels numbers of the shape [2]; they must be alike.",
        ),
        ("mse", {"data": f"{HERE}:make_empty"}, "the train labels have the shape [50, 0] for 50 inputs; they must be [N] or [N, ...]."),
        (
            "positions",
            {"data": f"{HERE}:make_mixed", "loss": f"{HERE}:far"},
            "the test labels are numbers and the train labels class numbers; they must be alike.",
        ),
        ("positions", {"data": f"{HERE}:make_unlabelled"}, "labels are all -100, which counts for nothing; they must be class numbers."),
        ("positions", {"data": f"{HERE}:make_minus_one"}, "the train labels hold -1; they must be class numbers from 0 to 999,999."),
        (
            "positions",
            {"model": f"{HERE}:make_two_last"},
            "gives [2, 8, 8, 2] for inputs [2, 3, 8, 8] of the data 'test_targets:make_masks'; it must give [2, 3, 8, 8] or [2, 8, 8, 3], "
            "one score for each of the 3 classes at each position.",
        ),
        (
            "positions",
            {"data": f"{HERE}:make_one_hot", "model": "engine_small:make_net"},
            "Rows that are 1 once are class numbers by labels.argmax(1).",
        ),
        (
            "function",
            {"loss": f"{HERE}:summed"},
            f"loss: '{HERE}:summed' gives the sum over the samples; it must give their mean, as divided by len(labels).",
        ),
        ("function", {"model": f"{HERE}:make_whole_numbers"}, " gives outputs that are torch.int64; they must be of a floating type."),
        ("several outputs", {"loss": f"{HERE}:summed_code"}, "gives the sum over the samples"),
        (
            "function",
            {"loss": f"{HERE}:apart"},
            f"loss: '{HERE}:apart' gives [2, 2] of torch.float32 {TWO}; it must give a single float, the mean over the samples.",
        ),
        ("function", {"loss": f"{HERE}:constant"}, f"loss: '{HERE}:constant' gives a float {TWO}; it must give"),
        (
            "function",
            {"loss": f"{HERE}:detached"},
            f"gives a number {TWO} that has no gradient; it must be computed of the outputs by torch.",
        ),
        ("function", {"loss": f"{HERE}:raising"}, f"loss: '{HERE}:raising' raised ValueError: these do not fit (test_targets.py, line "),
        (
            "function",
            {"loss": f"{HERE}:alone"},
            f"loss: '{HERE}:alone' cannot be called with outputs and labels; it must be a function loss(outputs, labels).",
        ),
        ("function", {"loss": f"{HERE}:a_number"}, f"loss: '{HERE}:a_number' is a int; it must be a function."),
        ("function", {"loss": f"{HERE}:Failing"}, f"loss: '{HERE}:Failing' raised RuntimeError: not today (test_targets.py, line "),
        (
            "function",
            {"loss": f"{HERE}:Learning"},
            f"loss: '{HERE}:Learning' has parameters, which would not be trained; what is to be trained belongs to the model.",
        ),
        ("function", {"loss": f"{HERE}:fra"}, f"loss: '{HERE}:fra': the module {HERE} has no 'fra'. Did you mean 'far'?"),
        (
            "function",
            {"loss": "torch.nn:Linear"},
            "loss: the class 'torch.nn:Linear' cannot be made without arguments; it must be a function loss(outputs, labels).",
        ),
        (
            "positions",
            {"augment": "crop-flip"},
            f"augment: crop-flip moves images, and not labels for each of their pixels, which {HERE}:make_masks has",
        ),
        ("positions", {"tta": True}, "tta: true moves images, and not labels for each of their pixels"),
        ("function", {"target_accuracy": 0.5}, "target_accuracy: 0.5 is of answers that are right or wrong; here it must be none."),
    ],
)
def test_what_does_not_fit_is_one_sentence(tmp_path: Path, base: str, changes: dict[str, Any], said: str) -> None:
    sentence = refused(of_kind(base, **{"precision": "fp32", **changes}), tmp_path)
    assert said in sentence
    assert sentence.count("\n") == 0


def make_uneven() -> Any:
    train, (images, labels) = make_points()
    return train, (images, labels[:, :1])


def make_empty() -> Any:
    return tuple((images, labels[:, :0]) for images, labels in make_points())


def make_mixed() -> Any:
    return make_images(None)[0], make_point()[1]


def make_one_hot() -> Any:
    return tuple((images, nn.functional.one_hot(labels, CLASSES)) for images, labels in make_images(None))


def test_images_that_are_moved_beside_labels_that_are_numbers_are_warned_of(tmp_path: Path) -> None:
    events = run(of_kind("mse", augment="flip-shift"), FakeControl(tmp_path))
    text = "augment=flip-shift moves and mirrors the images, and not what their labels may say of places in them."
    assert [notice.text for notice in of(Notice, events)] == [text]


def test_a_loss_that_takes_no_other_number_of_samples_is_not_called_a_sum(tmp_path: Path) -> None:
    events = run(of_kind("function", loss=f"{HERE}:of_two_alone", batch_size=2, epochs=1), FakeControl(tmp_path))
    assert events[-1] == RunEnded(state="finished", step=25)


def test_a_run_for_the_queue_is_refused_for_its_loss() -> None:
    config = small_config(model="seed-cnn", data="synthetic", loss=f"{HERE}:Failing")
    with pytest.raises(ConfigError, match="loss: 'test_targets:Failing' raised RuntimeError: not today"):
        check(config)


def make_holed_points() -> Any:
    train, test = make_points()
    train[1][21, 1] = math.nan
    return train, test


def test_a_label_that_is_no_number_is_named(tmp_path: Path) -> None:
    config = of_kind("mse", data=f"{HERE}:make_holed_points")
    ended = of(RunEnded, run(config, FakeControl(tmp_path)))[0]
    assert ended.state == "failed"
    assert ended.error is not None
    assert "the labels of training sample 21, counted from 0, hold a nan or an infinity" in ended.error
