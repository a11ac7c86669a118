"""Long runs open as fast as short ones, a damaged folder is a row and never a crash, and a folder that is copied is the whole run."""

import contextlib
import io
import json
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import msgspec
import pytest
from small_runs import STARTED, losses, make_run

from tuitrain.config import ConfigError
from tuitrain.paths import METRICS
from tuitrain.runs import catalogue, reader, removal, report, schema, series
from tuitrain.runs.errors import RunError
from tuitrain.runs.export import export_metrics
from tuitrain.runs.label import annotate
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record, take_up
from tuitrain.runs.shelf import Shelf
from tuitrain.runs.store import MetricsWriter
from tuitrain.session.resume import plan

STEPS = 200_000


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """A finished run of `STEPS` steps. Its rows are made by SQLite itself, its pyramids by the writer, as of an older file's."""
    path = make_run(tmp_path_factory.mktemp("long") / "runs", batch=[], state="finished", step=STEPS, epoch=2).path
    numbers = f"WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < {STEPS})"
    connection = sqlite3.connect(path / METRICS)
    connection.execute(f"INSERT INTO losses {numbers} SELECT i, 1, 1.0 + (i * 7919 % 1000) / 1000.0, 1000.0 + i FROM number")
    connection.execute(f"INSERT INTO step_events {numbers} SELECT i, 0.01, 3000.0 + i % 500 FROM number")
    for column in schema.GATHERED:
        connection.execute(f"DROP TABLE {column.pyramid}")
    connection.commit()
    connection.close()
    MetricsWriter(path / METRICS).close()
    return path


@pytest.fixture
def work(monkeypatch):
    """Counts what SQLite does for readers, in hundreds of the instructions of its machine; a row that is looked at takes some."""
    done = [0]

    def count():
        done[0] += 1

    connect = reader._connect

    def counting(path):
        connection = connect(path)
        connection.set_progress_handler(count, 100)
        return connection

    monkeypatch.setattr(reader, "_connect", counting)
    return done


def test_a_long_run_opens_zooms_and_reads_off_without_looking_at_its_rows(long_run, work):
    record = load_record(long_run)
    assert (record.step, len(record.loss)) == (STEPS, STEPS)
    assert work[0] * 100 < STEPS / 10, "it is opened"
    for curve in (record.loss, record.speed, record.learning_rate):
        for lo, hi in ((1, STEPS), (STEPS / 3, STEPS / 2), (70_000, 70_300), (123_456, 123_456), (1, 64**3)):
            work[0] = 0
            assert 1 <= len(curve.thin(lo, hi, 100)) <= 100
            # 64 * 100 rows at most, and SQLite takes some sixty instructions to gather each; all rows would be thirty times as much.
            assert work[0] * 100 < 64 * 100 * 65, (lo, hi)
        work[0] = 0
        assert curve.at(STEPS / 2 + 0.5)[0] == STEPS / 2
        assert work[0] * 100 < 1000


def test_the_work_is_counted_at_all(long_run, work):
    with MetricsReader(long_run / METRICS) as opened:
        list(opened.points(schema.LOSS))
    assert work[0] * 100 > STEPS


def test_a_long_run_goes_on_without_looking_at_its_older_rows(long_run, work, monkeypatch):
    monkeypatch.setattr(series, "KEPT", 1000)
    resumed = RunRecord(None)
    take_up(resumed, long_run)
    assert [len(curve) for curve in (resumed.loss, resumed.times)] == [STEPS, STEPS]
    # A group takes SQLite some sixty instructions, as does a row of the newest; all rows would take ten times as much.
    assert work[0] * 100 < 2 * (STEPS / 64 + 1000) * 65
    bins = resumed.loss.thin(1, STEPS, 100)
    assert (len(bins), min(found.min for found in bins), max(found.max for found in bins)) == (100, 1.0, 1.999)
    assert resumed.loss.at(123)[1] == 1 + 123 * 7919 % 1000 / 1000


