"""The mean training loss of an epoch: what it is, and where it stands beside the test loss."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from small_runs import STARTED, evaluation, losses, make_run, small_run

from tuitrain.config import DEFAULTS
from tuitrain.console.printers import BarPrinter, PlainPrinter, Printer
from tuitrain.events import Checkpoint, Event, RunStarted
from tuitrain.paths import METRICS
from tuitrain.recipes import load_recipe
from tuitrain.runs import report
from tuitrain.runs.epochs import train_loss
from tuitrain.runs.record import RunRecord
from tuitrain.runs.series import Curve, Series
from tuitrain.runs.stored import stored_run

# 100 samples in batches of 30: three of them, and one of 10.
UNEVEN = msgspec.structs.replace(STARTED, train_samples=100, steps_per_epoch=4, total_steps=8)


def series(first: int, values: list[float]) -> Series:
    made = Series()
    made.extend(range(first, first + len(values)), values)
    return made


def gap() -> Series:
    """Without the first step of the second epoch."""
    made = series(1, [9.0] * 4)
    made.extend((6, 7, 8), (2.0, 3.0, 8.0))
    return made


@pytest.mark.parametrize(
    ("curve", "step", "mean"),
    [
        (series(1, [1.0, 2.0, 3.0, 8.0]), 4, (30 * (1 + 2 + 3) + 10 * 8) / 100),
        (series(1, [9.0, 9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 8.0]), 8, 2.6),
        (series(1, [9.0, 9.0, 9.0, 9.0, 1.0, 2.0]), 6, 1.5),
        (series(1, [9.0, 9.0, 9.0, 9.0, 1.0]), 5, 1.0),
        (series(2, [2.0, 3.0, 8.0]), 4, None),
        (gap(), 8, None),
        (series(1, [1.0, 2.0, 3.0]), 4, None),
        (series(1, [1.0, 2.0, 3.0, float("nan")]), 4, None),
        (series(1, [1.0, float("inf"), 3.0, 8.0]), 4, None),
        (Series(), 4, None),
    ],
    ids=["whole", "second", "cut short", "one step", "no first step", "gap", "no last step", "no number", "not finite", "nothing"],
)
def test_each_sample_counts_once(curve: Curve, step: int, mean: float | None) -> None:
    assert train_loss(curve, step, UNEVEN, 30) == (None if mean is None else pytest.approx(mean))


def test_an_epoch_of_one_batch_that_is_not_full_has_its_loss() -> None:
    small = msgspec.structs.replace(STARTED, train_samples=7, steps_per_epoch=1, total_steps=3)
    assert train_loss(series(1, [3.0, 2.5]), 2, small, 30) == pytest.approx(2.5)


def test_a_batch_size_that_was_edited_later_gives_no_number() -> None:
    assert [train_loss(series(1, [1.0] * 4), 4, UNEVEN, size) for size in (20, 30, 40)] == [
        None,
        pytest.approx(1),
        None,
    ]
    whole = msgspec.structs.replace(UNEVEN, train_samples=90)
    assert train_loss(series(1, [1.0] * 4), 4, whole, 30) is None, "three steps would have done"


def test_a_long_epoch_of_a_kept_run_is_gathered_exactly(runs_dir: Path) -> None:
    values = [5.0 / number for number in range(1, 10_001)]
    batch: list[Event] = [losses(1, values[:5000]), losses(5001, values[5000:], epoch=2)]
    folder = make_run(runs_dir, batch=batch)
    long: RunStarted = msgspec.structs.replace(STARTED, train_samples=5000 * 64, steps_per_epoch=5000, total_steps=10_000)
    kept, ended = stored_run(folder.path).loss, 10_000
    assert train_loss(kept, ended, long, 64) == pytest.approx(sum(values[5000:]) / 5000)
    assert train_loss(kept, ended, long, 64) == pytest.approx(train_loss(series(1, values), ended, long, 64))


def test_a_kept_run_that_lacks_losses_within_an_epoch_has_no_mean_of_it(runs_dir: Path) -> None:
    values = [1.0] * 300
    long: RunStarted = msgspec.structs.replace(STARTED, train_samples=300 * 64, steps_per_epoch=300, total_steps=300)
    holes: list[list[Event]] = [[losses(1, values[:200]), losses(202, values[201:])], [losses(1, [*values[:200], math.nan, *values[201:]])]]
    for batch in [[losses(1, values)], *holes]:
        kept = stored_run(make_run(runs_dir, batch=batch).path).loss
        assert train_loss(kept, 300, long, 64) == (None if batch in holes else 1.0)


def test_the_log_has_it_and_does_without_where_nobody_knows() -> None:
    record = RunRecord(DEFAULTS)
    record.apply(evaluation(10, 1, 0.25))
    for event in [STARTED, *small_run()]:
        record.apply(event)
    told = [line.text for line in record.log.tail(100) if line.text.startswith("epoch")]
    assert told == [
        "epoch 1: test loss 1.0000, accuracy 25.0%",
        "epoch 1: loss 2.4500, test 1.0000, accuracy 30.0%",
        "epoch 2: loss 1.4500, test 1.0000, accuracy 60.0%",
    ]


def test_the_log_of_a_run_without_test_data_has_it_beside_the_checkpoint_of_each_epoch() -> None:
    assert logged(msgspec.structs.replace(STARTED, test_samples=0)) == [
        "step 10: epoch checkpoint, loss 2.0000",
        "step 10: manual checkpoint",
    ]
    assert logged(STARTED) == ["step 10: manual checkpoint"], "the line of an evaluation says that the epoch is over"


def logged(started: RunStarted) -> list[str]:
    """What the log says of checkpoints at the end of the first epoch."""
    record = RunRecord(DEFAULTS)
    for event in (started, losses(1, [2.0] * 10), *(Checkpoint(step=10, path="there", kind=kind) for kind in ("epoch", "manual"))):
        record.apply(event)
    return [line.text for line in record.log.tail(100) if "checkpoint" in line.text]


@pytest.mark.parametrize("make_printer", [PlainPrinter, BarPrinter])
def test_it_is_printed_with_the_epoch(make_printer: type[Printer], capsys: pytest.CaptureFixture[str]) -> None:
    record = RunRecord(DEFAULTS)
    for event in [STARTED, *small_run()]:
        record.apply(event)
    printer = make_printer()
    printer.show([STARTED, evaluation(10, 1, 0.3)])
    printer.show([evaluation(20, 2, 0.6)], record)
    printer.close()
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    assert lines[:2] == ["epoch 1  test loss 1.0000  accuracy 30.00%", "epoch 2  train loss 1.4500  test loss 1.0000  accuracy 60.00%"]


def test_show_has_a_line_for_each_epoch(runs_dir: Path) -> None:
    make_run(runs_dir)
    lines = report.show(runs_dir, "last", as_json=False).splitlines()
    at = lines.index("epochs")
    assert lines[at : at + 5] == [
        "epochs",
        "  EPOCH  TRAIN LOSS  TEST LOSS  ACCURACY",
        "      1      2.4500     1.0000     30.0%",
        "      2      1.4500     1.0000     60.0%",
        "configuration",
    ]


def test_show_has_the_newest_of_many_epochs_and_says_where_the_others_are(runs_dir: Path) -> None:
    batch = [event for epoch in range(1, 33) for event in (losses(epoch, [1.0], epoch=epoch), evaluation(epoch, epoch, 0.5))]
    folder = make_run(runs_dir, msgspec.structs.replace(load_recipe("seed-cnn"), batch_size=640), batch, steps_per_epoch=1)
    lines = report.show(runs_dir, "last", as_json=False).splitlines()
    at = lines.index("epochs") + 2
    assert [int(line.split()[0]) for line in lines[at : at + 20]] == list(range(13, 33))
    assert lines[at + 20] == f"  12 earlier: tuitrain export {folder.path.name} --format csv"


def test_show_has_one_line_for_an_epoch_in_which_the_run_was_cut_and_went_on(runs_dir: Path) -> None:
    make_run(runs_dir, batch=[losses(1, [3.0, 1.0]), evaluation(1, 1, 0.2), evaluation(2, 1, 0.4)], steps_per_epoch=2)
    lines = report.show(runs_dir, "last", as_json=False).splitlines()
    at = lines.index("epochs") + 2
    assert [line.split()[-1] for line in lines[at : lines.index("configuration")]] == ["40.0%"]


def test_show_does_without_epochs_where_there_are_none_or_they_cannot_be_read(runs_dir: Path) -> None:
    folder = make_run(runs_dir, batch=[losses(1, [1.0])])
    assert "epochs\n" not in report.show(runs_dir, "last", as_json=False)
    (folder.path / METRICS).write_bytes(b"no database")
    assert "\nconfiguration\n" in report.show(runs_dir, "last", as_json=False)
