"""Where the time of steps goes: the phases add up to the steps, on one device, several replicas, in a group, on a make-believe GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from engine_small import SAMPLES, FakeControl, of, run, small_config
from torch import Tensor, nn

from tuitrain.engine import laps as laps_module
from tuitrain.engine.group import Group
from tuitrain.engine.laps import CUDA_EVERY, Laps
from tuitrain.engine.strategies import distributed
from tuitrain.engine.strategies.distributed import Distributed
from tuitrain.engine.strategies.single import Single
from tuitrain.engine.strategies.split import Replica, Split
from tuitrain.events import Phases, Step, StepTimes

CPU = torch.device("cpu")
NO_AUTOCAST = torch.autocast("cpu", enabled=False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only the test moves."""
    now = [0.0]
    monkeypatch.setattr("tuitrain.engine.laps.time.perf_counter", lambda: now[0])
    return now


class Taking(torch.autograd.Function):
    """Takes 2 s for each sample forward and 3 s backward, by the test's clock."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, now: list[float]) -> Tensor:
        context.now, context.count = now, len(inputs)
        now[0] += 2 * len(inputs)
        return inputs.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        context.now[0] += 3 * context.count
        return gradient, None


class Slow(nn.Linear):
    def __init__(self, now: list[float]) -> None:
        super().__init__(5, 2)
        self.now = now

    def forward(self, inputs: Tensor) -> Tensor:
        return Taking.apply(super().forward(inputs), self.now)  # type: ignore[no-any-return, no-untyped-call]


def one_step(strategy: Any, now: list[float], count: int) -> None:
    """What the loop does around a strategy: 1 s for the batch, 4 s for the update, and 0.5 s in the loop."""
    now[0] += 0.5
    strategy.laps.lap("other")
    now[0] += 1
    strategy.laps.lap("data")
    strategy.step(torch.randn(count, 5), torch.zeros(count, dtype=torch.int64))
    now[0] += 4
    strategy.laps.lap("update")
    strategy.laps.tick(count)


# -- whole runs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"device": "cpu,cpu,cpu", "strategy": "split"}], ids=["single", "split"])
def test_the_phases_add_up_to_the_steps(tmp_path: Path, changes: dict[str, Any]) -> None:
    events = run(small_config(epochs=3, **changes), FakeControl(tmp_path))
    times, per_epoch = of(StepTimes, events), -(-SAMPLES // 8)
    # The first step of all is not measured.
    assert sum(event.steps for event in times) == 3 * per_epoch - 1
    assert sum(event.samples for event in times) == 3 * SAMPLES - 8
    steps = of(Step, events)[1:]
    last = SAMPLES % 8
    sizes = [last if event.step % per_epoch == 0 else 8 for event in steps]
    whole = sum(size / event.samples_per_second for size, event in zip(sizes, steps, strict=True))
    assert sum(event.phases.seconds for event in times) == pytest.approx(whole, rel=0.05)
    for event in times:
        each = [getattr(phases, name) for phases in (event.phases, *event.replicas) for name in Phases.__struct_fields__]
        assert min(each) >= 0
        assert min(event.phases.data, event.phases.forward, event.phases.backward, event.phases.update) > 0
    assert (times[0].strategy, times[0].devices) == (changes.get("strategy", "single"), tuple(changes.get("device", "cpu").split(",")))


def test_replicas_that_take_turns_fill_forward_and_backward(tmp_path: Path) -> None:
    # Of a few steps the moment in which another process has the processor may be the most.
    times = of(StepTimes, run(small_config(device="cpu,cpu", strategy="split", epochs=60), FakeControl(tmp_path)))
    assert {len(event.replicas) for event in times} == {2}
    for name in ("forward", "backward"):
        parts = sum(getattr(part, name) for event in times for part in event.replicas)
        assert parts == pytest.approx(sum(getattr(event.phases, name) for event in times), rel=0.2)


# -- by the test's clock --------------------------------------------------------------------------------------------------


def test_each_phase_gets_what_it_took(clock: list[float]) -> None:
    strategy = Single(Slow(clock), nn.CrossEntropyLoss(), CPU, NO_AUTOCAST)
    for count in (8, 8, 4):
        one_step(strategy, clock, count)
    times = strategy.times()
    assert times is not None
    assert (times.steps, times.samples, times.replicas) == (2, 12, ())
    assert times.phases == Phases(data=2, forward=24, backward=36, update=8, other=1)
    assert strategy.times() is None


def test_each_replica_has_its_part_and_an_idle_one_none(clock: list[float]) -> None:
    model = Slow(clock)
    strategy = Split([Replica(model, CPU, NO_AUTOCAST)] * 3, nn.CrossEntropyLoss(), 0)
    for count in (8, 8, 2):
        one_step(strategy, clock, count)
    times = strategy.times(last=True)
    assert times is not None
    assert times.phases == Phases(data=2, forward=20, backward=30, update=8, other=1)
    # 8 samples are cut into 3, 3 and 2; two samples into 1 and 1.
    assert times.replicas == (Phases(forward=8, backward=12), Phases(forward=8, backward=12), Phases(forward=4, backward=6))
    # What a replica takes in all is still what its statistics say.
    assert [seconds() for seconds in strategy.replica_seconds if seconds is not None] == [5, 5]


def test_what_lies_between_the_steps_is_left_out(clock: list[float]) -> None:
    strategy = Single(Slow(clock), nn.CrossEntropyLoss(), CPU, NO_AUTOCAST)
    for _ in range(2):
        one_step(strategy, clock, 1)
    clock[0] += 1000
    strategy.laps.restart()
    one_step(strategy, clock, 1)
    times = strategy.times()
    assert times is not None
    assert times.phases.seconds == 2 * (0.5 + 1 + 2 + 3 + 4)


# -- a group --------------------------------------------------------------------------------------------------------------


class Alone:
    """A group of this process alone, in which the wait for the sum takes 6 s."""

    rank, size, leads = 0, 1, True

    def __init__(self, now: list[float]) -> None:
        self.now = now

    def start_sum(self, loss: Tensor, *, flag: bool) -> Callable[[], tuple[Tensor, bool]]:
        def result() -> tuple[Tensor, bool]:
            self.now[0] += 6
            return loss, flag

        return result

    def gather(self, value: Any) -> list[Any]:
        return [value]


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("in_memory", [True, False])
def test_what_a_rank_waits_for_after_its_last_gradient_is_communication(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    def mean(numbers: Tensor) -> None:
        clock[0] += 7

    def reduction(whole, bucket):  # DistributedDataParallel reads annotations, and knows no words for them
        mean(bucket.buffer())
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    monkeypatch.setattr(distributed, "mean_in_memory", lambda group: mean if in_memory else None)
    model, group = Slow(clock), cast(Group, Alone(clock))
    strategy = Distributed(model, nn.CrossEntropyLoss(), CPU, ("cpu",), NO_AUTOCAST, 0, group, may_skip=False)
    if not in_memory:
        strategy._parallel.register_comm_hook(None, reduction)
    for _ in range(3):
        one_step(strategy, clock, 1)
    times = strategy.times(last=True)
    assert times is not None
    assert (times.strategy, times.devices, times.steps, times.samples) == ("ddp", ("cpu",), 2, 2)
    # With one small model there is one bucket: its reduction begins after the last gradient.
    assert times.phases == Phases(data=2, forward=4, backward=6, communication=26, update=8, other=1)
    assert times.replicas == (times.phases,)
    assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())


@pytest.mark.usefixtures("process_group")
def test_ranks_whose_gradients_meet_in_memory_wait_for_each_other_once_a_step(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def mean(numbers: Tensor) -> None:
        order.append("mean")
        numbers.mul_(3)

    monkeypatch.setattr(distributed, "mean_in_memory", lambda group: mean)
    first, last = nn.Linear(3, 200_000), nn.Linear(200_000, 2)  # more than one of torch's buckets has
    model, images, labels = nn.Sequential(first, last), torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    nn.CrossEntropyLoss()(model(images), labels).backward()
    plain = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    strategy = Distributed(model, nn.CrossEntropyLoss(), CPU, ("cpu",), NO_AUTOCAST, 0, cast(Group, Alone(clock)), may_skip=False)
    first.weight.register_post_accumulate_grad_hook(lambda parameter: order.append("last gradient"))
    for _ in range(2):  # torch makes several buckets after the first
        model.zero_grad()
        order.clear()
        strategy.step(images, labels)
        assert order[0] == "last gradient"
        assert order[1:] == ["mean"] * len(order[1:])
        for parameter, gradient in zip(model.parameters(), plain, strict=True):
            assert torch.equal(parameter.grad, 3 * gradient)
    assert len(order) > 2, "there are several buckets"


# -- a make-believe GPU ---------------------------------------------------------------------------------------------------


class Queued:
    """A mark in a device's queue."""

    def __init__(self, moment: float, done: list[float]) -> None:
        self.moment, self.done = moment, done

    def query(self) -> bool:
        return self.moment <= self.done[0]

    def elapsed_time(self, end: Queued) -> float:
        assert end.query(), "it asks for a time that the device has not reached"
        return (end.moment - self.moment) * 1000


