from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import FakeControl, losses_of, of, run, small_config
from torch import nn

from tuitrain.engine import losses as losses_module
from tuitrain.engine.failures import RunFailed
from tuitrain.engine.laps import Laps
from tuitrain.engine.losses import LossLog
from tuitrain.engine.replicas import Pattern, Shapes, ShapeWatch, replicas_event
from tuitrain.events import Eval, Event, Losses, Notice, Replicas, ReplicaStats, RunEnded, Step

CPU = torch.device("cpu")


class TwoReplicas:
    """A strategy as the loss log sees one: replica 1 is idle when a batch has less than 8 samples."""

    devices = ("cpu", "cpu")
    fresh_memory = None

    def __init__(self) -> None:
        self.laps = Laps(CPU)
        self.pattern = Pattern((), None, (None, None))
        self.replica_losses: tuple[Any, ...] = (None, None)
        self.replica_seconds: tuple[Any, ...] = (None, None)

    def step(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        count, idle = len(inputs), len(inputs) < 8
        shapes = Shapes(((count, 5),), ((count, 2),))
        self.pattern = Pattern((count, 5), None, (shapes, None if idle else shapes))
        self.replica_losses = (torch.tensor(1.0), None if idle else torch.tensor(2.0))
        return torch.tensor(float(count))

    def times(self) -> None:
        """Nobody measures them."""


def made(log_every: int) -> tuple[LossLog, TwoReplicas]:
    strategy = TwoReplicas()
    return LossLog(CPU, log_every, strategy), strategy  # type: ignore[arg-type]


def fill(log: LossLog, strategy: TwoReplicas, sizes: list[int], first: int = 1, epoch: int = 1) -> None:
    for step, size in enumerate(sizes, start=first):
        loss = strategy.step(torch.zeros(size, 5), torch.zeros(size))
        log.add(step, epoch, loss, size, 0.1, last=False)


def test_an_idle_replica_has_nothing_everywhere() -> None:
    log, strategy = made(1)
    fill(log, strategy, [8, 8, 5, 5, 8])
    events = list(log.rest())
    patterns = of(Replicas, events)
    assert [event.step for event in patterns] == [1, 3, 5]
    busy, idle = patterns[1].replicas
    assert (busy.input, busy.output, busy.loss) == ((5, 5), (5, 2), 1.0)
    assert (idle.input, idle.output, idle.loss, idle.inputs) == (None, None, None, None)
    assert [replica.loss for replica in patterns[0].replicas] == [1.0, 2.0]
    assert [replica.loss for replica in of(ReplicaStats, events)[0].replicas] == [1.0, 2.0]


def test_events_come_in_the_order_of_steps() -> None:
    log, strategy = made(2)
    fill(log, strategy, [8, 8, 5, 8])
    events = list(log.rest())
    assert isinstance(events[0], Losses)
    assert events[0].losses == (8.0, 8.0, 5.0, 8.0)
    assert [event.step for event in events[1:]] == sorted(event.step for event in events[1:])
    assert [event.step for event in of(Step, events)] == [1, 2, 4]
    assert list(log.rest()) == []


def test_speed_is_counted_since_the_last_step_event(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 1.0, 2.0, 4.0, 100.0, 101.0])
    monkeypatch.setattr("tuitrain.engine.clock.time.perf_counter", lambda: next(ticks))
    log, strategy = made(2)
    fill(log, strategy, [8, 8, 8])
    log.restart_clock()
    fill(log, strategy, [8], first=4)
    told = {event.step: event.samples_per_second for event in of(Step, list(log.rest()))}
    # Step 1 alone in 1 s; step 2 in 1 s; steps 3 and 4 in 2 s and 1 s, without what lay between them.
    assert told == {1: 8.0, 2: 8.0, 4: pytest.approx(16 / 3)}


def test_nothing_comes_before_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(losses_module.time, "monotonic", lambda: now[0])
    log, strategy = made(1)
    fill(log, strategy, [8])
    assert losses_of(list(log.ready())) == {1: 8.0}
    fill(log, strategy, [8], first=2)
    now[0] += 0.05
    assert list(log.ready()) == []
    now[0] += 0.06
    assert losses_of(list(log.ready())) == {2: 8.0}


def test_nothing_is_told_after_a_loss_that_is_not_finite() -> None:
    log, strategy = made(1)
    fill(log, strategy, [8, 8])
    log.add(3, 1, torch.tensor(math.inf), 8, 0.1, last=False)
    fill(log, strategy, [8], first=4)
    events: list[Event] = []

    def collect(source: Iterator[Event]) -> None:
        for event in source:
            events.append(event)

    with pytest.raises(RunFailed, match=r"step 3: the loss is inf, no finite number"):
        collect(log.rest())
    assert sorted(losses_of(events)) == [1, 2, 3]
    assert [event.step for event in of(Step, events)] == [1, 2, 3]


@pytest.mark.parametrize(("step", "advice"), [(1, "look at the inputs and the model"), (2, "a smaller lr often helps")])
def test_a_smaller_lr_is_advised_where_one_was_used_before(step: int, advice: str) -> None:
    log, strategy = made(1)
    fill(log, strategy, [8] * (step - 1))
    log.add(step, 1, torch.tensor(math.nan), 8, 0.1, last=False)
    with pytest.raises(RunFailed, match=rf"^step {step}: the loss is nan, no finite number; {advice}"):
        list(log.rest())


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_sample_that_is_not_finite_is_named(tmp_path: Path, shuffle: bool) -> None:
    ended = run(small_config(data="engine_small:make_holed", shuffle=shuffle), FakeControl(tmp_path))[-1]
    assert isinstance(ended, RunEnded)
    said = "the loss is nan, no finite number; the inputs of training sample 21, counted from 0, hold a nan or an infinity."
    assert ended.error == f"step {ended.step}: {said}"
    assert (ended.step == 3) is not shuffle


def test_a_test_sample_that_is_not_finite_is_named_once_and_the_run_goes_on(tmp_path: Path) -> None:
    events = run(small_config(data="engine_small:make_holed_tests", epochs=2), FakeControl(tmp_path))
    assert [math.isnan(event.loss) for event in of(Eval, events)] == [True, True]
    said = "The test loss is nan, no finite number: the inputs of test sample 9, counted from 0, hold a nan or an infinity."
    assert [event.text for event in of(Notice, events) if "test" in event.text] == [said]
    assert [event.level for event in of(Notice, events) if event.text == said] == ["warning"]
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.state == "finished"


def test_the_watch_sees_training_forwards_only() -> None:
    model = nn.Linear(5, 2)
    watch = ShapeWatch(model)
    model.train()(torch.zeros(30, 5))
    model.eval()(torch.zeros(7, 5))
    assert watch.last == Shapes(((30, 5),), ((30, 2),))


def test_several_tensors_are_listed_beside_the_first() -> None:
    shapes = Shapes(((3, 4, 5), (2,)), ((4, 2), (1, 4)))
    event = replicas_event(1, Pattern((3, 4, 5), (4, 2), (shapes,)), ("cpu",), (0.5,))
    assert (event.gathered, event.replicas[0].input, event.replicas[0].inputs) == ((4, 2), (3, 4, 5), shapes.inputs)
    assert (event.replicas[0].output, event.replicas[0].outputs) == ((4, 2), shapes.outputs)
