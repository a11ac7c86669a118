"""Data that trains, with a word about what may be wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import FakeControl, of, run, small_config
from torch import Tensor, nn

from tuitrain.events import Notice

PARTS: dict[str, Any] = {}


def make_data() -> Any:
    return PARTS["train"], PARTS["test"]


def make_linear(num_classes: int) -> nn.Module:
    return nn.Linear(4, num_classes)


def make_net(num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, num_classes))


def warnings(folder: Path, train: Any, test: Any = None, **changes: Any) -> list[str]:
    PARTS.update(train=train, test=test)
    model = "make_net" if train[0].dim() == 4 else "make_linear"
    own = {"data": "test_data_doubts:make_data", "model": f"test_data_doubts:{model}", "batch_size": 8, "max_steps": 1}
    notices = of(Notice, run(small_config(**{**own, **changes}), FakeControl(folder)))
    return [notice.text for notice in notices if notice.level == "warning"]


def rows(labels: Tensor) -> tuple[Tensor, Tensor]:
    return torch.rand(len(labels), 4), labels


def stretches(*classes: int) -> Tensor:
    return torch.tensor(classes).repeat_interleave(20)


@pytest.mark.parametrize(
    ("labels", "changes", "said"),
    [
        (stretches(0, 1, 2), {}, True),
        (stretches(2, 0), {}, True),
        (stretches(0, 1, 2), {"shuffle": True}, False),
        (stretches(0, 1, 2), {"batch_size": 60}, False),
        (stretches(0, 1, 0), {}, False),
        (torch.arange(60), {}, False),
        (torch.arange(60) % 3, {}, False),
    ],
)
def test_samples_that_come_class_after_class(tmp_path: Path, labels: Tensor, changes: dict[str, Any], said: bool) -> None:
    text = (
        "The training samples come class after class, and shuffle is false: a step sees one class, and the network forgets the others. "
        "With shuffle=true they are mixed."
    )
    assert warnings(tmp_path, rows(labels), **changes) == [text] * said


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        (torch.arange(20) % 3 + 1, None, True),
        (torch.arange(20) % 3 + 1, torch.arange(20) % 3 + 1, True),
        (torch.arange(20) % 3 + 1, torch.arange(20) % 3, False),
        (torch.arange(20) % 3, None, False),
        (torch.arange(20) % 3 + 2, None, False),
    ],
)
def test_labels_that_count_from_1(tmp_path: Path, train: Tensor, test: Tensor | None, said: bool) -> None:
    text = "No sample is of class 0: labels count from 0, and these from 1. The network has 4 scores, one of them for nothing."
    assert warnings(tmp_path, rows(train), None if test is None else rows(test)) == [text] * said


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (torch.arange(256.0).repeat(60)[: 20 * 192].view(20, 3, 8, 8), True),
        (torch.arange(256.0).repeat(60)[: 20 * 192].view(20, 3, 8, 8) / 255, False),
        (torch.arange(256.0).repeat(60)[: 20 * 192].view(20, 3, 8, 8) - 128, False),
        (torch.arange(256.0).repeat(60)[: 20 * 192].view(20, 3, 8, 8).byte(), False),
        (100 * torch.arange(256.0).repeat(60)[: 20 * 192].view(20, 3, 8, 8), False),
        (200 * torch.rand(20, 3, 8, 8), False),
        (torch.rand(20, 3, 8, 8).to(torch.float8_e4m3fn), False),
        (200 * torch.rand(20, 4), False),
    ],
    ids=["pixels", "scaled", "around 0", "bytes", "no pixels", "no whole numbers", "8 bits", "no images"],
)
def test_pixels_that_were_not_scaled(tmp_path: Path, inputs: Tensor, said: bool) -> None:
    text = (
        "The inputs look like pixels up to 255 as torch.float32, and floats are taken as they are: few networks learn from such numbers. "
        "Divide them by 255, or give uint8, which is."
    )
    assert warnings(tmp_path, (inputs, torch.arange(20) % 3)) == [text] * said


def test_one_class_only(tmp_path: Path) -> None:
    text = "The data has one class only, '0': there is nothing to tell apart, and every answer is right."
    assert warnings(tmp_path, rows(stretches(0))) == [text]
