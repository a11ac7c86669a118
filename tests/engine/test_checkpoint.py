from __future__ import annotations

import errno
import json
import os
import random
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from engine_small import CLASSES, FakeControl, go_on, losses_of, of, run, small_config
from torch import nn

from tuitrain.config import RunConfig
from tuitrain.engine import checkpoint, keeper, snapshot
from tuitrain.engine.batches import Batches
from tuitrain.engine.checkpoint import BadCheckpoint, Position
from tuitrain.engine.criterion import make_criterion
from tuitrain.engine.data import load_data
from tuitrain.engine.keeper import Shelf
from tuitrain.engine.models import build_model
from tuitrain.engine.optim import autocast, make_optimizer, may_fuse, update
from tuitrain.engine.predictions import Answers
from tuitrain.engine.snapshot import Snapshot
from tuitrain.engine.strategies.single import Single
from tuitrain.engine.train import train
from tuitrain.events import Checkpoint, Notice, Progress, RunEnded, RunStarted, State, Step, encode
from tuitrain.paths import MANIFEST

CPU = torch.device("cpu")


def saved(tmp_path: Path, **changes: Any) -> Path:
    events = run(small_config(epochs=1, **changes), FakeControl(tmp_path))
    return Path(of(Checkpoint, events)[0].path)


