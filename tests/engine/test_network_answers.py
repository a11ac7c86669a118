"""What the network says of the test samples: the matrix, which samples are shown, their images, and that no number of training moves."""

from __future__ import annotations

import math
import os
from itertools import product
from pathlib import Path
from typing import Any

import engine_small
import msgspec
import numpy as np
import pytest
import torch
from engine_small import FakeControl, losses_of, of, run, small_config
from PIL import Image
from torch import Tensor, nn

from tuitrain.config import RunConfig
from tuitrain.engine import predictions
from tuitrain.engine.data import Split
from tuitrain.engine.datasets.file_names import FileNames
from tuitrain.engine.predictions import SHOWN_MISTAKES, SHOWN_SAMPLES, Answers
from tuitrain.events import Clock, Eval, Notice, Predictions


def event_of(scores: Tensor, labels: Tensor, inputs: Tensor | None = None, classes: Any = (), batch: int = 16) -> Predictions:
    answers = Answers(Split(torch.zeros(len(labels), 5) if inputs is None else inputs, labels))
    for part in scores.split(batch):
        answers.add(part)
    return answers.event(7, 2, classes)


def plain_samples(scores: Tensor, labels: Tensor) -> list[tuple[int, int, int, float]]:
    """The samples to show, one after the other as anyone would write it."""
    rows = []
    for index, (row, truth) in enumerate(zip(scores, labels.tolist(), strict=True)):
        shares = torch.softmax(row, 0).tolist()
        said = max(range(len(shares)), key=shares.__getitem__)
        rows.append((index, truth, said, shares[said]))
    wrong = sorted((row for row in rows if row[1] != row[2]), key=lambda row: -row[3])[:SHOWN_MISTAKES]
    right = sorted((row for row in rows if row[1] == row[2]), key=lambda row: row[3])
    return [*wrong, *right[: SHOWN_SAMPLES - len(wrong)]]


@pytest.mark.parametrize(("count", "sharpness"), [(300, 0.0), (300, 6.0), (40, 3.0), (5, 0.0), (1, 0.0)])
def test_matrix_and_samples_equal_a_plain_loop(count: int, sharpness: float) -> None:
    generator = torch.Generator().manual_seed(count)
    labels = torch.randint(6, (count,), generator=generator)
    scores = torch.randn(count, 6, generator=generator) + sharpness * nn.functional.one_hot(labels, 6)
    told = event_of(scores, labels, classes=list("abcdef"))
    assert (told.step, told.epoch, told.classes) == (7, 2, tuple("abcdef"))
    confusion = [[0] * 6 for _ in range(6)]
    for row, truth in zip(scores, labels.tolist(), strict=True):
        confusion[truth][int(row.argmax())] += 1
    assert told.confusion == tuple(map(tuple, confusion))
    expected = plain_samples(scores, labels)
    assert [(one.index, one.truth, one.predicted) for one in told.samples] == [row[:3] for row in expected]
    assert [one.confidence for one in told.samples] == pytest.approx([row[3] for row in expected], rel=1e-5)
    assert all(one.image is None for one in told.samples)


def test_a_sharp_model_shows_its_mistakes_first_and_no_more_than_64() -> None:
    labels = torch.zeros(500, dtype=torch.int64)
    scores = torch.zeros(500, 2)
    scores[:200, 1] = torch.linspace(1, 5, 200)
    scores[200:, 0] = torch.linspace(5, 1, 300)
    told = event_of(scores, labels, classes=("x", "y"))
    assert [one.index for one in told.samples] == [*range(199, 199 - 48, -1), *range(499, 499 - 16, -1)]
    assert [one.truth != one.predicted for one in told.samples] == [True] * 48 + [False] * 16


def test_images_are_the_samples_own_bytes() -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randint(256, (80, 3, 32, 32), generator=generator).to(torch.uint8).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(3, (80,), generator=generator)
    told = event_of(torch.randn(80, 3, generator=generator), labels, inputs, "abc")
    for one in told.samples:
        pixels = inputs[one.index]
        expected = bytes(pixels[channel, row, column].item() for row in range(32) for column in range(32) for channel in range(3))
        assert one.image == expected


def test_samples_have_the_clean_names_of_their_files() -> None:
    paths = [f"test/cat/{number:04}.png" for number in range(500)]
    paths[0], paths[1] = "test/cat/a\x1b[2J\n.png", os.fsdecode(b"test/cat/r\xe9seau.png")
    answers = Answers(Split(torch.zeros(500, 5), torch.ones(500, dtype=torch.int64), files=FileNames.of(paths)))
    scores = torch.zeros(500, 2)
    scores[:, 0] = torch.linspace(9, 1, 500)
    answers.add(scores)
    told = answers.event(1, 1, ("a", "b"))
    assert [one.index for one in told.samples] == list(range(48))
    assert [one.file for one in told.samples] == ["test/cat/a·[2J·.png", "test/cat/r·seau.png", *paths[2:48]]
    assert [one.file for one in told.of_cells] == [paths[one.index] for one in told.of_cells]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(told), type=Predictions) == told


