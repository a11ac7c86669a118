"""Steps that are recorded and replayed, by a stand-in for the GPU: which are, which are not, and that nobody sees it in the losses."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_small import CLASSES, SAMPLES, FakeControl, go_on, losses_of, of, run, small_config
from fake_recorder import FakeRecorder, count_as_built_in, fake_step_graphs
from torch import Tensor, nn

from tuitrain.engine import checkpoint
from tuitrain.engine.graphs import WARM_UP, step_graphs
from tuitrain.engine.models import build_model
from tuitrain.engine.optim import autocast, make_optimizer, may_fuse, update
from tuitrain.engine.seeding import host_generators
from tuitrain.engine.strategies.single import Single
from tuitrain.events import Eval, Event, Notice, Phases, Replicas, RunEnded, StepTimes

WHOLE, UNEVEN = SAMPLES // 8, 1
"""Steps of an epoch of batches of 8; the last one has 2 samples."""
FIELDS = ("data", "forward", "backward", "update")


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> list[FakeRecorder]:
    """Runs on the CPU are recorded as if it were a GPU, with fused updates; the recorders they made."""
    made: list[FakeRecorder] = []
    _replaying(monkeypatch, made)
    # The CPU is the device here, and its generator the one that dropout draws from.
    monkeypatch.setattr("tuitrain.engine.graphs.host_generators", list)
    return made


def _replaying(monkeypatch: pytest.MonkeyPatch, made: list[FakeRecorder], **changes: Any) -> None:
    monkeypatch.setattr("tuitrain.engine.run.may_fuse", lambda model, optimizer: True)
    monkeypatch.setattr("tuitrain.engine.run.step_graphs", fake_step_graphs(made, **changes))


def eager(monkeypatch: pytest.MonkeyPatch, folder: Path, **changes: Any) -> list[Event]:
    """The same run without any recording, its updates fused too."""
    with monkeypatch.context() as patch:
        patch.setattr("tuitrain.engine.run.may_fuse", lambda model, optimizer: True)
        patch.setattr("tuitrain.engine.run.step_graphs", lambda *given: None)
        return run(small_config(**changes), FakeControl(folder))


def said(events: list[Event]) -> list[str]:
    return [event.text for event in of(Notice, events) if "CUDA graphs" in event.text]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"momentum": 0.9, "shuffle": True, "augment": "crop-flip"},
        {"optimizer": "adam", "weight_decay": 0.01, "precision": "fp64"},
        {"optimizer": "adamw", "model": "engine_small:make_dropout_net"},
        {"precision": "bf16"},
        {"model": "engine_small:make_two_outputs"},
        {"model": "engine_small:make_tied"},
    ],
    ids=["plain", "momentum", "adam", "dropout", "bf16", "two-outputs", "tied"],
)
def test_replayed_steps_are_those_that_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorders: list[FakeRecorder], changes: dict[str, Any]
) -> None:
    plain = eager(monkeypatch, tmp_path / "plain", epochs=3, **changes)
    replayed = run(small_config(epochs=3, **changes), FakeControl(tmp_path / "replayed"))
    assert losses_of(replayed) == losses_of(plain)
    assert of(Eval, replayed) == of(Eval, plain)
    assert [event.replicas for event in of(Replicas, replayed)] == [event.replicas for event in of(Replicas, plain)]
    # All whole batches but the first ones; forward, backward and update.
    assert recorders[0].replays == [3 * WHOLE - WARM_UP] * 3
    assert not said(replayed)


def test_the_first_steps_are_done_aside_and_the_uneven_ones_are_not_replayed(tmp_path: Path, recorders: list[FakeRecorder]) -> None:
    events = run(small_config(epochs=1), FakeControl(tmp_path))
    assert recorders[0].replays == [WHOLE - WARM_UP] * 3
    # Forward and backward, and the update.
    assert recorders[0].asides == 2 * WARM_UP
    assert [event.batch[0] for event in of(Replicas, events)] == [8, 2]


def test_each_shape_is_told_when_it_changes_replayed_or_not(tmp_path: Path, recorders: list[FakeRecorder]) -> None:
    events = run(small_config(epochs=3), FakeControl(tmp_path))
    told = [(event.step, event.batch[0], event.replicas[0].output) for event in of(Replicas, events)]
    assert told == [(1, 8, (8, 4)), (7, 2, (2, 4)), (8, 8, (8, 4)), (14, 2, (2, 4)), (15, 8, (8, 4)), (21, 2, (2, 4))]


@pytest.mark.parametrize("changes", [{"lr_schedule": "triangle"}, {"lr_schedule": "triangle", "optimizer": "adam"}], ids=["sgd", "adam"])
def test_an_update_whose_numbers_change_is_not_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorders: list[FakeRecorder], changes: dict[str, Any]
) -> None:
    plain = eager(monkeypatch, tmp_path / "plain", epochs=3, **changes)
    replayed = run(small_config(epochs=3, **changes), FakeControl(tmp_path / "replayed"))
    assert losses_of(replayed) == losses_of(plain)
    forward, backward, update = recorders[0].replays
    assert forward == backward == 3 * WHOLE - WARM_UP
    # The step that it was recorded in, and where the schedule comes down through the same rate again.
    assert update <= 2


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_clipped_gradients_are_replayed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorders: list[FakeRecorder], optimizer: str
) -> None:
    changes: dict[str, Any] = {"epochs": 3, "optimizer": optimizer, "max_grad_norm": 0.05, "lr": 0.5}
    plain = losses_of(eager(monkeypatch, tmp_path / "plain", **changes))
    assert losses_of(run(small_config(**changes), FakeControl(tmp_path / "replayed"))) == plain
    assert recorders[0].replays == [3 * WHOLE - WARM_UP] * 3
    assert losses_of(eager(monkeypatch, tmp_path / "free", **{**changes, "max_grad_norm": None})) != plain


def test_an_update_that_is_not_fused_is_never_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorders: list[FakeRecorder]
) -> None:
    monkeypatch.setattr("tuitrain.engine.run.may_fuse", lambda model, optimizer: False)
    plain = run(small_config(epochs=2, optimizer="adam"), FakeControl(tmp_path / "replayed"))
    assert recorders[0].replays == [2 * WHOLE - WARM_UP] * 2
    monkeypatch.setattr("tuitrain.engine.run.step_graphs", lambda *given: None)
    assert losses_of(plain) == losses_of(run(small_config(epochs=2, optimizer="adam"), FakeControl(tmp_path / "plain")))


@pytest.mark.parametrize("at", [2, WARM_UP, WARM_UP + 1, 7, 12])
def test_a_run_that_goes_on_replays_too_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorders: list[FakeRecorder], at: int
) -> None:
    changes: dict[str, Any] = {"epochs": 3, "optimizer": "adam", "shuffle": True, "model": "engine_small:make_dropout_net"}
    whole = losses_of(eager(monkeypatch, tmp_path / "plain", **changes))
    losses = losses_of(run(small_config(**changes), FakeControl(tmp_path / "broken", {at: ["stop"]})))
    losses |= losses_of(go_on(small_config(**changes), FakeControl(tmp_path / "broken")))
    assert losses == whole
    assert len(recorders) == 2
    left = 3 * WHOLE - (at - at // 7) - WARM_UP
    assert recorders[1].replays == [left] * 3


def test_the_time_of_replayed_steps_is_told_by_phase(tmp_path: Path, recorders: list[FakeRecorder]) -> None:
    events = run(small_config(epochs=4), FakeControl(tmp_path))
    whole = sum((event.phases for event in of(StepTimes, events)), Phases())
    assert sum(event.steps for event in of(StepTimes, events)) == 4 * (WHOLE + UNEVEN) - 1
    assert min(getattr(whole, field) for field in FIELDS) > 0


# -- what is not recorded -------------------------------------------------------------------------------------------------


class Counting(nn.Module):
    """Keeps count in Python; after 10 steps it is another network."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(192, CLASSES)
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += self.training
        scores: Tensor = self.layer(inputs.flatten(1))
        return scores * 2 if self.calls > 10 else scores


