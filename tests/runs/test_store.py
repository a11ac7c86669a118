"""The metrics store: nothing is lost, readers and the writer do not stand in each other's way, damage is a sentence."""

import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import msgspec
import pytest
from small_runs import STARTED, losses, small_run, step, write

from tuitrain.config import ConfigError
from tuitrain.events import Checkpoint, GpuSample, Phases, ReplicaStats, StepTimes
from tuitrain.runs.buckets import cover
from tuitrain.runs.errors import RunError
from tuitrain.runs.mending import sound_metrics
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.schema import FACTOR, LOSS
from tuitrain.runs.series import Series
from tuitrain.runs.store import MetricsWriter


def rows(path, query):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_what_was_written_is_read(path):
    write(path, STARTED, *small_run())
    with MetricsReader(path) as reader:
        assert (reader.count(), reader.last_step()) == (20, 20)
        assert reader.last_loss() == (20, 2, pytest.approx(1.0))
        steps = list(reader.step_events())
        assert [event.step for _, event in steps] == list(range(1, 21))
        assert steps[10][1] == step(11, 3.0 - 0.1 * 11, epoch=2)
        assert steps[10][0] == 1011.0
        assert reader.last_step_events(1) == [steps[-1][1]]
        assert [event.loss_sum for _, event in reader.evals()] == [2.0, 2.0]
        assert [event.state for _, event in reader.states()] == ["running", "finished"]
        assert [event.text for _, event in reader.notices()] == ["the built-in synthetic data is used"]
        assert reader.replicas().replicas[0].output == (64, 10)
        assert reader.replica_stats().step == 20
        found = [(event.kind, event.path) for _, event in reader.checkpoints()]
        assert found[0] == ("epoch", str(path.parent / "checkpoints" / "step-00000010"))
        assert [kind for kind, _ in found] == ["epoch", "best"] * 2


def test_an_empty_store_reads_as_nothing(path):
    write(path)
    with MetricsReader(path) as reader:
        assert (reader.count(), reader.last_step(), reader.last_loss(), reader.losses(1, 100, 10)) == (0, 0, None, [])
        assert (reader.replicas(), reader.last_step_events(1), list(reader.step_events())) == (None, [], [])


def test_what_is_not_finite_is_null(path):
    write(path, losses(1, [1.0, math.nan, math.inf]), step(2, math.nan, rate=math.inf))
    assert rows(path, "SELECT loss FROM losses ORDER BY step") == [(1.0,), (None,), (None,)]
    assert rows(path, "SELECT lr, samples_per_second FROM step_events") == [(0.01, None)]
    with MetricsReader(path) as reader:
        assert [found.x for found in reader.losses(1, 3, 10)] == [1]
        assert math.isnan(reader.last_loss()[2])


def test_gpu_samples_keep_what_the_driver_does_not_say(path):
    write(path, GpuSample(time=5.0, device="cuda:0", memory_used=7, utilization=None, power=1.5, temperature=60))
    assert rows(path, "SELECT * FROM gpu_samples") == [(5.0, "cuda:0", 7, None, 1.5, 60)]


# -- the pyramid ------------------------------------------------------------------------------------------------------


def assert_thins_like(reader, series, lo, hi, columns):
    """The store's bins hold the same points as the series', but for buckets that lie over a column's edge."""
    found, expected = reader.losses(lo, hi, columns), series.thin(lo, hi, columns)
    assert abs(len(found) - len(expected)) <= 1
    assert min(bin_.min for bin_ in found) == min(bin_.min for bin_ in expected)
    assert max(bin_.max for bin_ in found) == max(bin_.max for bin_ in expected)
    assert sum(bin_.mean for bin_ in found) / len(found) == pytest.approx(sum(bin_.mean for bin_ in expected) / len(expected), rel=1e-2)


def test_thinning_equals_the_series_in_memory(path):
    chance = random.Random(0)
    values = [chance.gauss(2, 1) if chance.random() > 0.1 else math.nan for _ in range(10_000)]
    series = Series()
    series.extend(range(1, 10_001), values)
    write(path, *(losses(start + 1, values[start : start + 333]) for start in range(0, 10_000, 333)))
    with MetricsReader(path) as reader:
        for lo, hi, columns in [
            (1, 10_000, 20),
            (1, 20_000, 30),
            (137, 9_003, 10),
            (5_000, 5_100, 10),
            (9_990, 20_000, 50),
            (-5.5, 3e3, 7),
        ]:
            assert_thins_like(reader, series, lo, hi, columns)
        assert reader.losses(4_000, 4_040, 100) == series.thin(4_000, 4_040, 100)
        assert reader.losses(10_001, 20_000, 10) == []


