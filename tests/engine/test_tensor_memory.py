"""What the engine tells of torch's memory; the reading of torch.cuda itself needs a GPU (test_gpu.py)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from engine_small import FakeControl, of, run, small_config
from torch import Tensor, nn

from tuitrain.engine import losses, memory
from tuitrain.engine.losses import LossLog
from tuitrain.engine.replicas import Pattern, Shapes
from tuitrain.engine.strategies.distributed import Distributed
from tuitrain.events import ReplicaStats, TensorMemory


class OnCards:
    """A strategy with three replicas on two cards, as the loss log sees it."""

    devices = ("cuda:1", "cuda:0", "cuda:1")
    pattern = Pattern((8, 5), None, (Shapes(((8, 5),), ((8, 2),)), None, None))
    replica_losses: tuple[Any, ...] = (None, None, None)
    replica_seconds: tuple[Any, ...] = (None, None, None)
    fresh_memory = None

    def times(self) -> None:
        """Nobody measures them."""


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which devices were asked for, of a torch that answers without a card."""
    asked: list[str] = []

    def read(device: str) -> tuple[str | None, int, int]:
        asked.append(device)
        return f"GPU-{device[-1]}", 300, 400

    monkeypatch.setattr(memory, "read", read)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 500 + int(device[-1]))
    return asked


def test_each_card_is_asked_once_for_all_of_its_replicas(cards: list[str]) -> None:
    first, second = memory.tensor_memory(OnCards.devices)
    assert cards == ["cuda:1", "cuda:0"]
    assert (first.device, first.uuid, first.allocated, first.reserved) == ("cuda:1", "GPU-1", 300, 400)
    assert first.time == second.time


def test_it_comes_with_the_stats_and_no_oftener(cards: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 0.4, 0.9, 1.1, 1.2])
    monkeypatch.setattr(losses, "time", SimpleNamespace(monotonic=lambda: next(moments), time=lambda: 0.0))
    log = LossLog(torch.device("cpu"), 1, OnCards())  # type: ignore[arg-type]
    for step in range(1, 6):
        log.add(step, 1, torch.tensor(1.0), 8, 0.1, last=False)
    events = list(log.rest())
    assert [event.step for event in of(ReplicaStats, events)] == [1, 4]
    assert [event.device for event in of(TensorMemory, events)] == ["cuda:1", "cuda:0"] * 2


def test_a_run_on_the_cpu_says_nothing_of_it(tmp_path: Path, cards: list[str]) -> None:
    events = run(small_config(), FakeControl(tmp_path))
    assert of(ReplicaStats, events)
    assert not of(TensorMemory, events)
    assert not cards


class Ranks:
    """A group of three, each with what its own allocator says; this process is the first, and the third is on another machine."""

    rank, size, leads = 0, 3, True
    devices = ("cuda:0", "cuda:1", "other/cuda:0")

    def start_sum(self, loss: Tensor, *, flag: bool) -> Any:
        return lambda: (loss, flag)

    def gather(self, value: Any) -> list[Any]:
        own = [memory.memory_of((name,)) for name in ("cuda:0", "cuda:1", "cuda:0")]
        return [replace(value, memory=one) for one in own]


@pytest.mark.usefixtures("process_group")
def test_each_rank_asks_its_own_allocator(cards: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuitrain.engine.strategies.distributed.mean_in_memory", lambda group: None)  # as ranks on several machines
    cpu, group = torch.device("cpu"), Ranks()
    strategy = Distributed(nn.Linear(5, 2), nn.CrossEntropyLoss(), cpu, group.devices, nullcontext(), 0, group, may_skip=False)  # type: ignore[arg-type]
    log = LossLog(cpu, 1, strategy)
    loss = strategy.step(torch.ones(6, 5), torch.zeros(6, dtype=torch.int64))
    assert cards == ["cuda:0", "cuda:1", "cuda:0"]
    log.add(1, 1, loss, 6, 0.1, last=False)
    assert len(cards) == 3, "what the ranks said is not asked of this process too"
    told = list(log.rest())
    assert [event.uuid for event in of(TensorMemory, told)] == ["GPU-0", "GPU-1"]
    assert [replica.memory for replica in of(ReplicaStats, told)[0].replicas] == [500, 501, 500]