class Drawing(nn.Module):
    """Skips its layer now and then, by a generator of the host."""

    def __init__(self, draw: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(192, CLASSES)
        self.draw = draw

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.layer(inputs.flatten(1))
        return scores if self.training and self.draw() < 0.5 else scores * 2


def make_counting(config: Any) -> nn.Module:
    return Counting()


def make_drawing_python(config: Any) -> nn.Module:
    return Drawing(random.random)


def make_drawing_numpy(config: Any) -> nn.Module:
    return Drawing(np.random.rand)


def make_drawing_torch(config: Any) -> nn.Module:
    return Drawing(lambda: torch.rand(()).item())


@pytest.mark.parametrize("model", ["counting", "drawing_python", "drawing_numpy", "drawing_torch"])
def test_a_model_that_goes_on_in_python_is_never_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorders: list[FakeRecorder], model: str
) -> None:
    monkeypatch.setattr("tuitrain.engine.graphs.host_generators", host_generators)
    changes = {"model": f"test_graphs:make_{model}", "epochs": 3}
    plain = eager(monkeypatch, tmp_path / "plain", **changes)
    events = run(small_config(**changes), FakeControl(tmp_path / "replayed"))
    assert losses_of(events) == losses_of(plain)
    assert recorders[0].replays == []
    assert said(events) == [
        "The steps are not replayed as CUDA graphs, which would be faster: the model counts or draws random numbers in Python."
    ]


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ({"waits": ["called a synchronizing CUDA operation"]}, "the model makes the host wait for the GPU in each step"),
        ({"room": False}, "the GPU has no memory left for that"),
        ({"fails_at": 1}, "operation not permitted when stream is capturing"),
        ({"fails_at": 2}, "operation not permitted when stream is capturing"),
        ({"fails_at": 3}, "operation not permitted when stream is capturing"),
    ],
    ids=["waits", "no-room", "forward", "backward", "update"],
)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_what_cannot_be_recorded_trains_as_it_is_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorders: list[FakeRecorder], trouble: dict[str, Any], reason: str, optimizer: str
) -> None:
    changes = {"epochs": 3, "optimizer": optimizer, "model": "engine_small:make_dropout_net", "batch_size": 10}
    plain = eager(monkeypatch, tmp_path / "plain", **changes)
    _replaying(monkeypatch, recorders, **trouble)
    events = run(small_config(**changes), FakeControl(tmp_path / "replayed"))
    assert of(RunEnded, events)[0].state == "finished"
    assert losses_of(events) == losses_of(plain)
    assert sum(recorders[0].replays) == 0
    assert said(events) == [f"The steps are not replayed as CUDA graphs, which would be faster: {reason}."]


