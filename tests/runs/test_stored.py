"""The curves and devices of a run on disk: what they say, that they follow a live run cheaply, and what is left of them after damage."""

import contextlib
import gc
import math
import shutil
import sqlite3

import pytest
from msgspec.structs import replace
from small_runs import STARTED, evaluation, losses, make_run, step, write

from tuitrain.events import GpuSample, State
from tuitrain.paths import METRICS
from tuitrain.runs import reader, series
from tuitrain.runs.errors import RunError
from tuitrain.runs.logtail import LOG_LINES
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record, take_up
from tuitrain.runs.stored import stored_run

CURVES = ["loss", "times", "learning_rate", "speed"]


def sample(time, device="cpu", **values):
    return GpuSample(**{"time": time, "device": device, "memory_used": 5, "utilization": 50, "power": None, "temperature": None, **values})


@pytest.fixture
def long_run(runs_dir):
    """A live record of 5,000 steps, and the folder of the same run."""
    live = RunRecord(None)
    values = [2 + math.sin(number / 50) for number in range(5000)]
    batch = [State(state="running")]
    for first in range(0, 5000, 100):
        batch.append(losses(first + 1, values[first : first + 100]))
        batch += [step(first + 1 + i, loss, rate=100.0 + first) for i, loss in enumerate(values[first : first + 100])]
    for event in [STARTED, *batch]:
        live.apply(event)
    return live, make_run(runs_dir, batch=batch).path


@pytest.mark.parametrize("name", CURVES)
def test_curves_equal_those_of_the_live_record(long_run, name):
    live, folder = long_run
    kept, made = getattr(load_record(folder), name), getattr(live, name)
    assert len(kept) == len(made) == 5000
    for x in (0.5, 1, 17.3, 4999, 5000, 1e300):
        assert kept.at(x) == made.at(x)
    assert kept.at(-math.inf) is None
    # Columns of whole buckets: there the pyramid's bins are exactly those of the points.
    for lo, hi, columns in ((1, 40, 80), (1, 4097, 64), (1000, 1040, 100)):
        assert len(kept.thin(lo, hi, columns)) == len(made.thin(lo, hi, columns))
    exact = kept.thin(1, 64, 100)
    assert exact == made.thin(1, 64, 100)
    for smoothed in (kept.smoothed(0.9), kept.smoothed(0.9)):
        assert smoothed.thin(1, 5000, 50) == made.smoothed(0.9).thin(1, 5000, 50)


def test_thinning_a_long_run_reads_few_rows(long_run, monkeypatch):
    _, folder = long_run
    record = load_record(folder)
    record.loss.thin(1, 5000, 10)
    read = []
    asked = MetricsReader._query

    def counting(self, query, values=()):
        rows = asked(self, query, values)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(MetricsReader, "_query", counting)
    for name in ("loss", "learning_rate", "speed"):
        assert getattr(record, name).thin(1, 5000, 10)
    assert sum(read) < 3 * 700


def test_smoothing_reads_the_points_once_and_then_what_is_new(long_run, monkeypatch):
    _, folder = long_run
    record = load_record(folder)
    pages = []
    asked = MetricsReader.points

    def counting(self, column, after=0):
        for page in asked(self, column, after):
            pages.append(len(page[0]))
            yield page

    monkeypatch.setattr(MetricsReader, "points", counting)
    assert len(record.loss.smoothed(0.9)) == 5000
    record.loss.smoothed(0.5)
    write(folder / METRICS, losses(5001, [1.0, 1.0]))
    # A record that is read anew shares what the first one has in memory.
    assert len(load_record(folder).loss.smoothed(0.5)) == 5002
    assert pages == [5000, 2]


def test_a_run_that_went_back_to_a_checkpoint_is_smoothed_anew(long_run):
    _, folder = long_run
    record = load_record(folder)
    assert record.loss.smoothed(0.5).at(5000)[1] < 10
    write(folder / METRICS, replace(STARTED, resumed_from=10), losses(11, [100.0, math.nan]))
    again = record.loss.smoothed(0.5)
    assert (len(again), len(record.loss)) == (12, 12)
    assert again.at(11)[1] > 40