def test_thinning_is_exact_where_columns_end_with_buckets(path):
    values = [math.sin(number) for number in range(64 * 64)]
    series = Series()
    series.extend(range(1, 4097), values)
    write(path, losses(1, values))
    with MetricsReader(path) as reader:
        for found, expected in zip(reader.losses(0.5, 4096.5, 32), series.thin(0.5, 4096.5, 32), strict=True):
            assert (found.x, found.min, found.max) == (expected.x, expected.min, expected.max)
            assert found.mean == pytest.approx(expected.mean)


def test_the_pyramids_are_the_same_however_they_came_about(tmp_path):
    values = [math.sin(number / 7) for number in range(9_000)]
    one, many = tmp_path / "one.sqlite", tmp_path / "many.sqlite"
    write(one, losses(1, values), *(step(number, value, rate=value) for number, value in enumerate(values, 1)))
    for start in range(0, 9_000, 1_700):
        writer = MetricsWriter(many)
        for inner in range(start, min(start + 1_700, 9_000), 170):
            block = values[inner : inner + 170]
            # A block's losses and its step events may be in different commits.
            for batch in ([losses(inner + 1, block)], [step(inner + 1 + i, value, rate=value) for i, value in enumerate(block)]):
                writer.append(batch)
                assert writer.commit()
        writer.close()
    for table in ("pyramid", "lr_pyramid", "speed_pyramid"):
        query = f"SELECT level, bucket, count, min, round(mean, 9), max FROM {table} ORDER BY level, bucket"
        assert rows(one, query) == rows(many, query)
    speeds = "SELECT bucket, count, min, round(mean, 9), max FROM {} WHERE level = 2 ORDER BY bucket"
    assert rows(one, speeds.format("speed_pyramid")) == rows(one, speeds.format("pyramid"))
    assert rows(one, "SELECT count FROM pyramid WHERE level = 1 AND bucket = 3") == [(FACTOR,)]
    assert rows(one, "SELECT count, min, max FROM pyramid WHERE level = 3") == [(9_000, min(values), max(values))]


@pytest.mark.parametrize(("first", "last"), [(1, 1_000_000), (2, 999_999), (65, 1_000_000), (4_096, 700_001), (1, 64), (5, 5)])
@pytest.mark.parametrize("columns", [1, 60, 240])
def test_a_cover_holds_each_step_once_and_few_buckets(first, last, columns):
    steps, buckets, after = 0, 0, first - 1
    for segment in cover(first, last, columns):
        width = FACTOR**segment.level
        assert segment.first * width == after
        after = (segment.last + 1) * width
        steps += after - segment.first * width
        buckets += segment.last - segment.first + 1
    assert (after, steps) == (last, last - first + 1)
    assert buckets <= FACTOR * columns + 8 * FACTOR
    assert buckets >= min(columns, last - first + 1)


def test_a_million_steps_open_by_reading_few_rows(path):
    write(path)
    connection = sqlite3.connect(path)
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1e6)"
    connection.execute(f"{numbers} INSERT INTO losses SELECT i, 1, i % 10, i FROM n")
    connection.commit()
    connection.close()
    # The first step said again: all buckets above it are gathered anew.
    write(path, losses(1, [1.0]))
    with MetricsReader(path) as reader:
        instructions = []
        reader._connection.set_progress_handler(lambda: instructions.append(1000), 1000)
        bins = reader.losses(1, 1_000_000, 240)
        # Some ten instructions a row: far from a million rows.
        assert sum(instructions) < 400_000
    assert len(bins) == 240
    assert {(found.min, found.max) for found in bins} == {(0.0, 9.0)}
    assert all(found.mean == pytest.approx(4.5, abs=0.01) for found in bins)


# -- going on from a checkpoint ---------------------------------------------------------------------------------------


