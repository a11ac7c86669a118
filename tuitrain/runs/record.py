"""Everything a screen shows of one run, kept in memory and brought up to date by the run's events.

One thread calls `apply`; any other thread reads. An attribute is a number, a text or an immutable event and is replaced whole; lists only
grow (read them by index or take a copy); `loss` announces a point when it is complete; `log` has its own lock. So a reader sees every
single value whole, while two values read one after the other may be one batch of events apart. When a run goes on from a checkpoint,
curves and lists are replaced by what they were up to there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tuitrain import events
from tuitrain.config import RunConfig
from tuitrain.events import LIVE_STATES, RunState
from tuitrain.runs.epochs import train_loss
from tuitrain.runs.evaluations import Evaluations
from tuitrain.runs.history import DeviceHistory
from tuitrain.runs.logtail import LogTail, describe
from tuitrain.runs.pace import Rate, Stopwatch
from tuitrain.runs.series import Curve, Series
from tuitrain.runs.times import sum_of

if TYPE_CHECKING:
    from tuitrain.runs.stored import StoredRun

_READ_SECONDS = 1.0
_FIRST_EPOCHS = 10


class RunRecord:
    """What is known of one run.

    Args:
        config: what the run was started with.
        clock: seconds that only grow.
    """

    def __init__(self, config: RunConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        """As asked for; the host may put the resolved one in its place ("auto" replaced by what was taken)."""
        self.started: events.RunStarted | None = None
        self.run = ""
        """The run's id; empty until its folder is made."""
        self.path: Path | None = None
        """The run's folder; the host sets it."""
        self.stored: StoredRun | None = None
        """Where the curves come from when the record was read from the run's folder."""
        self.state: RunState = "queued"
        self.attached = 0
        """How many screens show the run; the host sets it."""
        self.phase: events.Progress | None = None
        """What goes on where no steps are made (decoding, evaluating ...), or `None`."""
        self.step = 0
        self.epoch = 0
        self.last_loss: float | None = None
        """The loss of `step`; NaN or infinite where it was."""
        self.lr: float | None = None
        self.loss: Curve = Series()
        """Every step's training loss over the steps."""
        self.times: Curve = Series()
        """When each step was made, Unix seconds over the steps."""
        self.learning_rate: Curve = Series()
        """Over the steps that have a step event."""
        self.speed: Curve = Series()
        """Samples per second over the steps that have a step event."""
        self.devices: dict[str, DeviceHistory] = {}
        """What each device of the run did, by its name."""
        self.tensor_memory: dict[str, events.TensorMemory] = {}
        """The newest of each CUDA device, by its name; replaced whole."""
        self.evaluations = Evaluations()
        self.replicas: events.Replicas | None = None
        """The newest pattern of shapes."""
        self.replica_stats: events.ReplicaStats | None = None
        self.step_times: events.StepTimes | None = None
        """Where the time of all measured steps went, summed up."""
        self.clock: events.Clock | None = None
        """How long it has trained, in a run that has a target accuracy."""
        self.parameters: events.Parameters | None = None
        self.predictions: events.Predictions | None = None
        """On the test samples, at the newest evaluation."""
        self.checkpoint: events.Checkpoint | None = None
        """The newest one that was told."""
        self.notices: list[events.Notice] = []
        self.error: str | None = None
        self.log = LogTail()
        self._planned: events.RunStarted | None = None
        self._on_disk: StoredRun | None = None
        self._clock = clock
        self._rate = Rate()
        self._rate_step = 0
        self._running = Stopwatch(clock, 0.0)
        self._stepped_at = clock()
        self.eval_seconds = 0.0
        """How long the newest evaluation took."""
        self.stalled_seconds = 0.0
        """How long no step has come where several should have; 0 as long as they come. The host sees to it."""

    @property
    def plan(self) -> events.RunStarted | None:
        """`started`, and of a run that goes on, until it has started again, what it had planned before."""
        return self.started or self._planned

    @property
    def evals(self) -> list[events.Eval]:
        """The evaluations, by their steps."""
        return self.evaluations.events

    @property
    def has_accuracy(self) -> bool:
        """Whether an answer of the network is right or wrong, as far as it is known."""
        return self.config.loss != "mse" if self.plan is None else self.plan.targets != "numbers"

    @property
    def best_accuracy(self) -> float | None:
        """The highest of them, 0 to 1."""
        return self.evaluations.best_accuracy

    @property
    def live(self) -> bool:
        """Whether the run has not ended."""
        return self.state in LIVE_STATES

    @property
    def saved(self) -> bool:
        """Whether it has a checkpoint to go on from: one that was told, or the one that it goes on from."""
        return self.checkpoint is not None or (self.started is not None and bool(self.started.resumed_from))

    @property
    def samples_per_second(self) -> float | None:
        """The training speed, smoothed over about two seconds; `None` before the first step."""
        return self._rate.value

    @property
    def makes_steps(self) -> bool:
        """Whether it should make a step just now."""
        started = self.started
        return self.state == "running" and self.phase is None and started is not None and self.step < started.total_steps

    @property
    def step_seconds(self) -> float | None:
        """How long a step takes at the present speed; `None` before the first one."""
        started, rate = self.started, self._rate.value
        return None if started is None or rate is None else self._samples_per_step(started) / rate

    @property
    def epochs_fly(self) -> bool:
        """Whether an epoch and its evaluation are over, at the present speed, before a person has read of the one before; not of the
        first ten, which are all of a run against the clock."""
        started, seconds = self.started, self.step_seconds
        if started is None or seconds is None or self.epoch <= _FIRST_EPOCHS:
            return False
        return started.steps_per_epoch * seconds + self.eval_seconds < _READ_SECONDS

    @property
    def running_seconds(self) -> float:
        """How long the run has been running, pauses left out."""
        return self._running.seconds

    def eta_seconds(self) -> float | None:
        """Seconds of running until the last planned step is made and evaluated; `None` when nobody can tell."""
        rate, started = self._rate.value, self.started
        if started is None or rate is None or not self.live or self.stalled_seconds:
            return None
        steps = max(started.total_steps - self.step, 0)
        evaluations = math.ceil(steps / started.steps_per_epoch) if started.test_samples else 0
        return steps * self._samples_per_step(started) / rate + evaluations * self.eval_seconds

    def train_loss(self, event: events.Event) -> float | None:
        """The mean training loss of the epoch that ends with an evaluation, or with a checkpoint where nothing is evaluated; `None` where
        nobody knows, and of any other event."""
        match self.started, event:
            case (events.RunStarted(test_samples=0) as started, events.Checkpoint(kind="epoch", step=step)) | (
                events.RunStarted() as started,
                events.Eval(step=step),
            ):
                return train_loss(self.loss, step, started, self.config.batch_size)
        return None

    def ran_before(self, seconds: float) -> None:
        """The run was running for so long before this record was made."""
        self._running = Stopwatch(self._clock, seconds)

    def wait_for_start(self) -> None:
        """The run goes on and has not started yet in this process."""
        # In this order: whoever reads meanwhile finds a plan at every moment.
        self._planned = self.started
        self.started = None

    def leave_on_disk(self, stored: StoredRun) -> None:
        """Take the curves that are seldom shown from the run's folder: in memory they would grow with every step."""
        self.learning_rate, self.speed = stored.learning_rate, stored.speed
        self._on_disk = stored

    def let_go(self) -> None:
        """All that happened is in the run's folder: of the other curves, too, only the newest steps stay in memory."""
        if self._on_disk is not None:
            for curve, stored in ((self.loss, self._on_disk.loss), (self.times, self._on_disk.times)):
                if isinstance(curve, Series):
                    curve.let_go(stored.numbers)

    def begin_after(self, step: int) -> None:
        """The events that come next are about what was done after `step`."""
        self.step = self._rate_step = step

    def pace(self, step: int, samples_per_second: float) -> None:
        """The steps since the last call, up to `step`, were made so fast."""
        if self.started is not None:
            self._rate.add((step - self._rate_step) * self._samples_per_step(self.started), samples_per_second)
        self._rate_step = step

    def apply(self, event: events.Event) -> None:
        """Take in one event, and log it; only one thread may call this."""
        # Of the steps, which may be thousands a second, the log says nothing.
        if not isinstance(event, (events.Losses, events.Step)) and (line := describe(event, self.train_loss(event))):
            self.log.add(*line)
        self.take(event)

    def take(self, event: events.Event) -> None:
        """Take in one event that the log has already; only one thread may call this."""
        match event:
            case events.RunStarted():
                self._start(event)
            case events.Losses():
                self._add_losses(event)
            case events.Step():
                self._add_step(event)
            case events.Eval():
                self._add_eval(event)
            case events.State():
                self._enter(event.state)
            case events.RunEnded():
                self.error = event.error
                self._enter(event.state)
            case events.Progress():
                self.phase = event
            case events.Replicas():
                self.replicas = event
            case events.ReplicaStats():
                self.replica_stats = event
            case events.StepTimes():
                self.step_times = sum_of(self.step_times, event)
            case events.Clock():
                self.clock = event
            case events.Checkpoint():
                self.checkpoint, self.phase = event, None
            case events.Notice():
                self.notices.append(event)
            case events.Parameters():
                self.parameters = event
            case events.Predictions():
                self.predictions = event
            case events.GpuSample():
                self.devices.setdefault(event.device, DeviceHistory()).add(event)
            case events.TensorMemory():
                self.tensor_memory = {**self.tensor_memory, event.device: event}
            case _:
                pass

    def _start(self, event: events.RunStarted) -> None:
        self.started = event
        self.run = event.run or self.run
        if event.resumed_from is not None:
            self._forget_after(event.resumed_from)
        self.begin_after(event.resumed_from or 0)
        self.phase = None

    def _forget_after(self, step: int) -> None:
        """A run that goes on from a checkpoint makes the steps after it again."""
        for name in ("loss", "times", "learning_rate", "speed"):
            curve = getattr(self, name)
            if isinstance(curve, Series):
                setattr(self, name, curve.up_to(step))
        self.evaluations = self.evaluations.up_to(step)
        if self.checkpoint is not None and self.checkpoint.step > step:
            self.checkpoint = None

    def _enter(self, state: RunState) -> None:
        if state == "running":
            self._running.start()
            self._stepped_at = self._clock()
        else:
            self._running.stop()
        self.phase = None
        self.state = state

    def _add_losses(self, event: events.Losses) -> None:
        count = len(event.losses)
        if not isinstance(self.loss, Series):
            raise RuntimeError("a run that was read from its folder gets no new losses")
        steps = range(event.first_step, event.first_step + count)
        if isinstance(self.times, Series):
            self.times.extend(steps, event.times)
        self.loss.extend(steps, event.losses)
        if count:
            self._reach(event.first_step + count - 1, event.epoch, event.losses[-1])

    def _add_step(self, event: events.Step) -> None:
        self.lr = event.lr
        if isinstance(self.learning_rate, Series) and isinstance(self.speed, Series) and event.step > self._rate_step:
            self.learning_rate.append(event.step, event.lr)
            self.speed.append(event.step, event.samples_per_second)
        self.pace(event.step, event.samples_per_second)
        self._reach(event.step, event.epoch, event.loss)

    def _reach(self, step: int, epoch: int, loss: float) -> None:
        """Steps are announced after the block of losses that holds them: never go back."""
        self.phase = None
        self._stepped_at = self._clock()
        if step >= self.step:
            self.last_loss, self.epoch, self.step = loss, epoch, step

    def _add_eval(self, event: events.Eval) -> None:
        self.eval_seconds = self._clock() - self._stepped_at
        self.phase = None
        self.evaluations.add(event)

    def _samples_per_step(self, started: events.RunStarted) -> float:
        return started.train_samples / started.steps_per_epoch