@pytest.mark.parametrize("name", CURVES)
def test_a_long_curve_on_disk_is_smoothed_without_being_kept_in_memory(long_run, name, monkeypatch):
    live, folder = long_run
    monkeypatch.setattr(series, "KEPT", 500)
    monkeypatch.setattr(reader, "PAGE_ROWS", 700)
    smoothed, expected = getattr(load_record(folder), name).smoothed(0.9), getattr(live, name).smoothed(0.9)
    assert (smoothed.in_memory, expected.in_memory) == (False, True)
    assert [smoothed.at(x) for x in range(0, 5001, 7)] == [expected.at(x) for x in range(0, 5001, 7)]
    assert smoothed.thin(40, 90, 20) == expected.thin(40, 90, 20)


def test_what_a_long_run_kept_stays_on_disk_when_it_goes_on(long_run, monkeypatch):
    live, folder = long_run
    monkeypatch.setattr(series, "KEPT", 500)
    monkeypatch.setattr(reader, "PAGE_ROWS", 700)
    resumed = RunRecord(None)
    take_up(resumed, folder)
    for record, began in ((resumed, True), (live, False)):
        record.take(replace(STARTED, resumed_from=3000))
        record.take(losses(3001, [7.0] * 50))
        for curve in (record.loss, record.times):
            assert curve.in_memory is not began
    for curve, expected in ((resumed.loss, live.loss), (resumed.times, live.times)):
        assert len(curve) == len(expected) == 3050
        assert [curve.at(x) for x in (1, 77, 2999, 3000, 3001, 9000)] == [expected.at(x) for x in (1, 77, 2999, 3000, 3001, 9000)]
        assert curve.thin(2900, 3050, 20) == expected.thin(2900, 3050, 20)


@pytest.mark.parametrize("missing", ["a loss that was not finite", "losses that were never written", "a pyramid"])
def test_what_a_pyramid_does_not_know_of_a_long_run_that_goes_on_is_read(long_run, monkeypatch, missing):
    live, folder = long_run
    monkeypatch.setattr(series, "KEPT", 500)
    monkeypatch.setattr(reader, "PAGE_ROWS", 700)
    points = [live.loss[index] for index in range(5000)]
    with contextlib.closing(sqlite3.connect(folder / METRICS)) as connection:
        if missing == "a loss that was not finite":
            write(folder / METRICS, losses(700, [math.nan]))
            points[699] = (700, math.nan)
        elif missing == "losses that were never written":
            connection.execute("DELETE FROM losses WHERE step BETWEEN 700 AND 900")
            connection.execute("UPDATE pyramid SET count = 59 WHERE level = 1 AND bucket = 10")
            points = [point for point in points if not 700 <= point[0] <= 900]
        else:
            connection.execute("DROP TABLE pyramid")
        connection.commit()
    loss = series.Series()
    loss.extend(*zip(*points, strict=True))
    resumed = RunRecord(None)
    take_up(resumed, folder)
    assert len(resumed.loss) == len(loss)
    assert [repr(resumed.loss.at(x)) for x in range(1, 5001, 3)] == [repr(loss.at(x)) for x in range(1, 5001, 3)]
    assert resumed.loss.thin(40, 90, 20) == loss.thin(40, 90, 20)


def test_points_of_a_file_that_is_gone_are_left_out(long_run, monkeypatch):
    _, folder = long_run
    monkeypatch.setattr(series, "KEPT", 500)
    resumed = RunRecord(None)
    take_up(resumed, folder)
    (folder / METRICS).write_bytes(b"no database")
    assert resumed.loss.thin(1, 50, 100) == []
    assert len(resumed.loss.thin(1, 5000, 10)) == 10