def test_on_a_gpu_one_step_of_some_is_measured_and_told_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now, done, marks = [0.0], [0.0], [0]

    def mark(device: torch.device) -> Queued:
        marks[0] += 1
        return Queued(now[0], done)

    monkeypatch.setattr(laps_module, "cuda_mark", mark)
    laps = Laps(torch.device("cuda:0"))
    for _ in range(CUDA_EVERY + 2):
        for phase in ("other", "data", "forward", "backward", "update"):
            now[0] += 1
            laps.lap(phase)  # type: ignore[arg-type]
        laps.tick(8)
    # Of the steps 2 and 18 the beginning and five ends each.
    assert marks[0] == 12
    assert laps.take() is None
    done[0] = 20.0
    first = laps.take()
    assert first is not None
    assert (first.steps, first.samples, first.phases) == (1, 8, Phases(data=1, forward=1, backward=1, update=1, other=1))
    done[0] = now[0]
    second = laps.take()
    assert second is not None
    assert (second.steps, second.phases.seconds) == (1, 5)
    assert laps.take() is None


# -- a real GPU -----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_measuring_does_not_wait_for_the_gpu() -> None:
    device = torch.device("cuda:0")
    model = nn.Linear(5, 2).to(device)
    replicas = [Replica(model, device, torch.autocast("cuda", enabled=False))] * 2
    strategy = Split(replicas, nn.CrossEntropyLoss(), 0)
    inputs, labels = torch.randn(8, 5, device=device), torch.zeros(8, dtype=torch.int64, device=device)
    strategy.step(inputs, labels)
    strategy.laps.tick(8)
    assert strategy.laps.measuring
    torch.cuda.set_sync_debug_mode("error")
    try:
        strategy.laps.lap("data")
        strategy.step(inputs, labels)
        strategy.laps.lap("update")
        strategy.laps.tick(8)
        told = strategy.times()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    told = told or strategy.times()
    assert told is not None
    assert (told.steps, len(told.replicas)) == (1, 2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("changes", [{}, {"device": "cuda:0,cuda:0", "strategy": "split"}], ids=["single", "split"])
def test_a_gpu_tells_its_phases(tmp_path: Path, changes: dict[str, Any]) -> None:
    events = run(small_config(**{"device": "cuda:0", "epochs": 20, **changes}), FakeControl(tmp_path))
    whole = sum((event.phases for event in of(StepTimes, events)), Phases())
    steps = sum(event.steps for event in of(StepTimes, events))
    assert 20 * 7 // CUDA_EVERY - 1 <= steps <= 20 * 7 // CUDA_EVERY + 1
    assert min(whole.data, whole.forward, whole.backward, whole.update) > 0
    assert min(whole.communication, whole.other) >= 0
