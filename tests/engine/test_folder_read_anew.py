"""Folders of images for whose pixels there is no memory: they are decoded while the run trains, and all is as with memory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from engine_small import FakeControl, losses_of, of, run, small_config
from PIL import Image
from test_export_script import compare, executed, exported
from torch import nn

from tuitrain.config import RunConfig
from tuitrain.engine.datasets import decode, decoded, folder_pixels
from tuitrain.engine.train import train
from tuitrain.events import Checkpoint, Eval, Event, Notice, Predictions, Progress, RunEnded, RunStarted

UNREADABLE = "2 images cannot be read and were skipped: test/cat/3.png, train/dog/10.png."
CHANGED = "1 image resized to 8×8."


def make_net(num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, num_classes))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    """Of a folder of two classes: 24 and 6 images, one of each part damaged, and one of another size."""
    monkeypatch.setattr(decode, "_check_share", lambda counts, files: None)
    for part, count in (("train", 12), ("test", 4)):
        for label, name in enumerate(("cat", "dog")):
            (tmp_path / "pets" / part / name).mkdir(parents=True)
            for number in range(count):
                side = 20 if (part, label, number) == ("train", 0, 5) else 8
                pixels = np.random.default_rng(100 * label + 10 * count + number).integers(0, 255, (side, side, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "pets" / part / name / f"{number}.png")
    (tmp_path / "pets" / "train" / "dog" / "10.png").write_bytes(b"no image")
    (tmp_path / "pets" / "test" / "cat" / "3.png").write_bytes(b"no image")
    own = {"data": str(tmp_path / "pets"), "model": "test_folder_read_anew:make_net", "image_size": 8}
    return small_config(**own, batch_size=5, shuffle=True, augment="crop-flip", precision="fp64")


@pytest.fixture
def _no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_pixels, "free_memory", lambda: 100)


def told(events: list[Event]) -> list[str]:
    return [notice.text for notice in of(Notice, events)]


def test_they_are_those_of_a_run_that_has_them_in_memory(config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = run(config, FakeControl(tmp_path / "there"))
    monkeypatch.setattr(folder_pixels, "free_memory", lambda: 100)
    control = FakeControl(tmp_path / "read")
    read = run(config, control)
    assert told(there) == [UNREADABLE, CHANGED]
    takes = "32 images of 8×8 pixels take up to 12 KiB of memory, and 1 KiB are free: "
    assert [text.startswith(takes) for text in told(read)] == [False, False, True]
    assert told(read)[-1].endswith("them anew in each epoch and evaluation.")
    assert told(read)[:2] == told(there)
    assert losses_of(read) == losses_of(there)
    assert len(losses_of(read)) == 10
    assert of(Eval, read) == of(Eval, there)
    assert of(Predictions, read) == of(Predictions, there)
    assert {sample.file for sample in of(Predictions, read)[0].samples} == {
        f"test/{name}/{number}.png" for name in ("cat", "dog") for number in range(4) if (name, number) != ("cat", 3)
    }
    (started,) = of(RunStarted, read)
    assert (started.train_samples, started.test_samples) == (23, 7)
    assert started.readers > 0
    assert of(RunStarted, there)[0].readers == 0
    # It is the same data: a run goes on in either way.
    monkeypatch.undo()
    control = FakeControl(tmp_path / "read")
    control.folder = control.given_folder
    longer = list(train(msgspec.structs.replace(config, epochs=3), control))
    assert [text for text in told(longer) if "data" in text] == []
    assert len(losses_of(longer)) == 5


@pytest.mark.usefixtures("_no_room")
def test_they_are_checked_once(config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(msgspec.structs.replace(config, max_steps=1), FakeControl(tmp_path / "first"))
    assert Progress(phase="checking images", done=32, total=32, unit="images") in first
    monkeypatch.setattr(decode, "_decode_all", None)
    again = run(msgspec.structs.replace(config, max_steps=1), FakeControl(tmp_path / "again"))
    assert told(again) == told(first)
    assert losses_of(again) == losses_of(first)


@pytest.mark.usefixtures("_no_room")
def test_what_was_found_and_cannot_be_kept_is_said(config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(decoded, "save_file", full)
    events = run(msgspec.structs.replace(config, max_steps=1), FakeControl(tmp_path / "run"))
    assert "The decoded images could not be kept for the next start: No space left on device." in told(events)
    assert of(RunEnded, events)[0].state == "finished"


@pytest.mark.usefixtures("_no_room")
def test_a_folder_that_vanishes_ends_the_run(config: RunConfig, tmp_path: Path) -> None:
    control, events = FakeControl(tmp_path / "run"), list[Event]()
    for event in train(msgspec.structs.replace(config, epochs=100), control):
        events.append(event)
        if isinstance(event, RunStarted):
            control.folder = control.given_folder
        elif isinstance(event, Checkpoint) and (tmp_path / "pets").is_dir():
            shutil.rmtree(tmp_path / "pets")
    (ended,) = of(RunEnded, events)
    assert ended.state == "failed"
    assert f": data: {tmp_path}/pets/t" in ended.error
    assert ".png cannot be read any more: FileNotFoundError: " in ended.error


@pytest.mark.usefixtures("_no_room")
def test_a_script_of_it_trains_with_them(config: RunConfig, tmp_path: Path) -> None:
    text, losses, evals = exported(config, tmp_path / "run")
    compare(executed(text), losses, evals, 1e-9, 0.0)
