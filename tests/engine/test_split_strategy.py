"""The strategy split on the CPU: the same run, cut into parts, learns what one device learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import engine_small
import pytest
import torch
from engine_small import CLASSES, FakeControl, losses_of, of, run, small_config
from torch import Tensor, nn

from tuitrain.config import ConfigError, with_changes
from tuitrain.engine import checkpoint, losses, prepare
from tuitrain.engine.losses import LossLog
from tuitrain.engine.seeding import seed_replicas
from tuitrain.engine.strategies import split
from tuitrain.engine.strategies.choose import check_gradients, resolve
from tuitrain.engine.strategies.split import Replica, Split
from tuitrain.engine.train import train
from tuitrain.events import Checkpoint, Eval, Notice, Replicas, ReplicaStats, RunEnded, RunStarted
from tuitrain.recipes import load_recipe

CPU = torch.device("cpu")


def cpus(count: int) -> str:
    return ",".join(["cpu"] * count)


def both(tmp_path: Path, device: str, **changes: Any) -> tuple[list[Any], list[Any]]:
    """A run on one device and the same on several."""
    one = run(small_config(strategy="single", **changes), FakeControl(tmp_path / "one"))
    several = run(small_config(device=device, strategy="split", **changes), FakeControl(tmp_path / "several"))
    assert of(RunEnded, one)[0].state == of(RunEnded, several)[0].state == "finished"
    return one, several


# -- what every replica gets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [
        (1, [30], [10]),
        (2, [15, 15], [5, 5]),
        (3, [10, 10, 10], [4, 4, 2]),
        (7, [5, 5, 5, 5, 5, 5, None], [2, 2, 2, 2, 2, None, None]),
        (8, [4, 4, 4, 4, 4, 4, 4, 2], [2, 2, 2, 2, 2, None, None, None]),
    ],
)
def test_random_linear_gives_the_table_of_shapes(tmp_path: Path, count: int, first: list[Any], last: list[Any]) -> None:
    config = with_changes(load_recipe("random-linear"), {"device": cpus(count), "strategy": "split"})
    events = run(config, FakeControl(tmp_path))
    assert of(RunStarted, events)[0].device == ("cpu",) * count
    patterns = of(Replicas, events)
    assert [(pattern.step, pattern.batch, pattern.gathered) for pattern in patterns] == [(1, (30, 5), None), (4, (10, 5), None)]
    told = losses_of(events)
    for pattern, sizes in zip(patterns, (first, last), strict=True):
        expected = [(None, None) if size is None else ((size, 5), (size, 2)) for size in sizes]
        assert [(replica.input, replica.output) for replica in pattern.replicas] == expected
        assert [replica.loss is None for replica in pattern.replicas] == [size is None for size in sizes]
        weighed = sum(replica.loss * size for replica, size in zip(pattern.replicas, sizes, strict=True) if size)
        assert told[pattern.step] == pytest.approx(weighed / sum(size for size in sizes if size), rel=1e-5)


def test_a_device_that_is_named_several_times_holds_what_one_part_needs(tmp_path: Path) -> None:
    """It goes back through a part before the next one goes forward."""
    seen.clear()
    run(small_config(model=f"{__name__}:make_watched", device=cpus(3), strategy="split", max_steps=1), FakeControl(tmp_path))
    first = seen.index("backward 3") - 1
    assert seen[first : first + 6] == ["forward 3", "backward 3", "forward 3", "backward 3", "forward 2", "backward 2"]


seen: list[str] = []


class _Watched(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs.flatten(1))
        seen.append(f"forward {len(inputs)}")
        if outputs.requires_grad:
            outputs.register_hook(lambda gradient: seen.append(f"backward {len(gradient)}"))
        return outputs


def make_watched() -> nn.Module:
    return _Watched(192, CLASSES)


def test_what_goes_from_device_to_device_does_so_before_the_replicas_or_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy between two GPUs waits in both queues: one in between would have the replicas compute one after the other."""
    done: list[str] = []
    moved = split._moved

    def noted(tensor: Tensor, device: torch.device) -> Tensor:
        done.append("copy")
        return moved(tensor, device)

    monkeypatch.setattr(split, "_moved", noted)
    modules = [nn.Linear(5, 2) for _ in range(3)]
    for module in modules:
        module.register_forward_hook(lambda *given: done.append("forward"))
        module.bias.register_hook(lambda gradient: done.append("backward"))
    replicas = [Replica(module, CPU, nullcontext()) for module in modules]
    Split(replicas, nn.CrossEntropyLoss(), 0).step(torch.randn(6, 5), torch.zeros(6, dtype=torch.int64))
    computed = ["forward", "backward"] * 3
    first = done.index("forward")
    assert first == 6, "inputs and labels of each"
    assert done[first : first + len(computed)] == computed
    assert set(done[first + len(computed) :]) == {"copy"}


