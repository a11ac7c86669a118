"""CUDA graphs on a real NVIDIA GPU: what is replayed is what would have been done, and no step waits for the device."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import CLASSES, FakeControl, go_on, losses_of, of, run, small_config
from fake_recorder import count_as_built_in
from test_speedrun import few
from test_substitutes import compiles
from torch import Tensor, nn

from tuitrain.engine import train as train_module
from tuitrain.engine.graphs import WARM_UP
from tuitrain.events import Eval, Event, Notice, RunEnded

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

LARGE = {"data": "engine_small:make_large_images", "epochs": 12, "device": "cuda:0", "lr": 0.003}
"""Two steps an epoch, of 8 and of 4 samples."""


@pytest.fixture(autouse=True)
def small_models_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own models are recorded as built-in ones are."""
    count_as_built_in(monkeypatch)


def eager(monkeypatch: pytest.MonkeyPatch, folder: Path, **changes: Any) -> list[Event]:
    with monkeypatch.context() as patch:
        patch.setattr("tuitrain.engine.run.step_graphs", lambda *given: None)
        return run(small_config(**changes), FakeControl(folder))


def said(events: list[Event]) -> list[str]:
    return [event.text for event in of(Notice, events) if "CUDA graphs" in event.text]


@pytest.mark.parametrize("optimizer", [{"momentum": 0.9}, {"optimizer": "adam"}], ids=["sgd", "adam"])
@pytest.mark.parametrize("model", ["seed-cnn", "resnet18", "transformer", "rnn"])
def test_replayed_steps_are_those_that_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replays: list[str], model: str, optimizer: dict[str, Any]
) -> None:
    if model == "resnet18" and importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    changes = {**LARGE, **optimizer, "model": model, "dropout": 0.0, "precision": "fp64"}
    plain = eager(monkeypatch, tmp_path / "plain", **changes)
    assert not replays
    replayed = run(small_config(**changes), FakeControl(tmp_path / "replayed"))
    assert not said(replayed)
    assert len(replays) == 3 * (12 - WARM_UP)
    assert losses_of(replayed) == pytest.approx(losses_of(plain), rel=1e-9)
    assert of(Eval, replayed)[-1].loss == pytest.approx(of(Eval, plain)[-1].loss, rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"data": "test_targets:make_wide_points", "loss": "mse"}, 3 * (24 - 3 - WARM_UP)),
        ({"loss": "test_targets:weighted"}, 0),
        ({"data": "test_targets:make_wide_points", "loss": "torch.nn:HuberLoss"}, 0),
        ({"data": "test_targets:make_tokens", "model": "test_targets:Language"}, 3 * (24 - WARM_UP)),
        ({"data": "test_targets:make_tokens", "model": "test_targets:Transformer"}, 3 * (24 - WARM_UP)),
        ({"optimizer": "torch.optim:RMSprop", "momentum": 0.9}, 2 * (12 - WARM_UP)),
        ({"optimizer": "test_own_optimizer:make_groups"}, 2 * (12 - WARM_UP)),
        ({"optimizer": "test_own_optimizer:Lion"}, 0),
    ],
    ids=["mse", "own module", "of torch", "tokens", "texts", "optimizer of torch", "groups", "own optimizer"],
)
def test_what_is_ones_own_learns_what_it_does_on_the_cpu(tmp_path: Path, replays: list[str], changes: dict[str, Any], count: int) -> None:
    """What a person's own loss decides in Python, a recorded step would not see, nor an own optimizer's other memory."""
    changes = {**LARGE, "model": "seed-cnn", "precision": "fp64", "lr": 0.0001, "max_steps": 24, **changes}
    events = run(small_config(**changes), FakeControl(tmp_path / "gpu"))
    assert not said(events)
    assert len(replays) == count
    there = run(small_config(**{**changes, "device": "cpu"}), FakeControl(tmp_path / "cpu"))
    assert losses_of(events) == pytest.approx(losses_of(there), rel=1e-9)
    assert of(Eval, events)[-1].loss == pytest.approx(of(Eval, there)[-1].loss, rel=1e-9)


@compiles
@pytest.mark.parametrize("changes", [{"model": "seed-cnn"}, {"model": "transformer", "dropout": 0.3, "optimizer": "adam"}])
def test_a_compiled_network_is_replayed_and_goes_on_as_it_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replays: list[str], changes: dict[str, Any]
) -> None:
    changes = {**LARGE, **changes, "compile": True}
    plain = losses_of(eager(monkeypatch, tmp_path / "plain", **changes))
    assert not replays
    broken = run(small_config(**changes), FakeControl(tmp_path / "broken", {2 * WARM_UP + 3: ["stop"]}))
    assert not said(broken)
    assert replays
    losses = losses_of(broken) | losses_of(go_on(small_config(**changes), FakeControl(tmp_path / "broken")))
    assert losses == pytest.approx(plain, rel=1e-4)


