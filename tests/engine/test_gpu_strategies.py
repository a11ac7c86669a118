"""Several replicas on real NVIDIA GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import FakeControl, losses_of, of, run, small_config
from torch import nn

from tuitrain.engine.strategies.split import Replica, Split
from tuitrain.events import Eval, Replicas, ReplicaStats, RunEnded

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")
SEQUENCE = {"model": "rnn", "batch_dim": 1, "data": "engine_small:make_large_images", "dropout": 0.0}

SEVERAL = {"model": "several_sets:Net", "data": "several_sets:make_dicts"}


@pytest.mark.parametrize("changes", [{"momentum": 0.9}, SEQUENCE, SEVERAL], ids=["images", "sequences", "several inputs"])
@pytest.mark.parametrize(
    ("device", "strategy"),
    [
        ("cuda:0", "split"),
        ("cuda:0,cuda:0", "split"),
        ("cpu,cuda:0", "split"),
        ("cuda:0,cpu,cuda:0", "split"),
        ("cuda:0", "dp"),
        pytest.param("cuda:0,cuda:1", "split", marks=two_gpus),
        pytest.param("cuda:1,cuda:0", "dp", marks=two_gpus),
    ],
)
def test_several_replicas_learn_what_one_device_learns(tmp_path: Path, device: str, strategy: str, changes: Any) -> None:
    one = run(small_config(precision="fp64", **changes), FakeControl(tmp_path / "one"))
    several = run(small_config(precision="fp64", device=device, strategy=strategy, **changes), FakeControl(tmp_path / "several"))
    assert of(RunEnded, several)[0].state == "finished"
    assert losses_of(several) == pytest.approx(losses_of(one), rel=1e-9)
    assert of(Eval, several)[-1].loss == pytest.approx(of(Eval, one)[-1].loss, rel=1e-9)
    names = [replica.device for replica in of(Replicas, several)[0].replicas]
    assert names == device.split(",")


def test_each_replica_on_a_gpu_has_its_time_and_its_memory(tmp_path: Path) -> None:
    stats = of(ReplicaStats, run(small_config(device="cuda:0,cuda:0"), FakeControl(tmp_path)))[0]
    assert all(replica.step_seconds > 0 and replica.memory > 0 for replica in stats.replicas)


def test_a_step_does_not_wait_for_the_gpu() -> None:
    device = torch.device("cuda:0")
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).to(device)
    replicas = [Replica(model, device, torch.autocast("cuda", enabled=False))] * 3
    strategy = Split(replicas, nn.CrossEntropyLoss(), 0)
    inputs, labels = torch.randn(8, 6, device=device), torch.zeros(8, dtype=torch.int64, device=device)
    strategy.step(inputs, labels)
    torch.cuda.set_sync_debug_mode("error")
    try:
        strategy.step(inputs, labels)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@two_gpus
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_dp_gathers_where_it_is_told(tmp_path: Path, precision: str) -> None:
    config = small_config(device="cuda:0,cuda:1", strategy="dp", output_device="cuda:1", precision=precision)
    events = run(config, FakeControl(tmp_path))
    assert of(RunEnded, events)[0].state == "finished"
    shown = of(Replicas, events)[0]
    assert (shown.batch, shown.gathered) == ((8, 3, 8, 8), (8, 4))
    assert [(replica.device, replica.input, replica.loss) for replica in shown.replicas] == [
        ("cuda:0", (4, 3, 8, 8), None),
        ("cuda:1", (4, 3, 8, 8), None),
    ]