def test_nothing_is_recorded_on_the_cpu_or_over_several_replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any) -> None:
        raise AssertionError("a recorder for a GPU was made")

    monkeypatch.setattr("tuitrain.engine.graphs.CudaRecorder", never)
    for device in ("cpu", "cpu,cpu"):
        assert of(RunEnded, run(small_config(device=device), FakeControl(tmp_path / device)))[0].state == "finished"


@pytest.mark.parametrize("model", ["engine_small:make_net", "engine_small:make_dropout_net", "test_gpu_graphs:make_asking"])
def test_a_persons_own_model_is_not_recorded_on_a_gpu_except_in_the_tests_there(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    def asked() -> bool:
        config, card = small_config(model=model, device="cuda:0"), torch.device("cuda:0")
        network = build_model(config)
        single = Single(network, nn.CrossEntropyLoss(), torch.device("cpu"), autocast(config, card))
        optimizer = make_optimizer(config, network)
        return step_graphs(config, single, network, optimizer, update(optimizer), card) is not None

    monkeypatch.setattr("tuitrain.engine.graphs.CudaRecorder", lambda device: None)
    assert not asked()
    count_as_built_in(monkeypatch)
    assert asked()


def test_a_compiled_network_is_recorded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    config, card = small_config(model="seed-cnn", compile=True, device="cuda:0"), torch.device("cuda:0")
    network = build_model(config)
    compiled = torch.compile(network, backend="eager")
    single = Single(compiled, nn.CrossEntropyLoss(), torch.device("cpu"), autocast(config, card))  # type: ignore[arg-type]
    optimizer = make_optimizer(config, network)
    monkeypatch.setattr("tuitrain.engine.graphs.CudaRecorder", lambda device: FakeRecorder(network, optimizer))
    graphs = step_graphs(config, single, network, optimizer, update(optimizer), card)
    assert graphs is not None
    inputs, labels = torch.rand(config.batch_size, 3, 32, 32), torch.zeros(config.batch_size, dtype=torch.int64)
    losses = []
    for _ in range(WARM_UP + 2):
        losses.append(single.step(inputs, labels).item())
        graphs.update()
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == WARM_UP + 2


# -- fused updates --------------------------------------------------------------------------------------------------------


def test_on_the_cpu_only_adam_s_plain_parameters_are_fused() -> None:
    assert not may_fuse(nn.Linear(2, 2), "sgd")
    assert all(may_fuse(nn.Linear(2, 2), optimizer) for optimizer in ("adam", "adamw"))
    assert not may_fuse(nn.Embedding(2, 2, sparse=True), "adam")
    assert not may_fuse(nn.Linear(2, 2, device=torch.device("meta")), "adam")
    with_gaps = nn.Linear(2, 2)
    with_gaps.weight = nn.Parameter(torch.zeros(2, 4)[:, ::2])
    assert not may_fuse(with_gaps, "adam")


@pytest.mark.parametrize("device", ["cpu", "cpu,cpu"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_adam_fused_learns_the_same_in_the_memory_of_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, optimizer: str
) -> None:
    config = small_config(device=device, optimizer=optimizer, lr=0.001, weight_decay=0.1)
    fused = losses_of(run(config, FakeControl(tmp_path / "fused")))
    monkeypatch.setattr("tuitrain.engine.run.may_fuse", lambda model, optimizer: False)
    plain = losses_of(run(config, FakeControl(tmp_path / "plain")))
    assert len(plain) == 14
    assert fused == pytest.approx(plain, rel=1e-5)


class Late(nn.Module):
    """Has a layer that takes part from the third step on."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.later, self.calls = nn.Linear(192, CLASSES), nn.Linear(192, CLASSES), 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += self.training
        scores: Tensor = self.first(inputs.flatten(1))
        return scores + self.later(inputs.flatten(1)) if self.calls > 2 else scores


def make_late(config: Any) -> nn.Module:
    return Late()


@pytest.mark.parametrize("changes", [{"momentum": 0.9, "weight_decay": 0.01}, {"momentum": 0.9, "nesterov": True}, {"optimizer": "adam"}])
def test_a_parameter_may_get_its_first_gradient_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    changes = {"model": "test_graphs:make_late", "precision": "fp64", **changes}
    monkeypatch.setattr("tuitrain.engine.run.may_fuse", lambda model, optimizer: False)
    plain = run(small_config(**changes), FakeControl(tmp_path / "plain"))
    monkeypatch.setattr("tuitrain.engine.run.may_fuse", lambda model, optimizer: True)
    fused = run(small_config(**changes), FakeControl(tmp_path / "fused"))
    assert of(RunEnded, fused)[0].state == "finished", of(RunEnded, fused)[0].error
    assert losses_of(fused) == pytest.approx(losses_of(plain), rel=1e-12)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("fused", [False, True])
def test_a_checkpoint_does_not_say_how_updates_are_computed(tmp_path: Path, optimizer: str, fused: bool) -> None:
    config = small_config(epochs=1, optimizer=optimizer)
    run(config, FakeControl(tmp_path))
    contents = checkpoint.load(checkpoint.checkpoints(tmp_path / "checkpoints")[-1])
    saved = contents.state["optimizer"]["groups"][0]
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, CLASSES))
    mine = make_optimizer(config, model, fused=fused)
    saved["fused"] = not fused
    checkpoint.restore(contents, model, mine)
    assert mine.param_groups[0]["fused"] is (True if fused else None)
    assert mine.param_groups[0]["lr"] == saved["lr"]