def test_the_speed_run_replayed_is_the_one_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replays: list[str]) -> None:
    """Its rates change with each step, and its averaging writes into the parameters between them."""
    config = few(device="cuda:0")
    with monkeypatch.context() as patch:
        patch.setattr("tuitrain.engine.run.step_graphs", lambda *given: None)
        plain = run(config, FakeControl(tmp_path / "plain"))
    assert not replays
    replayed = run(config, FakeControl(tmp_path / "replayed"))
    # Two whole batches in each of six epochs.
    assert replays.count("_forward") == 12 - WARM_UP
    assert losses_of(replayed) == pytest.approx(losses_of(plain), rel=1e-9)
    assert of(Eval, replayed)[-1].loss == pytest.approx(of(Eval, plain)[-1].loss, rel=1e-9)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "changes",
    [{"shuffle": True, "augment": "crop-flip"}, {"lr_schedule": "triangle"}, {"warmup_steps": 3, "max_grad_norm": 0.05, "lr": 0.1}],
    ids=["augmented", "schedule", "clipped"],
)
def test_the_same_in_less_than_double_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replays: list[str], precision: str, changes: dict[str, Any]
) -> None:
    changes = {**LARGE, **changes, "model": "seed-cnn", "precision": precision}
    plain = losses_of(eager(monkeypatch, tmp_path / "plain", **changes))
    replayed = losses_of(run(small_config(**changes), FakeControl(tmp_path / "replayed")))
    assert len(replays) >= 2 * (12 - WARM_UP)
    assert all(abs(replayed[step] - loss) <= 2e-4 * max(loss, 0.1) for step, loss in plain.items())


@pytest.mark.parametrize("at", [3, 2 * WARM_UP + 3])
@pytest.mark.parametrize("model", ["transformer", "engine_small:make_dropout_net"])
def test_dropout_draws_the_same_replayed_or_not_and_when_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replays: list[str], model: str, at: int
) -> None:
    data = LARGE if model == "transformer" else {"device": "cuda:0", "epochs": 4}
    changes = {**data, "model": model, "dropout": 0.3, "precision": "fp64", "optimizer": "adam"}
    plain = losses_of(eager(monkeypatch, tmp_path / "plain", **changes))
    broken = losses_of(run(small_config(**changes), FakeControl(tmp_path / "broken", {at: ["stop"]})))
    broken |= losses_of(go_on(small_config(**changes), FakeControl(tmp_path / "broken")))
    assert replays
    assert broken == pytest.approx(plain, rel=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shuffle": True, "augment": "crop-flip", "momentum": 0.9},
        {"optimizer": "adam", "precision": "bf16"},
        {"warmup_steps": 20, "max_grad_norm": 0.05},
        {"data": "drawn_sets:make_images", "shuffle": True, "epochs": 8},
        {"data": "test_targets:make_tokens", "model": "test_targets:Language", "shuffle": True},
        {"data": "drawn_sets:make_windows", "model": "drawn_sets:Language", "epochs": 8},
    ],
    ids=["plain", "augmented", "bf16", "clipped", "read", "tokens", "tokens that are read"],
)
@pytest.mark.parametrize("share", [0.5, 0], ids=["on it", "on the host"])
def test_no_step_waits_for_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replays: list[str], changes: dict[str, Any], share: float
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # for the processes that read samples
    monkeypatch.setattr("tuitrain.engine.datasets.home.SHARE", share)
    step = train_module._step

    def strict(run: Any) -> Iterator[Event]:
        if run.step < 2 * WARM_UP:  # kernels are loaded, and steps recorded
            yield from step(run)
            return
        torch.cuda.set_sync_debug_mode("error")
        try:
            events = list(step(run))
        finally:
            torch.cuda.set_sync_debug_mode("default")
        yield from events

    monkeypatch.setattr(train_module, "_step", strict)
    events = run(small_config(**{"device": "cuda:0", "epochs": 4, **changes}), FakeControl(tmp_path))
    assert of(RunEnded, events)[0].state == "finished", of(RunEnded, events)[0].error
    assert replays


# -- what cannot be recorded ----------------------------------------------------------------------------------------------


class Asking(nn.Module):
    """Decides by a value on the GPU, or waits for it without a look; and drops some values."""

    def __init__(self, silently: bool) -> None:
        super().__init__()
        self.layer, self.drop, self.silently = nn.Linear(192, CLASSES), nn.Dropout(0.3), silently

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.layer(self.drop(inputs.flatten(1)))
        if self.silently:
            torch.cuda.synchronize()
            return scores
        return scores * 2 if scores.mean() > 0 else scores


def make_asking(config: Any) -> nn.Module:
    return Asking(silently=False)


def make_waiting(config: Any) -> nn.Module:
    return Asking(silently=True)


@pytest.mark.parametrize("model", ["asking", "waiting"])
def test_what_cannot_be_recorded_trains_as_it_is_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replays: list[str], model: str
) -> None:
    changes = {"device": "cuda:0", "model": f"test_gpu_graphs:make_{model}", "precision": "fp64", "epochs": 3}
    plain = eager(monkeypatch, tmp_path / "plain", **changes)
    events = run(small_config(**changes), FakeControl(tmp_path / "replayed"))
    assert of(RunEnded, events)[0].state == "finished", of(RunEnded, events)[0].error
    assert not replays
    assert len(said(events)) == 1
    assert losses_of(events) == pytest.approx(losses_of(plain), rel=1e-9)
    # The next run in this process replays as ever.
    assert not said(run(small_config(device="cuda:0"), FakeControl(tmp_path / "next")))
    assert replays
