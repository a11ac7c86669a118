"""Runs whose targets are numbers: what is kept and said of them has no accuracy."""

import math

import msgspec
from small_runs import STARTED, evaluation, losses
from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

from tuitrain.config import with_changes
from tuitrain.console.printers import PlainPrinter
from tuitrain.events import RunEnded, encode
from tuitrain.paths import METRICS
from tuitrain.recipes import load_recipe
from tuitrain.runs import report
from tuitrain.runs.export import export_metrics
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.logtail import describe
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record
from tuitrain.runs.status import read_status
from tuitrain.runs.store import MetricsWriter
from tuitrain.runs.tensorboard import TensorBoardWriter
from tuitrain.session.lines.client import decode

NUMBERS = msgspec.structs.replace(STARTED, targets="numbers", readers=3)
EVENTS = [
    NUMBERS,
    losses(1, [3.0] * 10),
    evaluation(10, 1, math.nan, 0.5),
    losses(11, [2.0] * 10, 2),
    evaluation(20, 2, math.nan, 0.25),
    RunEnded(state="finished", step=20),
]


def kept(runs_dir):
    config = with_changes(load_recipe("seed-cnn"), {"data": "synthetic"})
    folder, record = RunFolder.create(runs_dir, config, NUMBERS, {}), RunRecord(config)
    writer = MetricsWriter(folder.path / METRICS)
    writer.append(EVENTS)
    writer.close()
    for event in EVENTS:
        record.apply(event)
    folder.write_state(folder.status.with_record(record))
    return folder.path


def test_what_is_kept_says_that_there_is_none(tmp_path):
    path = kept(tmp_path)
    status = read_status(path)
    assert (status.targets, status.accuracy) == ("numbers", None)
    started = status.as_started()
    assert started is not None
    assert (started.targets, started.readers) == ("numbers", 3)
    record = load_record(path)
    assert not record.has_accuracy
    assert record.best_accuracy is None
    assert record.evaluations.losses.least == (20.0, 0.25)
    assert len(record.evaluations.accuracies.points) == 0


def test_show_and_csv_leave_it_out(tmp_path):
    path = kept(tmp_path)
    shown = report.show(tmp_path, path.name, as_json=False)
    assert "accuracy" not in shown.partition("configuration")[0].lower()
    rows = [line.split() for line in shown.splitlines()]
    assert [row for row in rows if row[:1] in (["1"], ["2"])] == [["1", "3.0000", "0.5000"], ["2", "2.0000", "0.2500"]]
    export_metrics(path, "csv", str(tmp_path / "run.csv"))
    header, *rows = [line.split(",") for line in (tmp_path / "run.csv").read_text().splitlines()]
    assert [row[header.index("accuracy")] for row in rows if row[0] == "eval"] == ["", ""]


def test_lines_of_the_log_and_of_a_pipe_leave_it_out(capsys):
    assert describe(EVENTS[2], 3.0) == ("info", "epoch 1: loss 3.0000, test 0.5000")
    printer = PlainPrinter()
    printer.show([EVENTS[2]])
    assert capsys.readouterr().out == "epoch 1  test loss 0.5000\n"


def test_a_viewer_gets_it_through_the_socket():
    event = decode(encode(EVENTS[2]))
    assert event is not None
    assert (event.loss, math.isnan(event.accuracy)) == (0.5, True)


def test_tensorboard_has_no_curve_of_it(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.write(EVENTS)
    writer.close()
    accumulator = EventAccumulator(str(tmp_path), size_guidance={SCALARS: 0})
    accumulator.Reload()
    assert sorted(accumulator.Tags()["scalars"]) == ["test_loss", "test_loss_mean"]