def test_samples_that_are_no_files_have_no_name() -> None:
    assert {one.file for one in event_of(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])).samples} == {None}


def test_images_of_another_size_are_brought_to_this_one() -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randint(256, (4, 3, 64, 96), generator=generator).to(torch.uint8)
    told = event_of(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), inputs)
    for one in told.samples:
        assert one.image is not None
        image = Image.fromarray(inputs[one.index].permute(1, 2, 0).numpy()).resize((32, 32), Image.Resampling.BILINEAR)
        shown = np.frombuffer(one.image, dtype=np.uint8).reshape(32, 32, 3)
        assert np.abs(shown.astype(int) - np.asarray(image)).max() <= 1


def test_small_grey_images_are_pictures_too() -> None:
    inputs = torch.tensor([[0, 255], [7, 9]], dtype=torch.uint8).expand(1, 1, 2, 2)
    [told] = event_of(torch.zeros(1, 2), torch.tensor([0]), inputs).samples
    assert told.image is not None
    shown = np.frombuffer(told.image, dtype=np.uint8).reshape(32, 32, 3)
    assert [tuple(shown[row, column]) for row in (0, 31) for column in (0, 31)] == [(0,) * 3, (255,) * 3, (7,) * 3, (9,) * 3]


@pytest.mark.parametrize(
    "inputs",
    [torch.zeros(4, 3, 32, 32), torch.zeros(4, 5, 8, 8, dtype=torch.uint8), torch.zeros(4, 3, 8, dtype=torch.uint8), torch.zeros(4, 7)],
)
def test_other_inputs_have_no_image(inputs: Tensor) -> None:
    told = event_of(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), inputs)
    assert [one.image for one in told.samples] == [None] * 4


def test_classes_without_a_name_are_numbers_and_names_are_clean() -> None:
    told = event_of(torch.eye(6)[[0, 5]], torch.tensor([0, 3]), classes=("a\x1b[2J", "猫", "c"))
    assert told.classes == ("a·[2J", "猫", "c", "3", "4", "5")
    assert len(told.confusion) == len(told.confusion[0]) == 6
    assert told.confusion[3][5] == 1


def test_with_many_classes_there_is_no_matrix() -> None:
    labels = torch.arange(101)
    told = event_of(torch.eye(101), labels)
    assert (told.confusion, told.largest, len(told.classes)) == ((), (), 101)
    assert len(event_of(torch.eye(100), labels[:100]).confusion) == 100


def test_scores_that_are_no_numbers_are_sure_of_nothing() -> None:
    scores = torch.tensor([[math.nan, math.nan], [math.inf, 1.0], [0.0, 1.0]])
    told = event_of(scores, torch.tensor([0, 0, 0]), classes=("a", "b"))
    assert all(0 <= one.confidence <= 1 for one in told.samples)
    assert told.samples[0].index == 2


def test_scores_with_a_nan_are_no_answer_and_never_right() -> None:
    labels = torch.tensor([0, 0, 1, 1])
    scores = torch.tensor([[math.nan, 1.0], [1.0, math.nan], [0.0, math.inf], [math.nan, math.nan]])
    answers = Answers(Split(torch.zeros(4, 2), labels))
    answers.add(scores)
    assert answers.right() == 1
    assert answers.flaw() == "the model's scores hold a nan for 3 of 4 test samples, which count as wrong"
    told = answers.event(1, 1, "ab")
    assert told.classes == ("a", "b", "no number")
    assert told.confusion == ((0, 0, 2), (0, 1, 1), (0, 0, 0))
    assert [(one.index, one.predicted) for one in told.samples] == [(0, 2), (1, 2), (3, 2), (2, 1)]


def test_scores_that_are_numbers_have_no_flaw() -> None:
    answers = Answers(Split(torch.zeros(2, 2), torch.tensor([0, 1])))
    answers.add(torch.tensor([[math.inf, 1.0], [-math.inf, 1.0]]))
    assert answers.flaw() is None
    assert answers.event(1, 1, "ab").classes == ("a", "b")