def test_a_live_run_is_followed(runs_dir):
    folder = make_run(runs_dir, batch=[State(state="running"), losses(1, [3.0]), sample(1.0), sample(1.0, "cuda:0")]).path
    first = load_record(folder)
    write(folder / METRICS, losses(2, [2.0]), step(2, 2.0), sample(2.0, utilization=70), sample(1.5))
    second = load_record(folder)
    assert (second.step, second.last_loss, len(first.loss), len(second.speed)) == (2, 2.0, 2, 1)
    history = second.devices["cpu"]
    assert history is first.devices["cpu"]
    assert [history.at("utilization", moment) for moment in (-0.5, 0.5, 1.9, 6.5, 9.0)] == [None, 50.0, 70.0, 70.0, None]
    assert len(history) == 2, "a clock that went back gives no point"
    assert history.at("power", 2.0) is None
    assert sorted(second.devices) == ["cpu", "cuda:0"]


def test_only_the_new_evaluations_of_a_live_run_are_read(runs_dir, monkeypatch):
    evals = [evaluation(10 * epoch, epoch, epoch / 100) for epoch in range(1, 31)]
    folder = make_run(runs_dir, batch=[State(state="running"), losses(1, [1.0] * 300), *evals]).path
    read = []
    asked = MetricsReader.evals

    def counting(self, since=0):
        found = asked(self, since)
        read.append(len(found))
        return found

    monkeypatch.setattr(MetricsReader, "evals", counting)
    first = load_record(folder)
    write(folder / METRICS, evaluation(310, 31, 0.2))
    second = load_record(folder)
    assert (read, len(second.evals), second.best_accuracy) == ([30, 2], 31, 0.3)
    assert second.evaluations is first.evaluations
    # It goes on from a checkpoint, and has not evaluated again yet; then it has, at the same steps.
    write(folder / METRICS, replace(STARTED, resumed_from=100))
    assert load_record(folder).evals == evals[:10]
    write(folder / METRICS, *(evaluation(event.step, event.epoch, 0.05) for event in evals[10:]))
    again = load_record(folder)
    assert ([event.accuracy for event in again.evals[10:]], again.best_accuracy) == ([0.05] * 20, 0.1)
    assert len(again.evaluations.losses.points) == 30


def test_the_devices_of_a_long_run_are_read_piece_by_piece(runs_dir, monkeypatch):
    for module in ("reader", "stored"):
        monkeypatch.setattr(f"tuitrain.runs.{module}.PAGE_ROWS", 10)
    folder = make_run(runs_dir, batch=[sample(float(number)) for number in range(25)]).path
    first = load_record(folder)
    lengths = [(len(first.devices["cpu"]), first.stored.behind)]
    lengths += [(len(load_record(folder).devices["cpu"]), first.stored.behind) for _ in range(3)]
    assert lengths == [(10, True), (20, True), (25, False), (25, False)]
    resumed = RunRecord(None)
    take_up(resumed, folder)
    assert len(resumed.devices["cpu"]) == 25


def test_a_run_that_goes_on_knows_that_its_log_has_older_lines(runs_dir):
    folder = make_run(runs_dir).path
    resumed = [RunRecord(None), RunRecord(None)]
    take_up(resumed[0], folder)
    with (folder / "log.txt").open("a") as log:
        log.write("2026-11-21T04:13:00.000Z output x\n" * (LOG_LINES + 1))
    take_up(resumed[1], folder)
    assert [record.log.cut for record in resumed] == [False, True]


def test_a_run_that_goes_on_knows_what_it_had_planned(runs_dir):
    folder, resumed = make_run(runs_dir).path, RunRecord(None)
    take_up(resumed, folder)
    assert resumed.started is None
    assert resumed.plan is not None
    assert (resumed.plan.total_steps, resumed.plan.steps_per_epoch) == (STARTED.total_steps, STARTED.steps_per_epoch)


def test_devices_of_a_hostile_file_are_cleaned(runs_dir):
    folder = make_run(runs_dir, batch=[sample(1.0, "cpu\x1b[2J")]).path
    assert list(load_record(folder).devices) == ["cpu·[2J"]


