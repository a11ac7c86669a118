"""The strategy dp. nn.DataParallel needs CUDA; here its cutting, copying, threads and gathering are replaced by the same on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

from tuitrain.engine.criterion import OfScores
from tuitrain.engine.losses import LossLog
from tuitrain.engine.sequences import Rnn, Transformer
from tuitrain.engine.strategies import data_parallel
from tuitrain.engine.strategies.data_parallel import DataParallel, Gathering
from tuitrain.events import Replicas, ReplicaStats

CPU = torch.device("cpu")


def replicate(module: nn.Module, devices: Sequence[int]) -> list[nn.Module]:
    """What torch's `replicate` does: shallow copies whose tensors are set one by one; here they stay on the CPU."""
    replicas = []
    for _ in devices:
        copies = {original: original._replicate_for_data_parallel() for original in module.modules()}
        for original, copied in copies.items():
            for name, child in original._modules.items():
                setattr(copied, name, copies[child])
            for name, parameter in original._parameters.items():
                setattr(copied, name, None if parameter is None else parameter * 1)
            for name, buffer in original._buffers.items():
                setattr(copied, name, None if buffer is None else buffer.clone())
        replicas.append(copies[module])
    return replicas


def in_threads(replicas: Sequence[nn.Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
    results: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda i=i, replica=replica: results.__setitem__(i, replica(*inputs[i])))
        for i, replica in enumerate(replicas)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[i] for i in range(len(replicas))]


class OnCpu(Gathering):
    """`Gathering` as it is with GPUs, but for what only a GPU can do."""

    def __init__(self, module: nn.Module, device_ids: Any, output_device: Any, dim: int) -> None:
        nn.Module.__init__(self)
        self.module, self.dim, self.output_device, self.src_device_obj = module, dim, CPU, CPU
        self.device_ids = list(range(len(device_ids)))

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        parts = [(part,) for part in inputs[0].chunk(len(device_ids), self.dim)]
        return parts, [{}] * len(parts)

    def replicate(self, module: Any, device_ids: Any) -> Any:
        return replicate(module, device_ids)

    def parallel_apply(self, replicas: Any, inputs: Any, kwargs: Any) -> Any:
        return in_threads(replicas, inputs, kwargs)


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_parallel, "Gathering", OnCpu)
    monkeypatch.setattr(data_parallel, "gather", lambda outputs, device, dim: torch.cat(outputs, dim))


def made(model: nn.Module, count: int, batch_dim: int, autocast: Any = None) -> DataParallel:
    def no_autocast() -> Any:
        return torch.autocast("cpu", enabled=False)

    return DataParallel(model, OfScores(nn.CrossEntropyLoss()), [CPU] * count, CPU, autocast or no_autocast, batch_dim)


@pytest.mark.parametrize("kind", [Rnn, Transformer])
@pytest.mark.parametrize("samples", [8, 7, 1])
def test_cut_at_the_batch_axis_and_gathered_at_the_outputs_own(kind: Any, samples: int) -> None:
    torch.manual_seed(0)
    model = kind(dropout=0.0, batch_first=False).double()
    inputs, labels = torch.randn(32, samples, 96, dtype=torch.float64), torch.randint(10, (samples,))
    plain = nn.functional.cross_entropy(model(inputs), labels)
    expected = torch.autograd.grad(plain, list(model.parameters()))
    strategy = made(model, 2, 1)
    assert strategy.step(inputs, labels).item() == pytest.approx(plain.item(), rel=1e-9)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, rtol=1e-9, atol=1e-12)
    assert (strategy.pattern.batch, strategy.pattern.gathered) == ((32, samples, 96), (samples, 10))


def test_the_hooks_of_the_model_fire_in_its_copies() -> None:
    """That, and not the configuration, is where the replicas' shapes come from. On the CPU both copies are on one device."""
    strategy = made(nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 2)), 2, 0)
    seen: list[tuple[int, ...]] = []
    strategy._parallel.module.module.register_forward_hook(lambda module, inputs, output: seen.append(tuple(inputs[0].shape)))
    strategy.step(torch.randn(30, 5), torch.zeros(30, dtype=torch.int64))
    assert seen == [(15, 5), (15, 5)]
    assert strategy.pattern.replicas[0].inputs == ((15, 5),)


def test_the_autocast_is_that_of_the_run_in_every_thread() -> None:
    dtypes: list[torch.dtype] = []

    class Net(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            output = super().forward(inputs)
            dtypes.append(output.dtype)
            return output

    strategy = made(Net(5, 2), 3, 0, lambda: torch.autocast("cpu", torch.bfloat16))
    loss = strategy.step(torch.randn(9, 5), torch.zeros(9, dtype=torch.int64))
    assert dtypes == [torch.bfloat16] * 3
    assert loss.dtype == torch.float32


def test_one_gpu_gathers_nothing() -> None:
    model = nn.Linear(5, 2)
    strategy = made(model, 1, 0)
    strategy.step(torch.randn(30, 5), torch.zeros(30, dtype=torch.int64))
    assert strategy.pattern.gathered is None
    assert strategy.pattern.replicas[0].outputs == ((30, 2),)


def test_replicas_have_no_loss_and_no_time_of_their_own() -> None:
    strategy = made(nn.Linear(5, 2), 2, 0)
    log = LossLog(CPU, 1, strategy)
    loss = strategy.step(torch.randn(30, 5), torch.zeros(30, dtype=torch.int64))
    log.add(1, 1, loss, 30, 0.1, last=False)
    events = list(log.rest())
    shown = next(event for event in events if isinstance(event, Replicas))
    assert shown.gathered == (30, 2)
    assert [(replica.input, replica.loss) for replica in shown.replicas] == [((15, 5), None)] * 2
    stats = next(event for event in events if isinstance(event, ReplicaStats))
    assert [(stat.loss, stat.step_seconds) for stat in stats.replicas] == [(None, None)] * 2