@pytest.mark.parametrize("model", ["rnn", "transformer"])
@pytest.mark.parametrize("batch_dim", [0, 1])
def test_sequences_are_cut_at_their_batch_axis(tmp_path: Path, model: str, batch_dim: int) -> None:
    changes = {
        "model": model,
        "batch_dim": batch_dim,
        "data": "engine_small:make_large_images",
        "dropout": 0.0,
        "precision": "fp64",
        "epochs": 4,
    }
    one, two = both(tmp_path, "cpu,cpu", **changes)
    first = of(Replicas, two)[0]
    shape = (32, 4, 96) if batch_dim else (4, 32, 96)
    assert first.batch == ((32, 8, 96) if batch_dim else (8, 32, 96))
    assert [(replica.input, replica.output) for replica in first.replicas] == [(shape, (4, CLASSES))] * 2
    assert losses_of(two) == pytest.approx(losses_of(one), rel=1e-9)
    assert of(Eval, two)[-1].loss == pytest.approx(of(Eval, one)[-1].loss, rel=1e-9)


# -- equal results ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"momentum": 0.9, "max_steps": 200},
        {"optimizer": "adam", "shuffle": True},
        {"batch_size": 16, "weight_decay": 0.1},
        {"loss": "nll", "seed": 3},
    ],
    ids=["momentum", "adam", "last batch of 2", "nll"],
)
def test_in_double_precision_the_losses_are_those_of_one_device(tmp_path: Path, changes: Any) -> None:
    changes = {"lr": 0.05, "model": "engine_small:make_log_net", "precision": "fp64", "epochs": 50, "max_steps": 60} | changes
    one = run(small_config(**changes), FakeControl(tmp_path / "1"))
    expected = losses_of(one)
    assert len(expected) == changes["max_steps"]
    for count in (2, 3, 7):
        several = run(small_config(device=cpus(count), **changes), FakeControl(tmp_path / str(count)))
        assert losses_of(several) == pytest.approx(expected, rel=1e-9, abs=0)
        assert [told.accuracy for told in of(Eval, several)] == [told.accuracy for told in of(Eval, one)]


def test_in_single_precision_the_losses_stay_near_those_of_one_device(tmp_path: Path) -> None:
    changes = {"data": "engine_small:make_flat", "model": "engine_small:make_log_net", "epochs": 29, "max_steps": 200, "lr": 0.05}
    expected = losses_of(run(small_config(**changes), FakeControl(tmp_path / "1")))
    assert expected[200] < expected[1]
    for count in (2, 3, 7):
        told = losses_of(run(small_config(device=cpus(count), **changes), FakeControl(tmp_path / str(count))))
        assert all(abs(told[step] - loss) <= 1e-4 * max(loss, 0.1) for step, loss in expected.items())


@pytest.mark.usefixtures("two_threads")
def test_one_replica_is_the_plain_step_bit_for_bit(tmp_path: Path) -> None:
    one, split = both(tmp_path, "cpu", model="engine_small:make_dropout_net", momentum=0.9)
    assert losses_of(split) == losses_of(one)
    assert of(RunStarted, split)[0].strategy == "split"
    assert of(Notice, split) == []


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("changes", [{}, {"model": "engine_small:make_dropout_net", "batch_size": 10}, {"precision": "bf16"}])
def test_the_same_seed_gives_the_same_losses_bit_for_bit(tmp_path: Path, changes: Any) -> None:
    config = small_config(device="cpu,cpu,cpu", **changes)
    first, again = (run(config, FakeControl(tmp_path / name)) for name in ("a", "b"))
    assert losses_of(first) == losses_of(again)
    assert of(RunEnded, first)[0].state == "finished"


