"""Small runs to test with."""

import msgspec

from tuitrain.events import (
    Checkpoint,
    Eval,
    Losses,
    Notice,
    Replica,
    Replicas,
    ReplicaStat,
    ReplicaStats,
    RunEnded,
    RunStarted,
    State,
    Step,
)
from tuitrain.paths import METRICS
from tuitrain.recipes import load_recipe
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.record import RunRecord
from tuitrain.runs.store import MetricsWriter

STARTED = RunStarted(
    recipe="seed-cnn",
    device=("cpu",),
    strategy="single",
    data="synthetic",
    parameters=145_578,
    train_samples=640,
    test_samples=100,
    steps_per_epoch=10,
    total_steps=20,
)


def losses(first, values, epoch=1, start=1000.0):
    """Losses from step `first` on, a second apart."""
    return Losses(first_step=first, epoch=epoch, losses=tuple(values), times=tuple(start + first + i for i in range(len(values))))


def step(number, loss, epoch=1, rate=100.0):
    return Step(step=number, epoch=epoch, loss=loss, lr=0.01, samples_per_second=rate)


def evaluation(number, epoch, accuracy, loss=1.0):
    return Eval(step=number, epoch=epoch, loss=loss, loss_sum=2 * loss, accuracy=accuracy)


def small_run(folder="/runs/x"):
    """The events of a whole run of 20 steps in two epochs."""
    replica = Replica(index=0, device="cpu", input=(64, 3, 32, 32), output=(64, 10), loss=2.0)
    stat = ReplicaStat(index=0, loss=2.0, step_seconds=0.1, samples_per_second=640.0, memory=None)
    yield State(state="running")
    yield Notice(text="the built-in synthetic data is used")
    for epoch in (1, 2):
        first = 10 * epoch - 9
        values = [3.0 - 0.1 * number for number in range(first, first + 10)]
        yield losses(first, values, epoch)
        if epoch == 1:
            yield Replicas(step=1, batch=(64, 3, 32, 32), replicas=(replica,))
        yield from (step(first + i, value, epoch) for i, value in enumerate(values))
        yield ReplicaStats(step=10 * epoch, replicas=(stat,))
        yield evaluation(10 * epoch, epoch, 0.3 * epoch)
        for kind in ("epoch", "best"):
            yield Checkpoint(step=10 * epoch, path=f"{folder}/checkpoints/step-{10 * epoch:08}", kind=kind)
    yield RunEnded(state="finished", step=20)


def write(path, *batch):
    """Append events to the metrics file at `path`."""
    writer = MetricsWriter(path)
    writer.append(batch)
    assert writer.close() == 0


def make_run(runs_dir, config=None, batch=None, **status):
    """A run folder with its metrics, and with `status` in its state.json."""
    config = config or load_recipe("seed-cnn")
    folder = RunFolder.create(runs_dir, config, msgspec.structs.replace(STARTED, recipe=config.recipe), {"threads": 2})
    record = RunRecord(config)
    writer = MetricsWriter(folder.path / METRICS)
    for event in [STARTED, *(small_run(folder.path) if batch is None else batch)]:
        record.apply(event)
        writer.append([event])
    assert writer.close() == 0
    folder.log(record.log.tail(100))
    folder.write_state(msgspec.structs.replace(folder.status.with_record(record), **status))
    return folder
