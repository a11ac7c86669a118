"""ddp on real NVIDIA GPUs, over NCCL."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_groups import events_of, losses_of, small_run

from tuitrain.events import Replicas, RunEnded, TensorMemory

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")


@pytest.mark.parametrize("device", ["cuda:0", pytest.param("cuda:0,cuda:1", marks=two_gpus)])
def test_ranks_on_gpus_learn_what_one_cpu_learns(tmp_path: Path, device: str) -> None:
    # 100 samples in batches of 9: over two ranks 5 and 4, and the last batch 1 and nothing.
    changes = {"batch_size": 9, "epochs": 3, "shuffle": True}
    events = events_of(small_run(2, **changes, device=device), tmp_path / "ddp")
    assert events[-1] == RunEnded(state="finished", step=36), events[-1]
    alone = losses_of(events_of(small_run(1, **changes), tmp_path / "alone"))
    assert losses_of(events) == pytest.approx(alone, rel=1e-9)
    shown = next(event for event in events if isinstance(event, Replicas))
    assert ",".join(replica.device for replica in shown.replicas) == device
    assert {event.device for event in events if isinstance(event, TensorMemory)} == set(device.split(","))