class Twin:
    """Two modules, as two devices would have, and a plain one that takes the whole batch."""

    def __init__(self, make: Any) -> None:
        torch.manual_seed(0)
        self.first, self.other, self.plain = make(), make(), make()
        self.plain.load_state_dict(self.first.state_dict())
        replicas = [Replica(module, CPU, torch.autocast("cpu", enabled=False)) for module in (self.first, self.other)]
        self.split = Split(replicas, nn.CrossEntropyLoss(), 0)
        self.optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (self.first, self.plain)]

    def step(self, count: int) -> tuple[float, float]:
        inputs, labels = torch.randn(count, 6, dtype=torch.float64), torch.randint(3, (count,))
        loss = self.split.step(inputs, labels)
        plain = nn.functional.cross_entropy(self.plain(inputs), labels)
        plain.backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item(), plain.item()


def test_a_copy_on_another_device_follows_the_updates_and_gives_its_gradients() -> None:
    twin = Twin(lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double())
    assert not torch.equal(twin.first[0].weight, twin.other[0].weight)
    for count in (8, 8, 5, 1, 8):
        split, plain = twin.step(count)
        assert split == pytest.approx(plain, rel=1e-9)
        assert all(parameter.grad is None for parameter in twin.other.parameters())
    for mine, plain_one in zip(twin.first.parameters(), twin.plain.parameters(), strict=True):
        assert torch.allclose(mine, plain_one, rtol=1e-9)


def test_a_copy_on_another_device_has_the_buffers_of_the_first() -> None:
    twin = Twin(lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double())
    twin.other[1].running_mean.fill_(100.0)
    twin.step(8)
    assert twin.other[1].running_mean.abs().max() < 10
    assert twin.other[1].num_batches_tracked == 1


def test_every_gpu_draws_its_own_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[str] = []
    seeds: dict[str, int] = {}

    @contextmanager
    def device(which: torch.device) -> Iterator[None]:
        current.append(str(which))
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda seed: seeds.__setitem__(current[-1], seed))
    names = ("cuda:1", "cuda:0", "cuda:1", "cpu", "cuda:2")
    seed_replicas(5, [torch.device(name) for name in names])
    assert seeds.keys() == {"cuda:0", "cuda:2"}, "the first device keeps the run's own seed"
    assert len({5, *seeds.values()}) == 3


# -- around the step --------------------------------------------------------------------------------------------------


def test_auto_takes_single_for_one_device_and_split_for_several(tmp_path: Path) -> None:
    for device, strategy in (("cpu", "single"), ("cpu,cpu", "split")):
        control = FakeControl(tmp_path / strategy)
        started = of(RunStarted, run(small_config(device=device, epochs=1), control))[0]
        assert (started.strategy, started.device) == (strategy, tuple(device.split(",")))
        assert control.devices == started.device
        assert control.resolved is not None
        assert (control.resolved.strategy, control.resolved.device) == (strategy, device)


def test_cuda_is_started_before_it_is_asked_also_where_the_cpu_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[bool] = []

    def reset(device: torch.device) -> None:
        if not started:
            raise RuntimeError(f"Allocator not initialized for device {device.index}: did you call init?")

    class Reached(Exception):
        pass

    def copies(config: Any, model: nn.Module, devices: Any) -> Any:
        raise Reached(devices)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("tuitrain.engine.placement.cuda_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "init", lambda: started.append(True))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset)
    monkeypatch.setattr(torch, "ones", lambda *sizes, device, ones=torch.ones: ones(*sizes))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(prepare, "copies", copies)
    with pytest.raises(Reached, match="cuda"):
        list(train(small_config(device="cpu,cuda:0"), FakeControl(tmp_path)))


def test_a_checkpoint_of_several_replicas_is_that_of_one_model(tmp_path: Path) -> None:
    one, several = both(tmp_path, "cpu,cpu,cpu", precision="fp64", momentum=0.9, epochs=1)
    saved = [checkpoint.load(Path(of(Checkpoint, events)[0].path)) for events in (one, several)]
    assert saved[0].position == saved[1].position
    for part in ("model", "optimizer"):
        first, second = (getattr(contents, part) for contents in saved)
        assert first.keys() == second.keys()
        assert all(torch.allclose(first[name], second[name], rtol=1e-9, atol=1e-12) for name in first)


def test_what_differs_by_nature_is_said(tmp_path: Path) -> None:
    def said(device: str, model: str) -> list[str]:
        config = small_config(device=device, model=model, epochs=1, batch_size=10)  # BatchNorm cannot do with one sample
        return [notice.text for notice in of(Notice, run(config, FakeControl(tmp_path / device)))]

    assert said("cpu,cpu", "engine_small:make_net") == []
    assert said("cpu", "engine_small:make_dropout_net") == []
    norm, dropout = said("cpu,cpu", "engine_small:make_dropout_net")
    assert norm.startswith("BatchNorm averages over each replica's own samples")
    assert norm.endswith("are of all replicas in turn.")
    assert dropout.startswith("Dropout draws for each replica anew")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "cpu,cpu,cpu"}, ["even_split", "batch_size is 8", "3 replicas"]),
        ({"device": "cpu,cpu,cpu,cpu"}, ["even_split", "the last batch of an epoch is 2", "4 replicas"]),
    ],
)
def test_even_split_refuses_before_the_run_what_does_not_divide(tmp_path: Path, changes: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        list(train(small_config(even_split=True, **changes), FakeControl(tmp_path)))
    assert all(word in str(refusal.value) for word in words), refusal.value


@pytest.mark.parametrize("changes", [{"device": "cpu,cpu"}, {"device": "cpu,cpu,cpu,cpu", "max_steps": 6}])
def test_even_split_takes_what_divides(tmp_path: Path, changes: Any) -> None:
    events = run(small_config(even_split=True, **changes), FakeControl(tmp_path))
    assert of(RunEnded, events)[0].state == "finished"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"device": "auto", "strategy": "dp"}, ["strategy: dp", "takes GPUs only", "cpu", "use split"]),
        ({"device": "cpu,cuda:0"}, ["device: 'cpu,cuda:0' cannot be used"]),
    ],
)
def test_what_the_machine_cannot_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Any, words: list[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError) as refusal:
        list(train(small_config(**config), FakeControl(tmp_path)))
    assert all(word in str(refusal.value) for word in words), refusal.value