def test_a_step_more_costs_a_writer_no_more_in_a_long_run(long_run):
    """The pyramids are gathered again from the first step that changed, not from the run's first."""
    writer = MetricsWriter(long_run / METRICS)
    done = [0]
    writer._connection.set_progress_handler(lambda: done.__setitem__(0, done[0] + 1), 100)
    writer.append([losses(STEPS + 1, [1.0])])
    assert writer.commit()
    writer.append([msgspec.structs.replace(STARTED, resumed_from=STEPS)])
    assert writer.commit()
    writer.close()
    assert 0 < done[0] * 100 < len(schema.GATHERED) * STEPS / 30


# -- a folder that is not as it was written ---------------------------------------------------------------------------


def state_is(content):
    return lambda folder: (folder / "state.json").write_bytes(content)


def half(name):
    def cut(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return cut


def gone(name):
    return lambda folder: (folder / name).unlink()


def is_folder(name):
    def replace(folder):
        (folder / name).unlink()
        (folder / name).mkdir()

    return replace


def dangles(name):
    def replace(folder):
        (folder / name).unlink()
        (folder / name).symlink_to(folder / "nowhere")

    return replace


def wrong(name, value):
    def replace(folder):
        document = json.loads((folder / "state.json").read_bytes())
        (folder / "state.json").write_text(json.dumps(document | {name: value}), encoding="utf-8")

    return replace


ROWS = {
    "no state": (gone("state.json"), "No such file"),
    "half a state": (half("state.json"), "damaged"),
    "an empty state": (state_is(b""), "damaged"),
    "a list for a state": (state_is(b"[1, 2]"), "damaged"),
    "no text at all": (state_is(b"\xff\xfe\x00"), "damaged"),
    "a state that is not one": (wrong("state", "melted"), "melted"),
    "a step in words": (wrong("step", "many"), "damaged"),
    "no run known": (wrong("parameters", None), "damaged"),
    "a folder for a state": (is_folder("state.json"), "Is a directory"),
    "a state that leads nowhere": (dangles("state.json"), "No such file"),
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_broken_state_is_a_row_that_says_what_is_broken(runs_dir, run_folder, kind):
    good = make_run(runs_dir, started="2020-01-01T00:00:00.000Z")
    damage, words = ROWS[kind]
    damage(run_folder.path)
    rows = {run.run: run for run in catalogue.list_runs(runs_dir)}
    assert set(rows) == {good.id, run_folder.id}
    assert rows[good.id].broken is None
    broken = rows[run_folder.id]
    assert (broken.state, broken.live) == ("lost", False)
    assert broken.broken.startswith(f"{run_folder.id}: state.json ")
    assert words in broken.broken
    assert broken.broken in report.runs(runs_dir, as_json=False)
    assert len(json.loads(report.runs(runs_dir, as_json=True))) == 2
    with pytest.raises(ConfigError, match=r"state\.json"):
        load_record(run_folder.path)
    with pytest.raises(ConfigError, match="cannot go on"):
        plan(broken, {})


def test_a_folder_without_permission_is_a_row(as_another_user):
    """Nobody may read it; root may read everything, so another user looks."""
    runs_dir = Path(tempfile.mkdtemp())
    try:
        closed, unreadable = make_run(runs_dir).path, make_run(runs_dir).path
        runs_dir.chmod(0o755)
        (unreadable / "state.json").chmod(0)
        for path, mode in ((closed, 0o600), (unreadable, 0o755)):
            path.chmod(mode)
        (runs_dir / "private").mkdir(mode=0)

        def look():
            for rows in (catalogue.list_runs(runs_dir), Shelf(runs_dir).read()):
                assert {row.run for row in rows} == {closed.name, unreadable.name}
                assert all("Permission denied" in row.broken for row in rows)
            for path in (closed, unreadable):
                with pytest.raises(ConfigError, match="Permission denied"):
                    load_record(path)
            with pytest.raises(RunError, match=r"metrics\.sqlite cannot be read: Permission denied\."):
                MetricsReader(closed / METRICS)

        as_another_user(look)
    finally:
        for folder in runs_dir.iterdir():
            folder.chmod(0o700)
        shutil.rmtree(runs_dir)


def test_a_link_that_leads_nowhere_is_a_row_and_can_be_deleted(runs_dir, run_folder):
    """As when the disk that it leads to is not there."""
    gone, there = runs_dir / "20990101-0000-gone-abc", runs_dir / "20980101-0000-there-abc"
    gone.symlink_to(runs_dir / "nowhere")
    there.symlink_to(run_folder.path)
    (runs_dir / "notes").symlink_to(runs_dir / "nowhere")
    for rows in (catalogue.list_runs(runs_dir), Shelf(runs_dir).read()):
        by_name = {row.run: row for row in rows}
        assert set(by_name) == {gone.name, there.name, run_folder.id}
        assert (by_name[there.name].broken, by_name[there.name].step) == (None, 20)
        assert "No such file" in by_name[gone.name].broken
    removal.delete(gone)
    removal.delete(there)
    assert sorted(os.listdir(runs_dir)) == [run_folder.id, "notes"]
    assert catalogue.list_runs(runs_dir)[0].step == 20


OPENED = {
    "no metrics": (gone(METRICS), METRICS),
    "metrics that are no database": (lambda folder: (folder / METRICS).write_bytes(b"nonsense" * 1000), METRICS),
    "no metrics in the file": (lambda folder: (folder / METRICS).write_bytes(b""), METRICS),
    "half of the metrics": (half(METRICS), METRICS),
    "a folder for the metrics": (is_folder(METRICS), METRICS),
    "metrics that lead nowhere": (dangles(METRICS), METRICS),
    "no configuration": (gone("run.toml"), "run.toml"),
    "a configuration of something else": (lambda folder: (folder / "run.toml").write_text("lr = 'high'\n"), "lr"),
}


@pytest.mark.parametrize("kind", OPENED)
def test_a_run_with_a_broken_file_is_still_listed_and_opening_it_is_a_sentence(runs_dir, run_folder, kind):
    damage, words = OPENED[kind]
    damage(run_folder.path)
    (row,) = catalogue.list_runs(runs_dir)
    assert (row.run, row.state, row.broken) == (run_folder.id, "finished", None)
    with pytest.raises(ConfigError) as raised:
        load_record(run_folder.path)
    sentence = str(raised.value)
    assert words in sentence
    assert "\n" not in sentence


# -- a folder somewhere else ------------------------------------------------------------------------------------------


def exported(folder, kind):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        export_metrics(folder, kind, None)
    return text.getvalue()


def test_a_copied_folder_is_the_run_at_another_place(runs_dir, run_folder, tmp_path):
    annotate(run_folder.path, "tried at home")
    shown = json.loads(report.show(runs_dir, "last", as_json=True))
    documents = [exported(run_folder.path, kind) for kind in ("json", "csv")]
    kept = load_record(run_folder.path)
    elsewhere = tmp_path / "another disk" / "runs"
    shutil.copytree(runs_dir, elsewhere)
    shutil.rmtree(runs_dir)
    copied = load_record(elsewhere / run_folder.id)
    assert json.loads(report.show(elsewhere, "last", as_json=True)) == shown
    exported_there = [exported(elsewhere / run_folder.id, kind) for kind in ("json", "csv")]
    assert [text.replace(str(elsewhere), str(runs_dir)) for text in exported_there] == documents
    assert copied.loss.thin(1, 20, 40) == kept.loss.thin(1, 20, 40) != []
    assert copied.evals == kept.evals
    # Where its checkpoints are is said anew.
    assert copied.checkpoint.path == str(elsewhere / run_folder.id / "checkpoints" / "step-00000020")
    (row,) = catalogue.list_runs(elsewhere)
    (row.path / "checkpoints" / "step-00000020").mkdir(parents=True)
    assert plan(row, {"epochs": "30"}).epochs == 30
