"""Threads of torch, of which several test processes that share the cores take one each: threads that wait for each other cost more than
they gain. And a group of one rank, and the replays of recorded steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Before torch is loaded: OpenMP threads otherwise spin while they wait.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import torch
import torch.distributed as dist

from tuitrain.allowance import Allowance
from tuitrain.engine.graphs import CudaRecorder

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the tests themselves run in a container with a quota of processors, a run would take fewer threads than they say."""
    monkeypatch.setattr(Allowance, "quota", None)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """As on a machine of one's own, for what has to come out alike however the work is shared out."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by its name for each replay of a recorded piece."""
    done: list[str] = []
    record = CudaRecorder.record

    def counting(self: CudaRecorder, piece: Callable[[], None]) -> Callable[[], None]:
        replay, name = record(self, piece), piece.__name__

        def counted() -> None:
            done.append(name)
            replay()

        return counted

    monkeypatch.setattr(CudaRecorder, "record", counting)
    return done


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    """A group of this process alone, for what a rank does."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