def test_the_outputs_may_be_gathered_on_cuda_without_a_number() -> None:
    config = small_config(device="cuda,cuda:1", strategy="dp", output_device="cuda")
    assert resolve(config, [torch.device("cuda:0"), torch.device("cuda:1")]) == "dp"


def test_sparse_gradients_are_for_one_process() -> None:
    model = engine_small.make_sparse(None)
    check_gradients(small_config(device="cpu,cpu", strategy="split"), model)
    with pytest.raises(ConfigError, match="strategy: ddp does not add up sparse gradients") as refusal:
        check_gradients(small_config(device="cpu,cpu", strategy="ddp"), model)
    assert "use split" in str(refusal.value)


def test_single_on_all_gpus_is_refused_where_there_are_several() -> None:
    config = small_config(device="auto:all", strategy="single")
    assert resolve(config, [CPU]) == "single"
    with pytest.raises(ConfigError, match="strategy: single trains on one device, and device 'auto:all' takes cuda:0, cuda:1"):
        resolve(config, [torch.device("cuda:0"), torch.device("cuda:1")])


# -- how the replicas are doing ---------------------------------------------------------------------------------------


def test_each_replica_has_its_own_time_and_an_idle_one_none(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("tuitrain.engine.clock.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(losses.time, "monotonic", lambda: now[0] + 10)

    class Slow(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            now[0] += 0.5 * len(inputs)
            return super().forward(inputs)

    model = Slow(5, 2)
    strategy = Split([Replica(model, CPU, torch.autocast("cpu", enabled=False))] * 3, nn.CrossEntropyLoss(), 0)
    log = LossLog(CPU, 1, strategy)
    for step, count in enumerate((8, 8, 2), start=1):
        loss = strategy.step(torch.randn(count, 5), torch.zeros(count, dtype=torch.int64))
        log.add(step, 1, loss, count, 0.1, last=False)
    told = of(ReplicaStats, list(log.rest()))
    assert [stats.step for stats in told] == [1, 2, 3]
    assert [(replica.step_seconds, replica.samples_per_second) for replica in told[0].replicas] == [(1.5, 2.0), (1.5, 2.0), (1.0, 2.0)]
    last = told[2].replicas
    assert [replica.step_seconds for replica in last] == [0.5, 0.5, None]
    assert (last[2].loss, last[2].samples_per_second) == (None, None)
    assert all(replica.loss is not None for replica in last[:2])


def test_what_was_left_open_must_go_together_too() -> None:
    config = small_config(device="auto", strategy="auto", output_device="cuda:1")
    with pytest.raises(ConfigError, match=r"output_device: 'cuda:1' is not one of the run's devices \(cpu\)"):
        resolve(config, [CPU])
    with pytest.raises(ConfigError, match="is where dp gathers the outputs"):
        resolve(config, [torch.device("cuda:0"), torch.device("cuda:1")])