def test_a_run_that_goes_on_from_a_checkpoint_makes_its_later_steps_again(path):
    write(path, *small_run(), losses(21, [9.0] * 200, epoch=3))
    resumed = msgspec.structs.replace(STARTED, resumed_from=10)
    write(path, resumed)
    assert rows(path, "SELECT count FROM pyramid WHERE level = 1") == [(10,)]
    write(path, losses(11, [0.5] * 3, epoch=2), step(13, 0.5, epoch=2))
    with MetricsReader(path) as reader:
        assert reader.last_loss() == (13, 2, 0.5)
        assert [event.step for _, event in reader.step_events()] == [*range(1, 11), 13]
        assert [event.step for _, event in reader.evals()] == [10]
        assert max(found.max for found in reader.losses(1, 1000, 2)) == pytest.approx(2.9)
    assert rows(path, "SELECT count FROM pyramid WHERE level = 1") == [(13,)]
    assert rows(path, "SELECT count FROM speed_pyramid WHERE level = 1") == [(11,)]


# -- locks, kills, damage ---------------------------------------------------------------------------------------------


def test_a_locked_store_keeps_everything_for_the_next_commit(path, monkeypatch):
    monkeypatch.setattr("tuitrain.runs.store.BUSY_SECONDS", 0.01)
    writer = MetricsWriter(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    writer.append([losses(1, [1.0, 2.0])])
    assert not writer.commit()
    assert "locked" in writer.error
    writer.append([losses(3, [3.0])])
    assert not writer.commit()
    other.execute("ROLLBACK")
    assert writer.commit()
    assert writer.error is None
    assert rows(path, "SELECT step, loss FROM losses") == [(1, 1.0), (2, 2.0), (3, 3.0)]
    other.execute("BEGIN EXCLUSIVE")
    writer.append([losses(4, [4.0]), step(4, 4.0)])
    assert writer.close(locked=0.05) == 2
    other.close()


def test_what_a_full_disk_has_made_long_is_written_part_by_part(path, monkeypatch):
    monkeypatch.setattr("tuitrain.runs.store.AT_ONCE", 2)
    writer, write_one, full = MetricsWriter(path), MetricsWriter._write, True

    def write_if_there_is_room(self, now, event):
        if full and event.first_step == 4:
            raise sqlite3.OperationalError("database or disk is full")
        write_one(self, now, event)

    monkeypatch.setattr(MetricsWriter, "_write", write_if_there_is_room)
    writer.append([losses(step, [float(step)]) for step in range(1, 6)])
    assert not writer.commit()
    assert writer.error == "database or disk is full"
    assert rows(path, "SELECT step FROM losses") == [(1,), (2,)]
    assert rows(path, "SELECT count FROM pyramid WHERE level = 1") == [(2,)]
    full = False
    assert writer.close() == 0
    assert rows(path, "SELECT step FROM losses") == [(1,), (2,), (3,), (4,), (5,)]
    assert rows(path, "SELECT count FROM pyramid WHERE level = 1") == [(5,)]


def test_a_mistake_in_the_middle_leaves_nothing_half_written(path, monkeypatch):
    writer, write_one = MetricsWriter(path), MetricsWriter._write

    def mistaken(self, now, event):
        write_one(self, now, event)
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(MetricsWriter, "_write", mistaken)
        writer.append([losses(1, [1.0])])
        with pytest.raises(ZeroDivisionError):
            writer.commit()
        assert rows(path, "SELECT count(*) FROM losses") == [(0,)]
    assert writer.close() == 0
    assert rows(path, "SELECT count(*) FROM losses") == [(1,)]


def test_at_the_end_a_lock_is_waited_for_longer_than_a_full_disk(path, monkeypatch):
    monkeypatch.setattr("tuitrain.runs.store.BUSY_SECONDS", 0.0)
    writer = MetricsWriter(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    writer.append([losses(1, [1.0])])
    waits = iter([lambda: None, lambda: other.execute("ROLLBACK")])
    monkeypatch.setattr("tuitrain.runs.store.time.sleep", lambda seconds: next(waits)())
    assert writer.close(timeout=0.0) == 0
    assert rows(path, "SELECT step, loss FROM losses") == [(1, 1.0)]
    other.close()
    full = MetricsWriter(path)
    full.append([losses(2, [1.0])])
    monkeypatch.setattr(full, "commit", lambda: setattr(full, "error", "database or disk is full"))
    assert full.close(timeout=0.0) == 1


def test_a_reader_that_holds_the_file_delays_only_the_commit(path, monkeypatch):
    monkeypatch.setattr("tuitrain.runs.store.BUSY_SECONDS", 0.01)
    write(path, losses(1, [1.0] * 100))
    holding = sqlite3.connect(path, isolation_level=None)
    cursor = holding.execute("SELECT step FROM losses")
    cursor.fetchone()
    writer = MetricsWriter(path)
    writer.append([losses(101, [1.0])])
    assert not writer.commit()
    cursor.close()
    assert writer.close() == 0
    assert rows(path, "SELECT count(*) FROM losses") == [(101,)]
    holding.close()


def test_a_long_commit_holds_readers_up_only_at_its_end(path, monkeypatch):
    monkeypatch.setattr("tuitrain.runs.reader.BUSY_SECONDS", 0.01)
    write(path, losses(1, [1.0]))
    writer = MetricsWriter(path)
    writer.append([losses(2, [1.0] * 30_000)])
    seen = []

    def look(column, first_step):
        # Within the commit of these losses, which fill more than the cache.
        with MetricsReader(path) as reader:
            seen.append(reader.last_step())

    monkeypatch.setattr(writer, "_update_pyramid", look)
    assert writer.commit()
    # Once for each pyramid over them.
    assert seen == [1, 1]
    assert writer.close() == 0


def test_a_file_that_somebody_switched_to_wal_goes_back(path):
    """Over a network file system WAL does not work."""
    write(path, losses(1, [1.0]))
    assert rows(path, "PRAGMA journal_mode = WAL") == [("wal",)]
    write(path, losses(2, [1.0]))
    assert rows(path, "PRAGMA journal_mode") == [("delete",)]
    assert rows(path, "SELECT count(*) FROM losses") == [(2,)]


GROWING = """
import sys
from pathlib import Path
import psutil
from tuitrain.events import Losses, Step
from tuitrain.runs.store import MetricsWriter

writer, held = MetricsWriter(Path(sys.argv[1])), []
for second in range(600):
    steps = range(60 * second + 1, 60 * second + 61)
    losses = Losses(first_step=steps[0], epoch=1, losses=(1.0,) * 60, times=tuple(1.7e9 + step for step in steps))
    writer.append([losses, *(Step(step=step, epoch=1, loss=1.0, lr=0.1, samples_per_second=9.0) for step in steps)])
    assert writer.commit()
    held.append(psutil.Process().memory_info().rss)
print(held[-1] - held[100])
"""


def test_ten_minutes_of_commits_need_no_more_memory_than_one(path):
    done = subprocess.run([sys.executable, "-c", GROWING, str(path)], capture_output=True, text=True, check=True)
    assert path.stat().st_size > 1e6, "all of it would be kept in SQLite's own cache"
    assert int(done.stdout) < 400_000


def test_readers_see_whole_commits_while_the_writer_works(path):
    write(path)
    wrong, done = [], threading.Event()

    def read():
        while not done.is_set():
            with MetricsReader(path) as reader:
                count = reader.count()
                if count % 50 or [event.step for _, event in reader.step_events()][: count // 50] != list(range(50, count + 1, 50)):
                    wrong.append(count)

    reader = threading.Thread(target=read)
    reader.start()
    writer = MetricsWriter(path)
    for first in range(1, 1_001, 50):
        writer.append([losses(first, [1.0] * 50), step(first + 49, 1.0)])
        writer.commit()
    done.set()
    reader.join()
    assert writer.close() == 0
    assert wrong == []
    assert rows(path, "SELECT count(*) FROM losses") == [(1_000,)]


KILLED = """
import os, signal, sys
from tuitrain.events import Losses
from tuitrain.runs.store import MetricsWriter
writer = MetricsWriter(__import__("pathlib").Path(sys.argv[1]))
for block in range(5):
    writer.append([Losses(first_step=block * 100 + 1, epoch=1, losses=(1.0,) * 100, times=(0.0,) * 100)])
    assert writer.commit()
# A tiny cache makes SQLite put pages into the file before the commit: what a kill leaves is half a commit and its journal.
writer._connection.execute("PRAGMA cache_size = 1")
write_losses, blocks = MetricsWriter._write_losses, []
def dying(self, event):
    write_losses(self, event)
    blocks.append(event)
    if len(blocks) == 50:
        os.kill(os.getpid(), signal.SIGKILL)
MetricsWriter._write_losses = dying
writer.append(Losses(first_step=501 + i * 100, epoch=1, losses=(2.0,) * 100, times=(0.0,) * 100) for i in range(50))
writer.commit()
"""


@pytest.mark.parametrize("first_to_open", ["reader", "writer"])
def test_a_kill_in_the_middle_of_a_commit_leaves_the_commit_before(path, first_to_open):
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert path.with_name("metrics.sqlite-journal").stat().st_size > 0
    if first_to_open == "writer":
        write(path, losses(501, [3.0]))
    with MetricsReader(path) as reader:
        assert reader.last_step() == (501 if first_to_open == "writer" else 500)
        assert {found.max for found in reader.losses(1, 500, 10)} == {1.0}
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_damage_is_a_sentence(path):
    write(path, *(losses(first, [1.0] * 500) for first in range(1, 5_000, 500)))
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(os.urandom(path.stat().st_size - 8192))
    with pytest.raises(RunError, match=r"metrics\.sqlite cannot be read: "), MetricsReader(path) as reader:
        list(reader.points(LOSS))
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(RunError, match=r"metrics\.sqlite cannot be read: "):
        MetricsReader(path)
    with pytest.raises(RunError, match="cannot be opened"):
        MetricsWriter(path)
    path.unlink()
    with pytest.raises(RunError, match="there is no metrics"):
        MetricsReader(path)
    assert issubclass(RunError, ConfigError)


def test_text_that_is_none_is_damage_too(path):
    times = StepTimes(strategy="single", devices=("cpu",), steps=1, samples=64, phases=Phases())
    write(path, *small_run(), times)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("replicas", "step_times"):
            connection.execute(f"UPDATE {table} SET event = ?", (b'{"step": 1, "devices": ["\xff"], "replicas": ["\xff"]}',))
    with MetricsReader(path) as reader:
        for read in (reader.replicas, reader.step_times):
            with pytest.raises(RunError, match=r"metrics\.sqlite cannot be read: "):
                read()
    write(path, times)
    with MetricsReader(path) as reader:
        assert reader.step_times() == times


def test_of_the_replicas_statistics_the_newest_alone_take_room(path):
    write(path, *(ReplicaStats(step=step, replicas=()) for step in range(1, 4)))
    with MetricsReader(path) as reader:
        assert reader.replica_stats() == ReplicaStats(step=3, replicas=())
    assert rows(path, "SELECT step FROM replica_stats") == [(3,)]


def test_a_store_of_a_newer_version_is_left_alone(path):
    write(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(RunError, match="newer tuitrain"):
        MetricsWriter(path)
    with pytest.raises(RunError, match="version 2"):
        MetricsReader(path)


def test_hostile_names_are_only_names(tmp_path):
    folder = tmp_path / "run?mode=rwc#%20 \x1b[2J'\"; DROP"
    folder.mkdir()
    path = folder / "metrics.sqlite"
    write(path, losses(1, [1.0]), Checkpoint(step=1, path="/elsewhere/step-'); DROP TABLE losses; --", kind="manual"))
    with MetricsReader(path) as reader:
        assert reader.count() == 1
        assert reader.checkpoints()[0][1].path.endswith("DROP TABLE losses; --")
    shutil.move(folder, tmp_path / "moved")
    with MetricsReader(tmp_path / "moved" / "metrics.sqlite") as reader:
        assert reader.checkpoints()[0][1].path.startswith(str(tmp_path / "moved" / "checkpoints"))
    with pytest.raises(RunError) as raised:
        MetricsReader(path)
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize("look", [MetricsReader, sound_metrics])
def test_metrics_that_nobody_can_look_at_are_not_missing(out_of_sight, as_another_user, look):
    def refused():
        with pytest.raises(RunError, match=r"metrics\.sqlite cannot be read: Permission denied\.$"):
            look(out_of_sight / "metrics.sqlite")

    as_another_user(refused)
