"""RunRecord: what the screens read after the events of a run."""

import math

import msgspec
import pytest
from small_runs import STARTED, evaluation, losses, small_run, step

from tuitrain.config import DEFAULTS
from tuitrain.events import Checkpoint, GpuSample, Losses, Notice, Progress, RunEnded, State, TensorMemory
from tuitrain.runs.logtail import LogTail
from tuitrain.runs.record import RunRecord


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def record(clock):
    record = RunRecord(DEFAULTS, clock)
    record.apply(msgspec.structs.replace(STARTED, run="20261121-0413-seed-cnn-k3f"))
    record.apply(State(state="running"))
    return record


def test_a_whole_run():
    record = RunRecord(DEFAULTS)
    assert (record.state, record.step, record.samples_per_second, record.eta_seconds()) == ("queued", 0, None, None)
    for event in [STARTED, *small_run()]:
        record.apply(event)
    assert (record.state, record.live, record.error) == ("finished", False, None)
    assert (record.step, record.epoch, record.last_loss, record.lr) == (20, 2, pytest.approx(1.0), 0.01)
    assert len(record.loss) == 20
    assert [event.accuracy for event in record.evals] == [0.3, 0.6]
    assert record.best_accuracy == 0.6
    assert record.replicas.replicas[0].input == (64, 3, 32, 32)
    assert record.replica_stats.step == 20
    assert (record.checkpoint.kind, record.checkpoint.step) == ("best", 20)
    assert record.notices == [Notice(text="the built-in synthetic data is used")]
    assert record.eta_seconds() is None


@pytest.mark.parametrize("resumed_from", [None, 0, 15])
def test_a_run_that_goes_on_forgets_what_it_makes_again(resumed_from):
    record = RunRecord(DEFAULTS)
    for event in [msgspec.structs.replace(STARTED, run="the-first"), *small_run()]:
        record.apply(event)
    record.apply(msgspec.structs.replace(STARTED, resumed_from=resumed_from))
    assert record.run == "the-first"
    assert (record.step, record.live) == (resumed_from or 0, False)
    steps, evals, best = {None: (20, [0.3, 0.6], 0.6), 0: (0, [], None), 15: (15, [0.3], 0.3)}[resumed_from]
    assert [len(curve) for curve in (record.loss, record.times, record.learning_rate, record.speed)] == [steps] * 4
    assert ([event.accuracy for event in record.evals], record.best_accuracy) == (evals, best)
    assert (record.checkpoint is None, record.saved) == (resumed_from is not None, resumed_from != 0)
    assert len(record.evaluations.losses.points) == len(record.evaluations.accuracies.points) == len(evals)
    assert record.evaluations.accuracies.greatest == (None if best is None else (20.0 if best == 0.6 else 10.0, 100 * best))


def test_a_run_is_saved_by_its_checkpoint_or_by_the_one_that_it_goes_on_from():
    record = RunRecord(DEFAULTS)
    assert not record.saved
    for resumed_from, saved in ((None, False), (0, False), (5, True)):
        record.apply(msgspec.structs.replace(STARTED, resumed_from=resumed_from))
        assert record.saved == saved
    record = RunRecord(DEFAULTS)
    record.apply(Checkpoint(step=1, path="step-00000001", kind="last"))
    assert record.saved


def test_step_events_that_come_after_their_block_do_not_go_back(record):
    record.apply(losses(1, [3.0, 2.0, 1.0]))
    record.apply(step(1, 3.0))
    assert (record.step, record.last_loss) == (3, 1.0)
    record.apply(step(3, 1.0))
    assert (record.step, record.last_loss) == (3, 1.0)


def test_an_empty_block_changes_nothing(record):
    record.apply(Losses(first_step=1, epoch=1, losses=(), times=()))
    assert (record.step, len(record.loss)) == (0, 0)


def test_the_clock_leaves_pauses_out(record, clock):
    clock.now += 5
    record.apply(State(state="paused"))
    clock.now += 60
    assert record.running_seconds == 5
    record.apply(State(state="running"))
    clock.now += 2
    assert record.running_seconds == 7
    record.apply(RunEnded(state="stopped", step=0))
    clock.now += 60
    assert record.running_seconds == 7