def loaded_data(config: Any) -> Any:
    loading = load_data(config, lambda: False)
    try:
        while True:
            next(loading)
    except StopIteration as stop:
        return stop.value


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    "changes",
    [
        {"momentum": 0.9},
        {"optimizer": "adam", "shuffle": True, "augment": "crop-flip"},
        {"optimizer": "adamw", "model": "engine_small:make_dropout_net", "batch_size": 10},
        {"precision": "bf16", "momentum": 0.9, "shuffle": True},
    ],
    ids=["momentum", "adam", "dropout", "bf16"],
)
def test_a_restored_run_goes_on_bit_for_bit(tmp_path: Path, changes: Any) -> None:
    config = small_config(epochs=3, lr=0.05, checkpoint_every_steps=9, keep_checkpoints=9, **changes)
    unbroken = losses_of(run(config, FakeControl(tmp_path)))
    contents = checkpoint.load(tmp_path / "checkpoints" / "step-00000009")

    random.seed(99)
    np.random.seed(99)
    model = build_model(config).train()
    optimizer = make_optimizer(config, model, fused=may_fuse(model, config.optimizer))
    model = model.to(memory_format=torch.channels_last)
    torch.manual_seed(99)
    checkpoint.restore(contents, model, optimizer, CPU)
    buffers = [
        buffer for values in optimizer.state.values() for buffer in values.values() if isinstance(buffer, torch.Tensor) and buffer.dim()
    ]
    assert sorted(buffer.stride() for buffer in buffers) == sorted(
        parameter.stride() for parameter in model.parameters() for _ in range(len(buffers) // len(optimizer.state))
    )
    strategy = Single(model, make_criterion(config), CPU, autocast(config, CPU))
    batches = Batches(loaded_data(config).train, config)
    move = update(optimizer)

    at = contents.position
    per_epoch = batches.per_epoch
    assert (at.step, at.epoch, at.batches) == (9, 2, 9 - per_epoch)
    for step in range(10, 3 * per_epoch + 1):
        epoch, position = (step - 1) // per_epoch + 1, (step - 1) % per_epoch
        loss = strategy.step(*batches.get(epoch, position, step))
        move()
        optimizer.zero_grad()
        assert loss.item() == unbroken[step], f"step {step}"


def test_python_and_numpy_generators_come_back(tmp_path: Path) -> None:
    contents = checkpoint.load(saved(tmp_path))
    model = build_model(small_config())
    optimizer = make_optimizer(small_config(), model)
    checkpoint.restore(contents, model, optimizer, CPU)
    drawn = random.random(), float(np.random.rand()), float(torch.rand(()))
    checkpoint.restore(contents, model, optimizer, CPU)
    assert drawn == (random.random(), float(np.random.rand()), float(torch.rand(())))
    assert contents.origin["threads"] == torch.get_num_threads()


def test_the_position_says_where_the_run_is(tmp_path: Path) -> None:
    events = run(small_config(), FakeControl(tmp_path, {3: ["stop"]}))
    stopped = checkpoint.load(Path(of(Checkpoint, events)[0].path))
    assert stopped.position == Position(step=3, epoch=1, batches=3, evaluated=False, best_accuracy=None)
    done = checkpoint.load(saved(tmp_path / "whole")).position
    assert (done.step, done.epoch, done.batches, done.evaluated) == (7, 1, 7, True)
    assert done.best_accuracy is not None


def test_the_manifest_names_every_file(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["format"], manifest["kind"], manifest["step"]) == (1, "epoch", 7)
    assert sorted(manifest["files"]) == sorted(path.name for path in folder.iterdir() if path.name != "manifest.json")
    assert sorted(path.name for path in folder.parent.iterdir()) == ["best", "step-00000007"]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"])
def test_a_flipped_bit_is_found(tmp_path: Path, name: str) -> None:
    folder = saved(tmp_path, momentum=0.9)
    flip(folder / name)
    with pytest.raises(BadCheckpoint, match=f"step-00000007: {name} is not as it was written"):
        checkpoint.load(folder)


@pytest.mark.parametrize(
    "damage", ["missing file", "missing manifest", "cut manifest", "other format", "unlisted file", "list as manifest", "list of files"]
)
def test_a_damaged_checkpoint_is_a_sentence(tmp_path: Path, damage: str) -> None:
    folder = saved(tmp_path)
    manifest = folder / "manifest.json"
    if damage == "missing file":
        (folder / "model.safetensors").unlink()
    elif damage == "missing manifest":
        manifest.unlink()
    elif damage == "cut manifest":
        manifest.write_bytes(manifest.read_bytes()[:20])
    elif damage == "other format":
        manifest.write_text(manifest.read_text().replace('"format": 1', '"format": "x"'))
    elif damage == "unlisted file":
        manifest.write_text(manifest.read_text().replace("optimizer.safetensors", "another.safetensors"))
    else:
        manifest.write_text("[]" if damage == "list as manifest" else '{"format": 1, "files": []}')
    with pytest.raises(BadCheckpoint, match=r"step-00000007: .*\.$"):
        checkpoint.load(folder)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    contents = checkpoint.load(saved(tmp_path))
    other = nn.Linear(3, 2)
    with pytest.raises(BadCheckpoint, match="does not fit"):
        checkpoint.restore(contents, other, torch.optim.SGD(other.parameters(), lr=0.1), CPU)
    first, *rest = (model := build_model(small_config())).parameters()
    with pytest.raises(BadCheckpoint, match="does not fit"):
        checkpoint.restore(contents, model, torch.optim.SGD([{"params": [first]}, {"params": rest}], lr=0.1), CPU)


def test_tied_weights_are_saved(tmp_path: Path) -> None:
    contents = checkpoint.load(saved(tmp_path, model="engine_small:make_tied"))
    assert torch.equal(contents.model["first.weight"], contents.model["second.weight"])


def test_a_failing_save_leaves_nothing_and_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.fsync, 0

    def full_disk(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full_disk)
    events = run(small_config(checkpoint_every_steps=2, epochs=1), FakeControl(tmp_path))
    warning = next(event for event in of(Notice, events) if event.level == "warning")
    assert warning.text == "The checkpoint at step 2 could not be saved: No space left on device. Training goes on."
    assert [event.step for event in of(Checkpoint, events) if event.kind == "last"] == [4, 6]
    assert events[-1] == RunEnded(state="finished", step=7)
    assert not (tmp_path / "checkpoints" / "step-00000002").exists()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir() if path.name.startswith(".")] == []


def test_a_save_that_fails_in_words_that_end_with_a_full_stop_is_told_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError("Some tensors share memory.\nSee the documentation.")

    monkeypatch.setattr(snapshot, "write", failing)
    parts = dict.fromkeys(snapshot.Snapshot.__annotations__)
    told = Shelf(tmp_path, 1).put("manual", Position(7, 1, 7, True), snapshot.Snapshot(**parts), best=False)
    text = "The checkpoint at step 7 could not be saved: Some tensors share memory. Training goes on."
    assert told == [Notice(level="warning", text=text)]


