"""Export: the documents that users' scripts and spreadsheets read."""

import csv
import io
import json
import math
import os
import tempfile

import pytest
from small_runs import evaluation, losses, make_run, step, write

from tuitrain.config import ConfigError
from tuitrain.events import Checkpoint, Notice
from tuitrain.paths import METRICS
from tuitrain.runs.export import COLUMNS, check_output, export_metrics, write_text


def exported(folder, kind, tmp_path):
    export_metrics(folder.path, kind, str(tmp_path / "out"))
    return (tmp_path / "out").read_text(encoding="utf-8")


def test_json_holds_step_and_evaluation_events(run_folder, tmp_path):
    document = json.loads(exported(run_folder, "json", tmp_path))
    assert list(document) == ["run", "steps", "evals"]
    assert document["run"] == run_folder.id
    assert [event["step"] for event in document["steps"]] == list(range(1, 21))
    assert document["steps"][0] == {"event": "step", "step": 1, "epoch": 1, "loss": 2.9, "lr": 0.01, "samples_per_second": 100.0}
    assert document["evals"][1] == {"event": "eval", "step": 20, "epoch": 2, "loss": 1.0, "loss_sum": 2.0, "accuracy": 0.6}


def test_json_of_a_run_without_steps_and_of_numbers_that_are_none(runs_dir, tmp_path):
    assert json.loads(exported(make_run(runs_dir, batch=[]), "json", tmp_path))["steps"] == []
    folder = make_run(runs_dir, batch=[losses(1, [math.nan]), step(1, math.nan, rate=math.inf), evaluation(1, 1, math.nan)])
    document = json.loads(exported(folder, "json", tmp_path))
    assert (document["steps"][0]["loss"], document["steps"][0]["samples_per_second"]) == (None, None)
    assert document["evals"][0]["accuracy"] is None


def test_csv_has_a_row_for_each_event(run_folder, tmp_path):
    rows = list(csv.DictReader(io.StringIO(exported(run_folder, "csv", tmp_path))))
    assert tuple(rows[0]) == COLUMNS
    count = {kind: sum(row["event"] == kind for row in rows) for kind in {row["event"] for row in rows}}
    assert count == {"step": 20, "eval": 2, "checkpoint": 4, "notice": 1, "state": 2}
    first = next(row for row in rows if row["event"] == "step")
    assert (first["step"], first["loss"], first["accuracy"], first["time"]) == ("1", "2.9", "", "1970-01-01T00:16:41.000Z")
    steps = [int(row["step"]) for row in rows if row["event"] == "step"]
    assert steps == sorted(steps)


def test_csv_is_safe_in_a_spreadsheet(runs_dir, tmp_path):
    hostile = ["=HYPERLINK(1)", "+1", "-1", "@x", "\t=1", 'a"b,c\nd', "plain"]
    batch = [losses(1, [-1.5, math.nan]), step(1, -1.5), step(2, math.nan, rate=math.inf), *(Notice(text=text) for text in hostile)]
    rows = list(csv.DictReader(io.StringIO(exported(make_run(runs_dir, batch=batch), "csv", tmp_path))))
    texts = [row["text"] for row in rows if row["event"] == "notice"]
    assert texts == ["'=HYPERLINK(1)", "'+1", "'-1", "'@x", "·=1", 'a"b,c·d', "plain"]
    steps = [row for row in rows if row["event"] == "step"]
    assert [(row["loss"], row["samples_per_second"]) for row in steps] == [("-1.5", "100.0"), ("", "")]
    assert b"\r" not in (tmp_path / "out").read_bytes()


def test_csv_takes_events_of_one_moment(run_folder, tmp_path):
    write(run_folder.path / METRICS, evaluation(30, 3, 0.7), Checkpoint(step=30, path="step-00000030", kind="last"), Notice(text="x"))
    rows = list(csv.DictReader(io.StringIO(exported(run_folder, "csv", tmp_path))))
    assert [row["event"] for row in rows[-3:]] == ["eval", "checkpoint", "notice"]
    assert len({row["time"] for row in rows[-3:]}) == 1
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)


@pytest.mark.parametrize("output", [None, "-"])
def test_without_a_file_it_goes_to_stdout(run_folder, capsys, tmp_path, monkeypatch, output):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    export_metrics(run_folder.path, "json", output)
    assert json.loads(capsys.readouterr().out)["run"] == run_folder.id
    write_text("import torch\n", output)
    assert capsys.readouterr().out == "import torch\n"
    assert os.listdir() == []


def test_a_file_that_cannot_be_written_is_a_sentence(run_folder, tmp_path):
    with pytest.raises(ConfigError, match=r"-o: .*/nowhere/out cannot be written: No such file or directory\."):
        export_metrics(run_folder.path, "csv", str(tmp_path / "nowhere" / "out"))


def test_an_export_that_fails_leaves_the_old_file(run_folder, tmp_path):
    target = tmp_path / "out.csv"
    target.write_text("old")
    (run_folder.path / "metrics.sqlite").write_bytes(b"damaged")
    with pytest.raises(ConfigError, match=r"metrics\.sqlite cannot be read"):
        export_metrics(run_folder.path, "csv", str(target))
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_symlink_stays_and_the_file_it_leads_to_is_replaced(run_folder, tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "out.csv", tmp_path / "link"
    target.write_text("old")
    link.symlink_to("there/out.csv")
    before = target.stat().st_ino
    export_metrics(run_folder.path, "csv", str(link))
    assert link.is_symlink()
    assert target.read_text().startswith("event,time")
    assert target.stat().st_ino != before
    assert [path.name for path in target.parent.iterdir()] == ["out.csv"]
    new = tmp_path / "new"
    new.symlink_to("there/new.csv")
    export_metrics(run_folder.path, "csv", str(new))
    assert new.is_symlink()
    assert (tmp_path / "there" / "new.csv").read_text() == target.read_text()


def test_a_folder_and_a_symlink_to_itself_are_sentences(run_folder, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name, why in ((".", "Is a directory"), ("loop", "Too many levels of symbolic links")):
        with pytest.raises(ConfigError, match=rf"-o: .* cannot be written: {why}\."):
            export_metrics(run_folder.path, "csv", str(tmp_path / name))


@pytest.mark.parametrize("name", ["nowhere/out", "file/out", "folder", "x" * 241, "link"])
def test_it_is_known_beforehand_what_cannot_be_written(run_folder, tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("gone/out")
    with pytest.raises(ConfigError) as when_written:
        export_metrics(run_folder.path, "csv", str(tmp_path / name))
    with pytest.raises(ConfigError) as beforehand:
        check_output(str(tmp_path / name))
    assert str(beforehand.value) == str(when_written.value)


def test_a_folder_of_somebody_else_is_known_beforehand(as_another_user):
    with tempfile.TemporaryDirectory() as theirs:
        os.chmod(theirs, 0o555)

        def look():
            with pytest.raises(ConfigError, match=r"-o: .*/out cannot be written: Permission denied\."):
                check_output(f"{theirs}/out")

        as_another_user(look)


def test_what_can_be_written_is_let_through(tmp_path):
    (tmp_path / "old").touch()
    os.mkfifo(tmp_path / "fifo")
    for output in (None, "-", "/dev/stdout", "/dev/null", *(str(tmp_path / name) for name in ("old", "fifo", "new", "x" * 240))):
        check_output(output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "old"]