def test_eta_counts_steps_and_the_evaluations_to_come(record, clock):
    assert record.eta_seconds() is None
    record.apply(step(5, 1.0, rate=128.0))
    assert record.samples_per_second == 128.0
    assert record.eta_seconds() == pytest.approx(15 * 64 / 128)
    record.apply(step(10, 1.0, rate=128.0))
    clock.now += 3
    record.apply(evaluation(10, 1, 0.5))
    assert record.eta_seconds() == pytest.approx(10 * 64 / 128 + 3)
    record.apply(step(15, 1.0, rate=128.0))
    assert record.eta_seconds() == pytest.approx(5 * 64 / 128 + 3), "the end of an epoch that is begun has one too"


def test_epochs_fly_while_one_and_its_evaluation_take_less_than_a_second(record, clock):
    assert not record.epochs_fly, "before the first step"
    record.apply(step(5, 1.0, rate=1280.0))
    assert not record.epochs_fly, "the first ones are shown as they come"
    record.epoch = 11
    assert record.epochs_fly
    clock.now += 0.6
    record.apply(evaluation(10, 1, 0.5))
    assert not record.epochs_fly


def test_speed_settles_and_ignores_what_is_no_rate(record):
    for number in range(1, 2000):
        record.apply(step(number, 1.0, rate=640.0 if number % 2 else 320.0))
    assert record.samples_per_second == pytest.approx(2 / (1 / 640 + 1 / 320), rel=0.05)
    before = record.samples_per_second
    for rate in (math.nan, math.inf, 0.0, -1.0):
        record.apply(step(3000, 1.0, rate=rate))
    assert record.samples_per_second == before


def test_the_phase_is_there_until_something_else_happens(record):
    phase = Progress(phase="evaluating", done=1, total=3)
    for event in (
        losses(1, [1.0]),
        step(2, 1.0),
        evaluation(2, 1, 0.1),
        State(state="paused"),
        RunEnded(state="failed", step=2, error="x"),
    ):
        record.apply(phase)
        assert record.phase is phase
        record.apply(event)
        assert record.phase is None


def test_best_is_the_greatest_accuracy_and_never_nan(record):
    for number, accuracy in enumerate([math.nan, 0.4, 0.3, 0.4], 1):
        record.apply(evaluation(number, number, accuracy))
    assert record.best_accuracy == 0.4


def test_a_failure_is_kept_and_logged(record):
    record.apply(RunEnded(state="failed", step=12, error="step 12: the loss is NaN"))
    assert (record.state, record.error) == ("failed", "step 12: the loss is NaN")
    line = record.log.tail(1)[0]
    assert (line.level, line.text) == ("error", "failed: step 12: the loss is NaN")


def test_gpu_samples_are_kept_by_device_and_not_logged(record):
    before = record.log.total
    record.apply(GpuSample(time=1.0, device="cuda:0", memory_used=1, utilization=None, power=None, temperature=None))
    assert record.log.total == before
    assert list(record.devices) == ["cuda:0"]


def test_the_log_is_clean_bounded_and_countable(monkeypatch):
    monkeypatch.setattr("tuitrain.runs.logtail.LOG_LINES", 3)
    log = LogTail()
    for number in range(5):
        log.add("output", f"line {number}\x1b[2J\n", now=float(number))
    assert [line.text for line in log.tail(10)] == ["line 2·[2J·", "line 3·[2J·", "line 4·[2J·"]
    assert [line.text[:6] for line in log.tail(1)] == ["line 4"]
    assert log.tail(0) == []
    assert log.since(4) == (log.tail(1), 5)
    assert log.since(0) == (log.tail(3), 5)
    assert log.since(5) == ([], 5)


def test_the_newest_tensor_memory_of_each_device(record):
    def held(device, allocated):
        return TensorMemory(time=1.0, device=device, uuid=None, allocated=allocated, reserved=allocated)

    record.apply(held("cuda:0", 1))
    before = record.tensor_memory
    record.apply(held("cuda:1", 2))
    record.apply(held("cuda:0", 3))
    assert {device: event.allocated for device, event in record.tensor_memory.items()} == {"cuda:0": 3, "cuda:1": 2}
    assert list(before) == ["cuda:0"], "a reader on another thread may be walking over it"
