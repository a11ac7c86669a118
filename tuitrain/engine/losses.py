"""The way of the losses from the device to the events, without ever making the device wait.

Losses stay on the device. About every tenth of a second those that gathered are copied to the host in one piece, on CUDA into pinned memory
and without a synchronization; the events of their steps follow when the copy has landed.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from tuitrain.engine.clock import Seconds, leading_clock
from tuitrain.engine.failures import RunFailed
from tuitrain.engine.memory import STATS_SECONDS, Memory, memory_of
from tuitrain.engine.replicas import Pattern, replicas_event
from tuitrain.engine.strategies import Strategy
from tuitrain.engine.target import TargetClock
from tuitrain.events import Event, Losses, ReplicaStat, ReplicaStats, Step

DRAIN_SECONDS = 0.1
ALWAYS_EVERY = 100

_never_landed: list[Tensor] = []
"""Pinned memory that a GPU was to write to when CUDA failed, until the process ends.

Before torch frees such memory it asks CUDA to note the moment. Where CUDA answers nothing but the failure any more, the answer is an
exception out of a destructor, which ends the whole process (pytorch#178154).
"""


@dataclass(frozen=True)
class _Done:
    """A step whose losses are still on the device: its own, then the replicas' where an event will show them."""

    step: int
    epoch: int
    samples: int
    lr: float
    time: float
    seconds: Seconds
    logged: bool
    values: tuple[Tensor, ...]
    pattern: Pattern
    replica_seconds: tuple[Seconds | None, ...]
    is_new: bool
    memory: Memory | None


@dataclass(frozen=True)
class _Flight:
    """A block of steps whose losses are on their way to the host."""

    block: list[_Done]
    host: Tensor
    landed: torch.cuda.Event | None

    def has_landed(self) -> bool:
        if self.landed is None:
            return True
        with _kept_where_cuda_fails(self.host):
            return bool(self.landed.query())  # type: ignore[no-untyped-call]

    def losses(self) -> Iterator[tuple[_Done, list[float]]]:
        if self.landed is not None:
            with _kept_where_cuda_fails(self.host):
                self.landed.synchronize()
        values = iter(self.host.tolist())
        for done in self.block:
            yield done, [next(values) for _ in done.values]


@contextmanager
def _kept_where_cuda_fails(host: Tensor) -> Iterator[None]:
    """See `_never_landed`."""
    try:
        yield
    except RuntimeError:
        _never_landed.append(host)
        raise


@dataclass
class _Span:
    """What has been done since the last event of a kind."""

    steps: int = 0
    samples: int = 0
    seconds: float = 0.0

    def add(self, samples: int, seconds: float) -> None:
        self.steps += 1
        self.samples += samples
        self.seconds += seconds

    @property
    def rate(self) -> float:
        return self.samples / max(self.seconds, 1e-9)


class LossLog:
    """Takes each step's loss and gives the events that tell of it, in the order of steps.

    Args:
        device: where the losses are.
        log_every: a `Step` event comes at step 1, every `log_every`-th, every 100th, and where `add` is told `last`.
        strategy: does the steps. Of the last one it has the shapes, losses and times; its laps begin anew with the clock.
        target: counts the steps' seconds, and tells of them with the losses.
        flaw_of: says what is wrong with the batch of a step, `None` where it finds nothing; asked where a loss is no finite number.
    """

    def __init__(
        self,
        device: torch.device,
        log_every: int,
        strategy: Strategy,
        target: TargetClock | None = None,
        flaw_of: Callable[[int], str | None] = lambda step: None,
    ) -> None:
        self._strategy = strategy
        self._flaw_of = flaw_of
        self._target = target
        self._fresh_memory = strategy.fresh_memory or self._memory_if_due
        self._cuda = device.type == "cuda"
        self._log_every = log_every
        self._clock = leading_clock(device)
        self._pending: list[_Done] = []
        self._flight: _Flight | None = None
        self._pattern: Pattern | None = None
        self._drained_at = self._stats_at = -math.inf
        self._since_step = _Span()
        self._since_stats: defaultdict[int, _Span] = defaultdict(_Span)

    def restart_clock(self) -> None:
        """Leave the time since the last step out: it went into evaluation, saving or a pause."""
        self._clock.restart()
        self._strategy.laps.restart()

    def add(self, step: int, epoch: int, loss: Tensor, samples: int, lr: float, *, last: bool) -> None:
        """Note a step that the strategy has just done.

        Args:
            step: its number, from 1.
            epoch: from 1.
            loss: 0-dim, detached, on the device.
            samples: the batch's size.
            lr: the learning rate of the step.
            last: the step ends an epoch or the run.
        """
        seconds, strategy = self._clock.tick(), self._strategy
        pattern, is_new = strategy.pattern, strategy.pattern != self._pattern
        self._pattern = pattern
        memory = self._fresh_memory()
        shown = is_new or memory is not None
        values = (loss, *(value for value in strategy.replica_losses if value is not None)) if shown else (loss,)
        logged = last or step == 1 or step % self._log_every == 0 or step % ALWAYS_EVERY == 0
        took = strategy.replica_seconds
        self._pending.append(_Done(step, epoch, samples, lr, time.time(), seconds, logged, values, pattern, took, is_new, memory))

    def ready(self) -> Iterator[Event]:
        """The events that are due by now; it never waits for the device.

        Raises:
            RunFailed: a loss is NaN or infinite; the events up to that step came before.
        """
        now = time.monotonic()
        if now - self._drained_at < DRAIN_SECONDS:
            return
        self._drained_at = now
        yield from self.at_hand()

    def at_hand(self) -> Iterator[Event]:
        """The events that can be told without waiting for the device; the rest is on its way.

        Raises:
            RunFailed: as `ready`.
        """
        if self._flight is not None and self._flight.has_landed():
            yield from self._arrive()
        if self._flight is None:
            self._launch()
        if not self._cuda:
            yield from self._arrive()

    def rest(self) -> Iterator[Event]:
        """All events that have not come yet; it waits for the device.

        Raises:
            RunFailed: as `ready`.
        """
        yield from self._arrive()
        self._launch()
        yield from self._arrive()

    def _memory_if_due(self) -> Memory | None:
        now = time.monotonic()
        if now - self._stats_at < STATS_SECONDS:
            return None
        self._stats_at = now
        return memory_of(self._strategy.devices)

    def _launch(self) -> None:
        if not self._pending:
            return
        block, self._pending = self._pending, []
        gathered = torch.stack([value for done in block for value in done.values])
        if not self._cuda:
            self._flight = _Flight(block, gathered, None)
            return
        host = torch.empty(gathered.shape, dtype=gathered.dtype, pin_memory=True)
        with _kept_where_cuda_fails(host):
            host.copy_(gathered, non_blocking=True)
            landed = torch.cuda.Event()  # type: ignore[no-untyped-call]
            landed.record()
        self._flight = _Flight(block, host, landed)

    def _arrive(self) -> Iterator[Event]:
        if self._flight is None:
            return
        flight, self._flight = self._flight, None
        arrived: list[tuple[_Done, list[float]]] = []
        bad: _Done | None = None
        for done, values in flight.losses():
            arrived.append((done, values))
            if not math.isfinite(values[0]):
                bad = done
                break
        first = arrived[0][0]
        # A block never reaches into the next epoch: `rest` is called at each epoch's end.
        losses, times = tuple(values[0] for _, values in arrived), tuple(done.time for done, _ in arrived)
        yield Losses(first_step=first.step, epoch=first.epoch, losses=losses, times=times)
        for done, values in arrived:
            yield from self._events_of(done, values)
        if self._target is not None:
            yield self._target.event(arrived[-1][0].step)
        if bad is not None:
            # Nothing was updated before the first step.
            advice = "a smaller lr often helps" if bad.step > 1 else "look at the inputs and the model, nothing was learned yet"
            raise RunFailed(bad.step, f"the loss is {losses[-1]}, no finite number; {self._flaw_of(bad.step) or advice}.")

    def _events_of(self, done: _Done, values: list[float]) -> Iterator[Event]:
        loss, replica_losses = values[0], done.pattern.spread(values[1:])
        seconds = done.seconds()
        self._since_step.add(done.samples, seconds)
        if self._target is not None:
            self._target.add_step(seconds)
        self._note_replicas(done, seconds)
        if done.is_new:
            yield replicas_event(done.step, done.pattern, self._strategy.devices, replica_losses)
        if done.logged:
            yield Step(step=done.step, epoch=done.epoch, loss=loss, lr=done.lr, samples_per_second=self._since_step.rate)
            self._since_step = _Span()
        if done.memory is not None:
            yield self._stats(done, replica_losses, done.memory.peaks)
            yield from done.memory.held
            if (times := self._strategy.times()) is not None:
                yield times
            self._since_stats.clear()

    def _note_replicas(self, done: _Done, seconds: float) -> None:
        """Count what each replica did in a step; a replica that is alone has the step's own time."""
        alone = len(done.pattern.replicas) == 1
        for index, (shapes, took) in enumerate(zip(done.pattern.replicas, done.replica_seconds, strict=True)):
            if shapes is None:
                continue
            if alone:
                self._since_stats[index].add(done.samples, seconds)
            elif took is not None:
                self._since_stats[index].add(shapes.outputs[0][0], took())

    def _stats(self, done: _Done, losses: Sequence[float | None], peaks: Sequence[int | None]) -> ReplicaStats:
        return ReplicaStats(step=done.step, replicas=tuple(self._stat(done, *each) for each in enumerate(zip(losses, peaks, strict=True))))

    def _stat(self, done: _Done, index: int, found: tuple[float | None, int | None]) -> ReplicaStat:
        loss, memory = found
        span = self._since_stats.get(index)
        if span is None or done.pattern.replicas[index] is None:
            return ReplicaStat(index=index, loss=loss, step_seconds=None, samples_per_second=None, memory=memory)
        seconds = span.seconds / span.steps
        return ReplicaStat(index=index, loss=loss, step_seconds=seconds, samples_per_second=span.rate, memory=memory)
