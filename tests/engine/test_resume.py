"""Runs that go on: bit for bit those that were never interrupted, damaged checkpoints, and what is no longer exact."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import engine_small
import numpy as np
import pytest
import torch
from engine_small import FakeControl, go_on, losses_of, of, run, small_config
from torch import nn

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine import checkpoint, snapshot
from tuitrain.engine import train as train_module
from tuitrain.engine.group import Group
from tuitrain.engine.resume import check_fits, newest_valid, unsaved
from tuitrain.engine.train import train
from tuitrain.events import Checkpoint, Eval, Notice, Progress, Request, RunEnded, RunStarted, State


def stopped(config: RunConfig, folder: Path, step: int) -> None:
    run(config, FakeControl(folder, {step: ["stop"]}))


def elsewhere() -> None:
    """As if another process went on: its generators are somewhere else."""
    random.seed(99)
    np.random.seed(99)
    torch.manual_seed(99)


DEMANDING = {
    "shuffle": True,
    "augment": "crop-flip",
    "optimizer": "adam",
    "lr": 0.05,
    "model": "engine_small:make_dropout_net",
    "batch_size": 10,
}


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("at", [1, 4, 5, 8, 14])
@pytest.mark.parametrize(
    "changes",
    [{}, {"device": "cpu,cpu"}, {"device": "cpu,cpu,cpu", "batch_size": 17}, {"model": "engine_small:make_expanded_buffer"}],
    ids=["single", "split", "uneven", "expanded"],
)
def test_from_any_step_the_losses_are_those_of_the_unbroken_run(tmp_path: Path, changes: dict[str, Any], at: int) -> None:
    config = small_config(epochs=3, **(DEMANDING | changes))
    unbroken = run(config, FakeControl(tmp_path / "unbroken"))
    at = min(at, of(RunStarted, unbroken)[0].total_steps - 1)
    stopped(config, tmp_path / "broken", at)
    elsewhere()
    control = FakeControl(tmp_path / "broken")
    events = go_on(config, control)
    assert of(RunStarted, events)[0].resumed_from == at
    expected = {step: loss for step, loss in losses_of(unbroken).items() if step > at}
    assert expected
    assert losses_of(events) == expected
    assert of(Eval, events) == [event for event in of(Eval, unbroken) if event.step > at]
    assert events[-1] == unbroken[-1]
    assert not [event for event in of(Notice, events) if event.level == "warning"]
    last = [checkpoint.load(tmp_path / name / "checkpoints" / f"step-{events[-1].step:08d}") for name in ("unbroken", "broken")]
    assert last[0].position == last[1].position
    assert all(torch.equal(tensor, last[1].model[name]) for name, tensor in last[0].model.items())


@pytest.mark.usefixtures("two_threads")
def test_many_times_interrupted_is_as_once_through(tmp_path: Path) -> None:
    config = small_config(epochs=2, **DEMANDING)
    unbroken = losses_of(run(config, FakeControl(tmp_path / "unbroken")))
    losses = losses_of(run(config, FakeControl(tmp_path / "broken", {1: ["stop"]})))
    for _ in range(20):
        elsewhere()
        events = go_on(config, FakeControl(tmp_path / "broken", {2: ["stop"]}))
        losses |= losses_of(events)
        if events[-1].state == "finished":
            break
    assert losses == unbroken


def test_a_stop_within_the_evaluation_is_made_good(tmp_path: Path) -> None:
    config = small_config(epochs=2)
    control = FakeControl(tmp_path / "broken", {7: ["stop"]})
    for event in train(config, control):
        if isinstance(event, RunStarted):
            control.folder = control.given_folder
        if isinstance(event, Progress) and event.phase == "evaluating":
            control.ending = True
        assert not isinstance(event, Eval)
    unbroken = run(config, FakeControl(tmp_path / "unbroken"))
    events = go_on(config, FakeControl(tmp_path / "broken"))
    assert of(Eval, events) == of(Eval, unbroken)
    assert [(event.step, event.kind) for event in of(Checkpoint, events)] == [
        (event.step, event.kind) for event in of(Checkpoint, unbroken)
    ]
    assert checkpoint.load(tmp_path / "broken" / "checkpoints" / "step-00000007").position.evaluated


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("epochs", [1, 2], ids=["the last one", "another one"])
@pytest.mark.parametrize("before", ["checkpoint", "pause", "resume"])
def test_a_group_asked_for_more_before_a_stop_within_the_evaluation_stops_there(tmp_path: Path, before: Request, epochs: int) -> None:
    control, asked = FakeControl(tmp_path), list[Request]()
    group = Group(torch.device("cpu"), lambda: asked.pop(0) if asked else None)
    events = []
    for event in train(small_config(strategy="ddp", epochs=epochs), control, group=group):
        if isinstance(event, RunStarted):
            control.folder = control.given_folder
        if isinstance(event, Progress) and event.phase == "evaluating":
            # The ranks agree on one request at a time.
            asked, control.ending = [before, "stop"], True
        events.append(event)
    assert events[-1] == RunEnded(state="stopped", step=7)
    assert not of(Eval, events)
    assert not checkpoint.load(tmp_path / "checkpoints" / "step-00000007").position.evaluated


@pytest.mark.parametrize("asked", ["pause", "stop"])
def test_what_is_asked_before_a_run_goes_on_is_obeyed_before_its_next_step(tmp_path: Path, asked: str) -> None:
    config = small_config()
    unbroken = losses_of(run(config, FakeControl(tmp_path / "unbroken")))
    stopped(config, tmp_path / "broken", 3)
    events = go_on(config, FakeControl(tmp_path / "broken", {1: [asked, "stop"]}))
    assert losses_of(events) == {}
    assert [event.state for event in of(State, events)] == ["running", *(["paused"] if asked == "pause" else [])]
    assert events[-1] == RunEnded(state="stopped", step=3)
    rest = go_on(config, FakeControl(tmp_path / "broken"))
    assert losses_of(rest) == {step: loss for step, loss in unbroken.items() if step > 3}


def test_more_epochs_and_more_steps_go_on_with_the_same_losses(tmp_path: Path) -> None:
    longer = small_config(epochs=3, shuffle=True, momentum=0.9)
    unbroken = losses_of(run(longer, FakeControl(tmp_path / "unbroken")))
    run(small_config(epochs=3, max_steps=4, shuffle=True, momentum=0.9), FakeControl(tmp_path / "broken"))
    middle = go_on(small_config(epochs=1, shuffle=True, momentum=0.9), FakeControl(tmp_path / "broken"))
    assert [event.resumed_from for event in of(RunStarted, middle)] == [4]
    last = go_on(longer, FakeControl(tmp_path / "broken"))
    assert losses_of(middle) | losses_of(last) == {step: loss for step, loss in unbroken.items() if step > 4}


def test_nothing_left_to_do_is_finished_at_once(tmp_path: Path) -> None:
    run(small_config(epochs=1), FakeControl(tmp_path))
    events = go_on(small_config(epochs=1), FakeControl(tmp_path))
    assert (losses_of(events), events[-1]) == ({}, RunEnded(state="finished", step=7))


# -- damage -----------------------------------------------------------------------------------------------------------


def damage(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)


def test_a_damaged_checkpoint_is_named_and_set_aside_and_the_one_before_is_taken(tmp_path: Path) -> None:
    config = small_config(epochs=2, checkpoint_every_steps=2, shuffle=True)
    unbroken = losses_of(run(config, FakeControl(tmp_path / "unbroken")))
    stopped(config, tmp_path / "run", 6)
    parent = tmp_path / "run" / "checkpoints"
    damage(parent / "step-00000006", "model.safetensors")
    (parent / "step-00000004" / "manifest.json").unlink()
    events = go_on(config, FakeControl(tmp_path / "run"))
    warnings = [event.text for event in of(Notice, events) if event.level == "warning"]
    assert warnings == [
        "A damaged checkpoint is not used: step-00000006: model.safetensors is not as it was written (SHA-256 differs); "
        "it is set aside as damaged-step-00000006, and the one before is taken.",
        "A damaged checkpoint is not used: step-00000004: manifest.json cannot be read: No such file or directory; "
        "it is set aside as damaged-step-00000004, and the one before is taken.",
    ]
    assert of(RunStarted, events)[0].resumed_from == 2
    assert losses_of(events) == {step: loss for step, loss in unbroken.items() if step > 2}
    assert (parent / "damaged-step-00000006" / "model.safetensors").exists()
    checkpoint.load(parent / "step-00000014")


def test_what_is_damaged_is_set_aside_under_a_free_name_or_said_to_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("step-00000006", "damaged-step-00000006"):
        (tmp_path / name).mkdir()

    def refuse(path: Path, target: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        [stays] = newest_valid(tmp_path)
    assert stays.text.endswith("; it cannot be set aside, and the one before is taken.")
    [goes] = newest_valid(tmp_path)
    assert goes.text.endswith("; it is set aside as damaged-step-00000006-1, and the one before is taken.")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged-step-00000006", "damaged-step-00000006-1"]


def test_without_a_valid_checkpoint_the_run_fails_with_a_sentence(tmp_path: Path) -> None:
    config = small_config(checkpoint_every_steps=2)
    stopped(config, tmp_path, 4)
    for folder in checkpoint.checkpoints(tmp_path / "checkpoints"):
        damage(folder, "state.json")
    events = go_on(config, FakeControl(tmp_path))
    assert not of(RunStarted, events)
    assert events[-1] == RunEnded(
        state="failed", step=0, error="the run cannot go on: none of its 2 checkpoints can be used; start it anew."
    )
    assert go_on(config, FakeControl(tmp_path))[-1].error == "the run cannot go on: it was never saved; start it anew."


def unreadable(monkeypatch: pytest.MonkeyPatch, *names: str, number: int = errno.EIO) -> None:
    """Checkpoints of these names whose weights the system does not let be read."""
    real = Path.open

    def opened(path: Path, *how: Any, **named: Any) -> Any:
        if path.name == "model.safetensors" and path.parent.name in names:
            raise OSError(number, os.strerror(number))
        return real(path, *how, **named)

    monkeypatch.setattr(Path, "open", opened)


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ESTALE])
def test_a_checkpoint_that_cannot_be_read_for_now_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    config = small_config(epochs=2, checkpoint_every_steps=2, shuffle=True)
    unbroken = losses_of(run(config, FakeControl(tmp_path / "unbroken")))
    stopped(config, tmp_path / "run", 6)
    parent = tmp_path / "run" / "checkpoints"
    with monkeypatch.context() as patch:
        unreadable(patch, "step-00000006", number=number)
        control = FakeControl(tmp_path / "run", {2: ["stop"]})
        control.folder = control.given_folder
        events = []
        for event in train(config, control):
            events.append(event)
            if isinstance(event, RunStarted):
                assert (parent / "step-00000006").is_dir()
    warnings = [event.text for event in of(Notice, events) if event.level == "warning"]
    assert warnings == [
        "A checkpoint is left where it is, because it cannot be read now: step-00000006: model.safetensors cannot be read: "
        f"{os.strerror(number)}; the one before is taken."
    ]
    # Nor is it thrown away when it is in the way of those that come now.
    text = "step-00000006, which could not be read when the run went on, is set aside as unread-step-00000006: its steps are made again."
    assert of(Notice, events)[-1].text == text
    assert checkpoint.load(parent / "unread-step-00000006").position.step == 6
    assert of(RunStarted, events)[0].resumed_from == 4
    # It goes on from the step that it has come to, and not from the one that can be read again by now.
    rest = go_on(config, FakeControl(tmp_path / "run"))
    assert of(RunStarted, rest)[0].resumed_from == 5
    assert losses_of(events) | losses_of(rest) == {step: loss for step, loss in unbroken.items() if step > 4}


def test_a_run_none_of_whose_checkpoints_can_be_read_for_now_is_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(small_config(), tmp_path, 2)
    unreadable(monkeypatch, "step-00000002")
    error = go_on(small_config(), FakeControl(tmp_path))[-1].error
    assert error == "the run cannot go on: none of its 1 checkpoints can be used; try again when they can be read."
    assert (tmp_path / "checkpoints" / "step-00000002").is_dir()


@pytest.mark.parametrize(("format_", "age"), [(2, "a newer"), (0, "an older")])
def test_another_format_is_left_alone_and_named(tmp_path: Path, format_: int, age: str) -> None:
    config = small_config(checkpoint_every_steps=2)
    stopped(config, tmp_path, 4)
    manifest = tmp_path / "checkpoints" / "step-00000004" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": format_}))
    error = go_on(config, FakeControl(tmp_path))[-1].error
    assert error == f"step-00000004: {age} tuitrain wrote it (format {format_}, and this one reads 1); use that tuitrain."
    assert manifest.exists()


def test_what_another_version_holds_beside_is_no_damage(tmp_path: Path) -> None:
    stopped(small_config(checkpoint_every_steps=2), tmp_path, 4)
    saved = tmp_path / "checkpoints" / "step-00000004"
    state, manifest = (json.loads((saved / name).read_text()) for name in ("state.json", "manifest.json"))
    state["position"]["moon"] = "full"
    content = json.dumps(state).encode()
    manifest["files"]["state.json"] = hashlib.sha256(content).hexdigest()
    (saved / "state.json").write_bytes(content)
    (saved / "manifest.json").write_text(json.dumps(manifest))
    error = go_on(small_config(checkpoint_every_steps=2), FakeControl(tmp_path))[-1].error
    assert error is not None
    assert error.startswith("step-00000004: it holds other things than this tuitrain's checkpoints (TypeError: ")
    assert error.endswith("; use the tuitrain that wrote it.")
    assert saved.is_dir()


def test_what_a_killed_process_left_half_done_is_taken_away(tmp_path: Path) -> None:
    parent = tmp_path / "checkpoints"
    stopped(small_config(), tmp_path, 3)
    (parent / ".step-00000009").mkdir()
    (parent / ".old-step-00000001").mkdir()
    # Killed between the two renames that replace a checkpoint by another one of the same step.
    (parent / "step-00000003").rename(parent / f"{snapshot.REPLACED}step-00000003")
    found = None
    looking = newest_valid(parent)
    try:
        next(looking)
    except StopIteration as end:
        found = end.value
    assert found is not None
    assert found.position.step == 3
    assert sorted(path.name for path in parent.iterdir()) == ["step-00000003"]


# -- what is no longer exact, and what does not fit -------------------------------------------------------------------


def inexact(events: list[Any]) -> str:
    (text,) = [event.text for event in of(Notice, events) if "bit for bit" in event.text]
    return str(text)


def test_other_devices_go_on_and_say_what_is_no_longer_exact(tmp_path: Path) -> None:
    config = small_config(device="cpu,cpu")
    stopped(config, tmp_path, 3)
    events = go_on(small_config(device="cpu"), FakeControl(tmp_path))
    assert inexact(events) == (
        "From step 4 on the losses are not bit for bit those of a run that was never interrupted: "
        "it trains on cpu (single), and did on cpu,cpu (split)."
    )
    assert sorted(losses_of(events)) == list(range(4, 15))


def test_a_configuration_that_is_another_by_damage_or_by_hand_is_said(tmp_path: Path) -> None:
    stopped(small_config(), tmp_path, 3)
    events = go_on(small_config(seed=1, checkpoint_every_steps=5), FakeControl(tmp_path))
    assert inexact(events) == (
        "From step 4 on the losses are not bit for bit those of a run that was never interrupted: seed is 1, and was 0."
    )


def test_the_number_of_threads_is_restored_and_given_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    config = small_config(epochs=1, data="engine_small:make_large_images", model="seed-cnn", batch_size=4)
    try:
        torch.set_num_threads(before + 1)
        unbroken = losses_of(run(config, FakeControl(tmp_path / "unbroken")))
        stopped(config, tmp_path / "run", 1)
    finally:
        torch.set_num_threads(before)
    control = FakeControl(tmp_path / "run")
    events = go_on(config, control)
    assert control.environment["threads"] == before + 1
    assert torch.get_num_threads() == before
    assert not [event for event in of(Notice, events) if "bit for bit" in event.text]
    assert losses_of(events) == {step: loss for step, loss in unbroken.items() if step > 1}


def test_on_other_devices_the_number_of_threads_is_the_machines_own(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        stopped(small_config(device="cpu,cpu"), tmp_path, 3)
    finally:
        torch.set_num_threads(before)
    control = FakeControl(tmp_path)
    assert "threads" not in inexact(go_on(small_config(device="cpu"), control))
    assert control.environment["threads"] == before


def test_another_torch_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(small_config(), tmp_path, 3)
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    assert "torch is 9.9.9, and was " in inexact(go_on(small_config(), FakeControl(tmp_path)))


@pytest.mark.parametrize(
    ("layer", "device", "said"),
    [
        (nn.LSTM(3, 4, num_layers=2, dropout=0.1), "cuda:1", True),
        (nn.LSTM(3, 4, num_layers=2, dropout=0.1), "cpu", False),
        (nn.LSTM(3, 4, num_layers=2), "cuda:1", False),
        (nn.Dropout(0.1), "cuda:1", False),
    ],
    ids=["gpu", "cpu", "no-dropout", "not-recurrent"],
)
def test_dropout_that_only_cudnn_knows_is_said(tmp_path: Path, layer: nn.Module, device: str, said: bool) -> None:
    stopped(small_config(), tmp_path, 3)
    contents = checkpoint.load(checkpoint.checkpoints(tmp_path / "checkpoints")[-1])
    missing = unsaved(nn.Sequential(nn.Flatten(), layer), [torch.device("cpu"), torch.device(device)])
    texts = [notice.text for notice in check_fits(contents, contents.origin, 7, missing)]
    sentence = (
        "From step 4 on the losses are not bit for bit those of a run that was never interrupted: "
        "cuDNN alone knows what the dropout between recurrent layers draws."
    )
    assert texts == [sentence] * said


def test_a_run_that_goes_on_looks_for_what_was_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(small_config(), tmp_path, 3)
    monkeypatch.setattr(train_module, "unsaved", lambda model, devices: [f"a {type(model).__name__} on {devices[0]}"])
    assert inexact(go_on(small_config(), FakeControl(tmp_path))).endswith(": a Sequential on cpu.")


def test_other_data_is_refused(tmp_path: Path) -> None:
    stopped(small_config(), tmp_path, 3)
    with pytest.raises(ConfigError, match="data: the run was trained on 50 training samples, and there are 12 now"):
        go_on(small_config(data="engine_small:make_large_images", model="seed-cnn"), FakeControl(tmp_path))


@pytest.mark.parametrize("part", ["a training label", "a test label", "the images", "nothing"])
def test_other_samples_or_labels_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    stopped(small_config(), tmp_path, 3)
    train_part, test_part = engine_small.make_images(None)
    if part == "the images":
        train_part = (train_part[0].flip(0), train_part[1])
    elif part != "nothing":
        labels = (train_part if part == "a training label" else test_part)[1]
        labels[7] = (labels[7] + 1) % engine_small.CLASSES
    monkeypatch.setattr(engine_small, "make_images", lambda config: (train_part, test_part))
    texts = [event.text for event in of(Notice, go_on(small_config(), FakeControl(tmp_path))) if "The data is not what" in event.text]
    assert [text.partition(":")[0] for text in texts] == ["The data is not what the run was trained on up to step 3"] * (part != "nothing")


def test_another_model_is_refused_before_the_run_goes_on(tmp_path: Path) -> None:
    stopped(small_config(), tmp_path, 3)
    events: list[Any] = []
    with pytest.raises(ConfigError, match=r"model: the checkpoint does not fit this model: .*(Missing key|size mismatch)"):
        events.extend(going_on(small_config(model="engine_small:make_tied"), tmp_path))
    assert not of(RunStarted, events)


def going_on(config: RunConfig, folder: Path) -> Any:
    """The events of a run that goes on, one by one."""
    control = FakeControl(folder)
    control.folder = folder
    return train(config, control)