def test_a_best_that_cannot_be_noted_is_said_as_that_and_noted_with_the_next_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = keeper.write_atomically, 0

    def failing(path: Path, content: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError(errno.EIO, "Input/output error")
        real(path, content)

    monkeypatch.setattr(keeper, "write_atomically", failing)
    events = run(small_config(epochs=1, checkpoint_every_steps=8), FakeControl(tmp_path))
    parent = tmp_path / "checkpoints"
    warnings = [event.text for event in of(Notice, events) if event.level == "warning"]
    assert warnings == [
        "The checkpoint at step 7 is saved, and could not be noted as the best: Input/output error. The next save tries again."
    ]
    assert [(event.step, event.kind) for event in of(Checkpoint, events)] == [(7, "epoch")]
    shelf = Shelf(parent, 1)
    first = shelf.put("manual", position := Position(7, 1, 7, True, 0.5), None, best=False)
    assert [told.kind for told in first if isinstance(told, Checkpoint)] == ["manual"]
    calls = 0
    assert [type(told) for told in shelf.put("epoch", position, None, best=True)] == [Checkpoint, Notice]
    assert checkpoint.best(parent) is None
    assert [told.kind for told in shelf.put("manual", position, None, best=False) if isinstance(told, Checkpoint)] == ["manual", "best"]
    assert checkpoint.best(parent) == parent / "step-00000007"


def test_a_folder_whose_name_is_not_utf_8_can_be_told(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"r\xe9seau")
    folder.mkdir()
    events = run(small_config(epochs=1), FakeControl(folder))
    assert checkpoint.load(folder / "checkpoints" / "step-00000007")
    assert "r\ufffdseau/checkpoints/step-00000007" in encode(of(Checkpoint, events)[0])


def test_an_unwritable_folder_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    events = run(small_config(epochs=1), FakeControl(tmp_path))
    assert of(Checkpoint, events) == []
    assert any("could not be saved" in event.text for event in of(Notice, events))
    assert events[-1].state == "finished"


def score(monkeypatch: pytest.MonkeyPatch, *accuracies: float) -> None:
    """What the evaluations find, one after the other."""
    from tuitrain.engine.evaluate import Evaluator, Score

    left = iter(accuracies)

    def scored(self: Evaluator) -> Any:
        answers = Answers(self.split)
        answers.add(torch.zeros(len(self.split), CLASSES))
        return Score(1.0, 1.0, next(left), answers)
        yield

    monkeypatch.setattr(Evaluator, "run", scored)


def test_the_newest_and_the_best_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score(monkeypatch, 0.2, 0.9, 0.3, 0.9, 0.4, 0.5)
    events = run(small_config(epochs=6, keep_checkpoints=2), FakeControl(tmp_path))
    parent = tmp_path / "checkpoints"
    assert [path.name for path in checkpoint.checkpoints(parent)] == ["step-00000014", "step-00000035", "step-00000042"]
    assert checkpoint.best(parent) == parent / "step-00000014"
    told = [(event.step, event.path) for event in of(Checkpoint, events) if event.kind == "best"]
    assert told == [(7, str(parent / "step-00000007")), (14, str(parent / "step-00000014"))]
    assert [path.name for path in parent.iterdir() if path.name.startswith(".")] == []


def saved_where_epochs_fly(config: RunConfig, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> list[int]:
    """The epochs of which checkpoints of a kind are told, where all epochs take no time but the 21st, before which a second goes by."""
    now, saved, control = [0.0], [], FakeControl(folder)
    monkeypatch.setattr(keeper, "time", SimpleNamespace(monotonic=lambda: now[0]))
    # The disk is waited for after each step: a write in which the clock was set forward would count as a long one.
    monkeypatch.setattr(keeper.Keeper, "news", keeper.Keeper.drain)
    for event in train(config, control):
        if isinstance(event, RunStarted):
            control.folder = folder
        elif isinstance(event, Step) and event.step == 20 * 7 + 1:
            now[0] = 1.0
        elif isinstance(event, Checkpoint) and event.kind == kind:
            saved.append(event.step // 7)
    return saved


@pytest.mark.parametrize("test_data", [True, False])
def test_where_epochs_fly_not_each_one_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test_data: bool) -> None:
    """A small data set's epoch takes a fraction of what a checkpoint does."""
    if test_data:
        score(monkeypatch, *[0.2] * 14, 0.9, *[0.3] * 9)
    else:
        monkeypatch.setattr(keeper, "FIRST_EPOCHS", 14)
    config = small_config(epochs=24, **({} if test_data else {"data": "engine_small:make_images_without_test"}))
    saved = saved_where_epochs_fly(config, tmp_path, monkeypatch, "epoch")
    # The first ones, the best one, the one after a second, and the last.
    assert saved == ([*range(1, 11), 15, 21, 24] if test_data else [*range(1, 15), 21, 24])


def no_room(monkeypatch: pytest.MonkeyPatch, at: Callable[[int], bool]) -> None:
    """The disk is full when these steps are saved."""
    real = snapshot.write

    def write(parent: Path, kind: Any, taken: Snapshot) -> Path:
        if at(taken.position.step):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(parent, kind, taken)

    monkeypatch.setattr(snapshot, "write", write)


def test_a_run_that_waits_for_its_disk_says_that_it_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes no steps then, and is no run that stands still."""
    real, may_go_on = snapshot.write, threading.Event()

    def write(parent: Path, kind: Any, taken: Snapshot) -> Path:
        assert may_go_on.wait(20)
        return real(parent, kind, taken)

    monkeypatch.setattr(snapshot, "write", write)
    monkeypatch.setattr(keeper, "_UNSAID_SECONDS", 0.01)
    control = FakeControl(tmp_path)
    events: list[Any] = []
    for event in train(small_config(epochs=2), control):
        events.append(event)
        if isinstance(event, RunStarted):
            control.folder = tmp_path
        elif event == Progress(phase="saving"):
            may_go_on.set()
    assert Progress(phase="saving") in events
    assert [event.step for event in of(Checkpoint, events) if event.kind == "epoch"] == [7, 14]


def test_the_best_is_the_best_of_those_that_could_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score(monkeypatch, 0.2, 0.9, 0.5, 0.4)
    no_room(monkeypatch, lambda step: step == 14)
    events = run(small_config(epochs=3), FakeControl(tmp_path))
    assert [event.step for event in of(Checkpoint, events) if event.kind == "best"] == [7, 21]
    parent = tmp_path / "checkpoints"
    assert checkpoint.best(parent) == parent / "step-00000021"
    # Who goes on from there knows how good that is.
    events = go_on(small_config(epochs=4), FakeControl(tmp_path))
    assert (of(RunStarted, events)[0].resumed_from, events[-1].step) == (21, 28)
    assert checkpoint.best(parent) == parent / "step-00000021"


@pytest.mark.parametrize(
    ("room", "again"), [(13, "it goes on from step 7 when it is resumed"), (0, "there is none to go on from")], ids=["earlier", "none"]
)
def test_an_end_that_could_not_be_saved_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, again: str) -> None:
    no_room(monkeypatch, lambda step: step > room)
    events = run(small_config(epochs=2), FakeControl(tmp_path))
    text = f"The run ends at step 14 without a checkpoint of that step; {again}."
    assert events[-2:] == [Notice(level="warning", text=text), RunEnded(state="finished", step=14)]
    failed = [notice.text.endswith(" Training goes on.") for notice in of(Notice, events) if "could not be saved" in notice.text]
    assert failed == [*([True] if room < 7 else []), False]


def test_a_run_folder_that_has_gone_is_not_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, folder = snapshot.write, tmp_path / "run"

    def write(parent: Path, kind: Any, taken: Snapshot) -> Path:
        if taken.position.step == 4:
            folder.rename(tmp_path / "elsewhere")
        return real(parent, kind, taken)

    monkeypatch.setattr(snapshot, "write", write)
    events = run(small_config(epochs=1, checkpoint_every_steps=2), FakeControl(folder, {5: ["stop"]}))
    gone = "could not be saved: the run's folder is not there any more."
    assert [notice.text for notice in of(Notice, events)][-3:] == [
        f"The checkpoint at step 4 {gone} Training goes on.",
        f"The checkpoint at step 5 {gone}",
        "The run ends at step 5 without a checkpoint of that step; it goes on from step 2 when it is resumed.",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "elsewhere" / "checkpoints")] == ["step-00000002"]


def test_a_step_that_is_saved_already_is_only_told_again(tmp_path: Path) -> None:
    events = run(small_config(), FakeControl(tmp_path, {3: ["checkpoint", "stop"]}))
    assert [(event.step, event.kind) for event in of(Checkpoint, events)] == [(3, "manual"), (3, "last")]
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "checkpoints")] == ["step-00000003"]


def test_a_checkpoint_that_may_not_be_entered_is_none_that_is_complete(as_another_user: Callable[[Callable[[], object]], None]) -> None:
    # pytest's own folders are closed to other users.
    with tempfile.TemporaryDirectory() as theirs:
        os.chmod(theirs, 0o755)
        for name in ("step-00000001", "step-00000002"):
            (Path(theirs) / name).mkdir(mode=0o755)
            (Path(theirs) / name / MANIFEST).touch()
        (Path(theirs) / "step-00000002").chmod(0)
        found = []
        as_another_user(lambda: found.extend(checkpoint.checkpoints(Path(theirs))))
        (Path(theirs) / "step-00000002").chmod(0o700)
    assert [path.name for path in found] == ["step-00000001"]


def test_minutes_make_checkpoints_due_when_the_one_before_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fourth = threading.Event()
    begun: list[int] = []
    real = snapshot.write

    def slow(parent: Path, kind: Any, taken: Snapshot) -> Path:
        begun.append(taken.position.step)
        assert fourth.wait(60)
        return real(parent, kind, taken)

    class Watching(FakeControl):
        def take(self, *, wait: bool) -> Any:
            if self.boundary == 4:
                assert begun == [1]
                fourth.set()
            return super().take(wait=wait)

    monkeypatch.setattr(snapshot, "write", slow)
    events = run(small_config(epochs=1, checkpoint_every_minutes=1e-9), Watching(tmp_path))
    assert [event.step for event in of(Checkpoint, events) if event.kind != "best"] == begun
    assert begun[0] == 1
    assert begun[-1] == 7
    assert not {2, 3, 4} & set(begun)


def test_a_disk_has_rest_after_a_checkpoint_that_took_long_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, took = [0.0], [3.0]
    real = snapshot.write

    def slow(parent: Path, kind: Any, taken: Snapshot) -> Path:
        now[0] += took[0]
        return real(parent, kind, taken)

    monkeypatch.setattr(keeper, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(snapshot, "write", slow)
    model = nn.Linear(2, 2)
    (tmp_path / "checkpoints").mkdir()
    config = small_config(checkpoint_every_minutes=0.1, checkpoint_every_steps=100)
    kept = keeper.Keeper(tmp_path / "checkpoints", config, model, torch.optim.SGD(model.parameters(), lr=0.1), [CPU], {})

    def save(kind: Any, step: int, accuracy: float, epoch: int = 11) -> list[int]:
        told = [*kept.save(kind, Position(step, epoch, 1, True), accuracy), *kept.drain()]
        return [event.step for event in told if isinstance(event, Checkpoint) and event.kind == kind]

    assert (now[0], kept.due(1)) == (0, False)
    now[0] = 6.0
    assert kept.due(1)
    assert save("last", 1, 0.5) == [1]
    # Six seconds later it is asked for again, but the disk was busy for three, until the ninth.
    for now[0] in (12.0, 38.9):
        assert not kept.due(2)
        assert save("epoch", 2, 0.4) == []
    assert kept.due(100), "what counts by steps waits for nothing"
    assert (save("epoch", 3, 0.4, epoch=10), save("epoch", 4, 0.6), save("manual", 5, 0.4)) == ([3], [4], [5])
    took[0] = 3600.0
    assert save("epoch", 6, 0.7) == [6]
    began = now[0]
    now[0] = began + 1799
    assert not kept.due(7)
    now[0] = began + 1800
    assert kept.due(7)
    assert save("epoch", 7, 0.4) == [7]
    kept.close()


def test_a_snapshot_takes_the_memory_of_a_spent_one() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 36, 3)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step() -> Snapshot:
        model(torch.randn(4, 3, 8, 8)).square().sum().backward()
        optimizer.step()
        return snapshot.take(Position(1, 1, 1, False), model, optimizer, [CPU], {}, None, taken)

    def content(which: Snapshot) -> list[dict[str, Any]]:
        return [{name: value.tolist() for name, value in named.items()} for named in (which.model, which.optimizer)]

    taken = None
    taken = step()
    places = [value.data_ptr() for named in (taken.model, taken.optimizer) for value in named.values()]
    before = content(taken)
    # In order, because an operation on it in the writing thread would cost training.
    assert all(value.is_contiguous() for value in taken.model.values())
    taken = step()
    assert [value.data_ptr() for named in (taken.model, taken.optimizer) for value in named.values()] == places
    fresh = snapshot.take(Position(1, 1, 1, False), model, optimizer, [CPU], {})
    assert content(taken) == content(fresh) != before
    # One that does not fit, because it is of another type, is left alone.
    model.half()
    half = snapshot.take(Position(1, 1, 1, False), model, optimizer, [CPU], {}, None, taken)
    assert {value.dtype for name, value in half.model.items() if name != "1.num_batches_tracked"} == {torch.float16}
    assert content(taken) == content(fresh)


def test_a_save_costs_the_training_thread_a_copy_and_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        threads.append(threading.current_thread())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    run(small_config(), FakeControl(tmp_path, {3: ["checkpoint"]}))
    assert threads
    assert threading.current_thread() not in threads
    assert not any(thread.is_alive() for thread in threads)


def test_while_paused_a_checkpoint_is_told_when_it_is_on_disk(tmp_path: Path) -> None:
    control = FakeControl(tmp_path, {2: ["checkpoint", "pause", "checkpoint", "resume", "stop"]})
    events = run(small_config(), control)
    told = [event for event in events if isinstance(event, (Checkpoint, State))]
    kinds = [event.kind if isinstance(event, Checkpoint) else event.state for event in told]
    assert kinds == ["running", "paused", "manual", "manual", "running", "last"]


def test_none_goes_before_two_others_have_been_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config(checkpoint_every_steps=1, keep_checkpoints=2, data="engine_small:make_images_without_test")
    real = snapshot.write

    def flipping(parent: Path, kind: Any, taken: Snapshot) -> Path:
        folder = real(parent, kind, taken)
        if taken.position.step in (4, 5, 6):
            flip(folder / "model.safetensors")
        return folder

    monkeypatch.setattr(snapshot, "write", flipping)
    run(config, FakeControl(tmp_path, {6: ["stop"]}))
    left = [folder.name for folder in checkpoint.checkpoints(tmp_path / "checkpoints")]
    assert left == [f"step-0000000{step}" for step in (2, 3, 4, 5, 6)]
    assert checkpoint.load(tmp_path / "checkpoints" / "step-00000003").position.step == 3


def flip(path: Path) -> None:
    """Flip one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_name_in_best_that_leads_elsewhere_is_ignored(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder.parent / "best").write_text("../../elsewhere\n")
    assert checkpoint.best(folder.parent) is None


def test_what_a_killed_process_left_of_the_name_of_the_best_goes_when_the_run_goes_on(tmp_path: Path) -> None:
    left = saved(tmp_path).parent / ".best.77"
    left.touch()
    snapshot.tidy(left.parent)
    assert not left.exists()
    assert checkpoint.best(left.parent) is not None


def test_a_checkpoint_that_cannot_be_replaced_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    final, temporary = tmp_path / "step-00000004", tmp_path / ".step-00000004"
    for folder in (final, temporary):
        folder.mkdir()
        (folder / "content").write_text(folder.name)
    really = Path.rename

    def full(path: Path, target: Path) -> Path:
        if path == temporary:
            raise OSError(28, "No space left on device")
        return really(path, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space"):
        snapshot._put_in_place(temporary, final)
    assert (final / "content").read_text() == final.name