def test_an_evaluation_without_numbers_reaches_no_target_and_says_so(tmp_path: Path) -> None:
    events = run(small_config(model="engine_small:make_silent", epochs=2, target_accuracy=0.01), FakeControl(tmp_path))
    assert [(math.isnan(event.loss), event.accuracy) for event in of(Eval, events)] == [(True, 0.0)] * 2
    count = engine_small.TEST_SAMPLES
    said = (
        f"The test loss is nan, no finite number: the model's scores hold a nan for {count} of {count} test samples, which count as wrong."
    )
    assert [event.text for event in of(Notice, events) if "test" in event.text] == [said]
    assert {event.crossed_epoch for event in of(Clock, events)} == {None}


def test_a_model_that_answers_into_one_tensor_is_understood() -> None:
    labels = torch.tensor([0, 1, 0, 1])
    answers = Answers(Split(torch.zeros(4, 2), labels))
    buffer = torch.zeros(2, 2)
    for part in (torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])):
        answers.add(buffer.copy_(part))
    assert answers.event(1, 1, "ab").confusion == ((1, 1), (1, 1))


def test_blocks_do_not_change_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(2)
    scores, labels = torch.randn(100, 4, generator=generator), torch.randint(4, (100,), generator=generator)
    whole = event_of(scores, labels)
    monkeypatch.setattr(predictions, "_BLOCK_SAMPLES", 30)
    assert event_of(scores, labels) == whole


# -- in a run ---------------------------------------------------------------------------------------------------------


def test_predictions_follow_their_evaluation_and_agree_with_it(tmp_path: Path) -> None:
    events = run(small_config(), FakeControl(tmp_path))
    evaluations, told = of(Eval, events), of(Predictions, events)
    assert [(one.step, one.epoch) for one in told] == [(7, 1), (14, 2)]
    for evaluation, one in zip(evaluations, told, strict=True):
        assert events[events.index(evaluation) + 1] is one
        right = sum(row[number] for number, row in enumerate(one.confusion))
        assert sum(map(sum, one.confusion)) == engine_small.TEST_SAMPLES
        assert right / engine_small.TEST_SAMPLES == evaluation.accuracy
        assert len(one.samples) == engine_small.TEST_SAMPLES
        assert one.classes == ("0", "1", "2", "3")


@pytest.mark.parametrize("changes", [{}, {"strategy": "split", "device": "cpu,cpu"}])
def test_a_run_on_a_folder_names_the_files_with_these_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dice = np.random.default_rng(0)
    for part, name, number in product(("train", "test"), ("cat", "dog"), range(20)):
        path = tmp_path / "pets" / part / name / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(dice.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(path)
    config = RunConfig(recipe="seed-cnn", data=str(tmp_path / "pets"), epochs=1, **({"device": "cpu"} | changes))
    told = of(Predictions, run(config, FakeControl(tmp_path)))[0]
    assert len(told.samples) == len({one.file for one in told.samples}) == 40
    for one in told.samples:
        assert one.file is not None
        assert one.file.split("/")[:2] == ["test", told.classes[one.truth]]
        assert one.image == np.asarray(Image.open(tmp_path / "pets" / one.file)).tobytes()


def test_a_run_without_test_samples_tells_none(tmp_path: Path) -> None:
    assert of(Predictions, run(small_config(data="engine_small:make_images_without_test"), FakeControl(tmp_path))) == []


@pytest.mark.parametrize("changes", [{}, {"precision": "bf16"}, {"model": "engine_small:make_log_net", "loss": "nll"}])
def test_confidence_is_a_share(tmp_path: Path, changes: dict[str, Any]) -> None:
    for one in of(Predictions, run(small_config(epochs=1, **changes), FakeControl(tmp_path)))[0].samples:
        assert 1 / engine_small.CLASSES - 1e-3 <= one.confidence <= 1


def test_the_model_is_the_one_of_that_moment(tmp_path: Path) -> None:
    """A learning rate of almost nothing leaves the first weights, which anyone can make again."""
    told = of(Predictions, run(small_config(precision="fp64", epochs=1, lr=1e-12), FakeControl(tmp_path)))[0]
    inputs, labels = engine_small.make_images(None)[1]
    torch.manual_seed(0)
    model = engine_small.make_net(None).double().eval()
    with torch.no_grad():
        expected = plain_samples(model(inputs.double() / 255), labels)
    assert [(one.index, one.truth, one.predicted) for one in told.samples] == [row[:3] for row in expected]


def test_losses_are_those_of_a_run_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config(model="engine_small:make_dropout_net", shuffle=True)
    with_predictions = losses_of(run(config, FakeControl(tmp_path / "a")))
    monkeypatch.setattr(
        Answers, "event", lambda self, step, epoch, classes: Predictions(step=step, epoch=epoch, classes=(), confusion=(), samples=())
    )
    assert losses_of(run(config, FakeControl(tmp_path / "b"))) == with_predictions
