"""A record read from a run folder says what the live record said."""

import contextlib
import shutil
import sqlite3
import time

import pytest
from small_runs import STARTED, losses, make_run, small_run

from tuitrain.config import ConfigError
from tuitrain.events import RunEnded, State
from tuitrain.paths import METRICS
from tuitrain.recipes import load_recipe
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record
from tuitrain.runs.store import MetricsWriter

FIELDS = [
    "config",
    "state",
    "step",
    "epoch",
    "last_loss",
    "lr",
    "evals",
    "best_accuracy",
    "replicas",
    "replica_stats",
    "checkpoint",
    "notices",
    "error",
]


class Time:
    """A clock that stands where it is put."""

    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def test_a_loaded_record_equals_the_live_one(runs_dir):
    folder = make_run(runs_dir)
    live, loaded = RunRecord(load_recipe("seed-cnn")), load_record(folder.path)
    for event in [STARTED, *small_run(folder.path)]:
        live.apply(event)
    for field in FIELDS:
        assert getattr(loaded, field) == getattr(live, field), field
    assert (loaded.run, loaded.path) == (folder.id, folder.path)
    assert loaded.started.total_steps == 20
    assert [line.text for line in loaded.log.tail(100)] == [line.text for line in live.log.tail(100)]
    assert len(loaded.loss) == 20
    assert loaded.loss.thin(1, 20, 40) == live.loss.thin(1, 20, 40)
    assert loaded.loss.smoothed(0.9).thin(1, 20, 40) == live.loss.smoothed(0.9).thin(1, 20, 40)
    assert loaded.running_seconds == pytest.approx(0, abs=60)


def test_a_run_without_a_step_loads(runs_dir):
    loaded = load_record(make_run(runs_dir, batch=[State(state="running")], state="failed", error="out of memory").path)
    assert (loaded.state, loaded.error, loaded.step, loaded.last_loss) == ("failed", "out of memory", 0, None)
    assert loaded.loss.thin(0, 10, 10) == []
    assert loaded.eta_seconds() is None


@pytest.mark.parametrize(
    ("moments", "seconds"),
    [((100.0, 160.0, 200.0, 230.0), 90.0), ((100.0, 40.0, 200.0, 230.0), 30.0), ((100.0, 160.0, 200.0, 10.0), 60.0)],
)
def test_in_files_of_older_versions_a_clock_that_was_set_back_takes_no_running_time_away(runs_dir, moments, seconds):
    states = ("running", "paused", "running")
    batch = [*(State(state=state) for state in states), RunEnded(state="finished", step=0)]
    folder = make_run(runs_dir, batch=batch, running_seconds=None)
    with contextlib.closing(sqlite3.connect(folder.path / METRICS)) as file, file:
        file.executemany("UPDATE states SET time = ? WHERE id = ?", [(moment, 1 + index) for index, moment in enumerate(moments)])
    assert load_record(folder.path).running_seconds == seconds


@pytest.mark.parametrize("jump", [-7200.0, 7200.0], ids=["set back", "set forward, or suspended"])
def test_a_clock_that_jumps_changes_no_running_time(runs_dir, monkeypatch, jump):
    """The clock on the wall jumps while the run runs; the one that only grows does not."""
    folder = make_run(runs_dir, batch=[])
    wall, own = Time(time.time()), Time(50.0)
    monkeypatch.setattr(time, "time", wall)
    record = RunRecord(load_recipe("seed-cnn"), own)
    writer = MetricsWriter(folder.path / METRICS)

    def say(event, seconds):
        record.apply(event)
        writer.append([event])
        wall.now, own.now = wall.now + seconds, own.now + seconds

    say(State(state="running"), 30.0)
    wall.now += jump
    say(State(state="paused"), 500.0)
    say(State(state="running"), 12.0)
    assert writer.close() == 0
    folder.write_state(folder.status.with_record(record))
    monkeypatch.undo()
    assert load_record(folder.path).running_seconds == 42.0


def test_a_run_whose_process_is_gone_is_lost(runs_dir):
    folder = make_run(runs_dir, state="running", pid=2**22 + 5)
    assert load_record(folder.path).state == "lost"


def test_a_loaded_record_takes_no_losses(run_folder):
    with pytest.raises(RuntimeError, match="no new losses"):
        load_record(run_folder.path).apply(losses(21, [1.0]))


def test_a_run_moved_elsewhere_still_loads(runs_dir, run_folder, tmp_path):
    shutil.move(run_folder.path, tmp_path / "moved")
    loaded = load_record(tmp_path / "moved")
    assert loaded.run == "moved"
    assert loaded.checkpoint.path == str(tmp_path / "moved" / "checkpoints" / "step-00000020")


@pytest.mark.parametrize("missing", ["state.json", "run.toml", "metrics.sqlite"])
def test_what_is_missing_is_named(run_folder, missing):
    (run_folder.path / missing).unlink()
    with pytest.raises(ConfigError, match=missing):
        load_record(run_folder.path)


def test_without_a_log_and_with_a_torn_one(run_folder):
    log = run_folder.path / "log.txt"
    log.write_bytes(b"\xff\xfe torn\n2026-11-21T04:13:00.000Z info good\x1b[2J\n2026-11-21T04:13:00.000Z shout x\nyesterday info x\nend")
    assert [line.text for line in load_record(run_folder.path).log.tail(10)] == ["good·[2J"]
    log.unlink()
    assert load_record(run_folder.path).log.tail(10) == []
