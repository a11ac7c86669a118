"""A run of a million steps on disk: how long it takes to open it and to look at another part of it."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benchmarks.pairs import Figure, Wanted, own, rounds
from tuitrain.events import RunStarted
from tuitrain.paths import METRICS
from tuitrain.recipes import load_recipe
from tuitrain.runs import schema
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record
from tuitrain.runs.store import MetricsWriter

STEPS = 1_000_000
HOURS = 8
COLUMNS = 100
PARTS = ((1, STEPS), (STEPS // 3, STEPS // 2), (500_000, 500_300), (123_456, 987_654))
"""The steps that are looked at one after the other."""


def store(wanted: Wanted) -> list[Figure]:
    """The record and the first curve of a long run, and other parts of its curves, beside reading its losses as a plain reader does."""
    with tempfile.TemporaryDirectory() as folder:
        path = long_run(Path(folder) / "runs")
        opened = rounds((lambda: _open(path), lambda: _read_plainly(path)), wanted.pairs)
        record = load_record(path)
        zoomed = rounds((lambda: _zoom(record), lambda: _read_plainly(path)), wanted.pairs)
    what = "SQLite reading all losses"
    return [
        own(f"a run of {STEPS:,} steps opened", [a for a, _ in opened], [b for _, b in opened], most=100, unit="ms", what=what),
        own("another part of its curves", [a for a, _ in zoomed], [b for _, b in zoomed], most=30, unit="ms", what=what),
    ]


def long_run(runs_dir: Path) -> Path:
    """The folder of a finished run with a step event at every step, and samples of one GPU each second for `HOURS`."""
    config = load_recipe("seed-cnn")
    started = RunStarted(
        recipe=config.recipe,
        device=("cuda:0",),
        strategy="single",
        data="cifar10",
        parameters=145_578,
        train_samples=640_000,
        test_samples=10_000,
        steps_per_epoch=10_000,
        total_steps=STEPS,
    )
    path = RunFolder.create(runs_dir, config, started, {}).path
    steps = f"WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < {STEPS})"
    seconds = f"WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < {HOURS * 3600})"
    with closing(sqlite3.connect(path / METRICS)) as connection:
        connection.execute(f"INSERT INTO losses {steps} SELECT i, 1 + i / 10000, 1.0 + (i * 7919 % 1000) / 1000.0, i * 0.03 FROM number")
        connection.execute(f"INSERT INTO step_events {steps} SELECT i, 0.01, 3000.0 + i % 500 FROM number")
        connection.execute(f"INSERT INTO gpu_samples {seconds} SELECT i, 'cuda:0', 1000000000, 90, 300.0, 60 FROM number")
        connection.execute("INSERT INTO evals SELECT step, epoch, 1.0, 10.0, 0.5, time FROM losses WHERE step % 10000 = 0")
        for column in schema.GATHERED:
            connection.execute(f"DROP TABLE {column.pyramid}")
        connection.commit()
    # The writer makes the pyramids of a file that has none.
    MetricsWriter(path / METRICS).close()
    return path


def _open(path: Path) -> float:
    """Milliseconds until the first curve of a run that nobody has opened is there."""
    begin = time.perf_counter()
    record = load_record(path)
    assert record.loss.thin(1, STEPS, COLUMNS)
    return 1000 * (time.perf_counter() - begin)


def _zoom(record: RunRecord) -> float:
    """Milliseconds for one part of one curve: the longest of all."""
    longest = 0.0
    for first, last in PARTS:
        for curve in (record.loss, record.speed, record.learning_rate):
            begin = time.perf_counter()
            assert curve.thin(first, last, COLUMNS)
            longest = max(longest, time.perf_counter() - begin)
    return 1000 * longest


def _read_plainly(path: Path) -> float:
    begin = time.perf_counter()
    with closing(sqlite3.connect(path / METRICS)) as connection:
        assert len(connection.execute("SELECT step, loss FROM losses").fetchall()) == STEPS
    return 1000 * (time.perf_counter() - begin)