def test_runs_are_shared_only_while_somebody_looks(run_folder):
    first = stored_run(run_folder.path)
    assert stored_run(run_folder.path) is first
    copy = run_folder.path.with_name("copy")
    shutil.copytree(run_folder.path, copy)
    assert stored_run(copy) is not first
    number = id(first)
    kept = first.loss
    del first
    gc.collect()
    assert len(kept) == 20
    assert id(stored_run(run_folder.path)) != number or stored_run(run_folder.path).loss is not kept


def test_a_file_of_an_older_version_is_read_too(long_run):
    live, folder = long_run
    with sqlite3.connect(folder / METRICS) as connection:
        for table in ("lr_pyramid", "speed_pyramid"):
            connection.execute(f"DROP TABLE {table}")
    connection.close()
    record = load_record(folder)
    assert record.speed.thin(1, 5000, 40) == live.speed.thin(1, 5000, 40)
    assert (len(record.speed), len(record.learning_rate)) == (5000, 5000)


def test_a_writer_gives_an_older_file_what_it_lacks(long_run):
    _, folder = long_run
    before = load_record(folder).speed.thin(1, 5000, 20)
    with sqlite3.connect(folder / METRICS) as connection:
        for table in ("lr_pyramid", "speed_pyramid"):
            connection.execute(f"DROP TABLE {table}")
    connection.close()
    write(folder / METRICS)
    with MetricsReader(folder / METRICS) as reader:
        from tuitrain.runs.schema import SPEED

        assert reader.bins(SPEED, 1, 5000, 20) == before


def test_curves_of_a_file_that_vanishes_or_is_torn_never_raise(long_run):
    _, folder = long_run
    record = load_record(folder)
    record.loss.smoothed(0.5)
    path = folder / METRICS
    path.write_bytes(b"nonsense" * 1000)
    for name in CURVES:
        curve = getattr(record, name)
        curve.thin(1, 5000, 10), curve.at(9), curve.smoothed(0.5), len(curve)
    with pytest.raises(RunError, match=r"metrics\.sqlite"):
        load_record(folder)
    path.unlink()
    for name in CURVES:
        curve = getattr(record, name)
        curve.thin(1, 5000, 10), curve.at(9), curve.smoothed(0.5), len(curve)
    with pytest.raises(RunError, match=r"metrics\.sqlite"):
        load_record(folder)


def test_a_commit_that_was_cut_off_while_the_file_is_open_is_mended(long_run):
    """The file is held open when its writer dies in the middle of a commit and leaves a journal behind."""
    _, folder = long_run
    record = load_record(folder)
    path = folder / METRICS
    journal = path.with_name(f"{path.name}-journal")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE losses SET loss = loss + 1000")
    torn, old = path.read_bytes(), journal.read_bytes()
    writer.execute("ROLLBACK")
    writer.close()
    path.write_bytes(torn)
    journal.write_bytes(old)
    assert max(found.max for found in record.loss.thin(1, 5000, 100)) < 10
    assert record.loss.at(5000)[1] < 10


def test_pace_of_a_live_run_of_another_process(runs_dir):
    batch = [State(state="running"), losses(1, [3.0] * 10, start=1000.0)]
    batch += [step(number, 3.0, rate=640.0 if number % 2 else 320.0) for number in range(1, 11)]
    folder = make_run(runs_dir, batch=batch, state="running").path
    record = load_record(folder)
    assert 400 < record.samples_per_second < 460
    assert record.eta_seconds() == pytest.approx(10 * 64 / record.samples_per_second)


def test_the_time_of_evaluations_is_known(runs_dir, monkeypatch):
    from small_runs import evaluation

    from tuitrain.runs import store

    monkeypatch.setattr(store.time, "time", lambda: 1012.5)
    folder = make_run(runs_dir, batch=[losses(1, [3.0] * 10), evaluation(10, 1, 0.5)]).path
    assert load_record(folder).eval_seconds == pytest.approx(2.5)
