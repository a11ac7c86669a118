"""TensorBoard's own reader finds what the writer wrote; nothing heavy is imported before a writer is made."""

import subprocess
import sys
import time

import msgspec
import pytest
from small_runs import STARTED, evaluation, small_run, step

from tuitrain.events import Checkpoint, RunEnded
from tuitrain.runs import tensorboard
from tuitrain.runs.tensorboard import TensorBoardWriter


def test_tensorboard_reads_the_curves(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    writer = TensorBoardWriter(tmp_path)
    writer.write([STARTED, *small_run()])
    writer.close()
    accumulator = EventAccumulator(str(tmp_path), size_guidance={SCALARS: 0})
    accumulator.Reload()

    def curve(tag):
        return [(point.step, round(point.value, 4)) for point in accumulator.Scalars(tag)]

    assert sorted(accumulator.Tags()["scalars"]) == sorted(
        ["train_loss", "learning_rate", "samples_per_second", "test_loss", "test_loss_mean", "test_accuracy"]
    )
    assert curve("train_loss") == [(number, round(3.0 - 0.1 * number, 4)) for number in range(1, 21)]
    assert curve("test_loss") == [(0, 2.0), (1, 2.0)]
    assert curve("test_loss_mean") == [(0, 1.0), (1, 1.0)]
    assert curve("test_accuracy") == [(0, 0.3), (1, 0.6)]
    assert {value for _, value in curve("learning_rate")} == {0.01}


def test_going_on_makes_a_new_file(tmp_path):
    for _ in range(2):
        writer = TensorBoardWriter(tmp_path)
        writer.close()
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 2


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        TensorBoardWriter(tmp_path / "file")


LIGHT = """
import sys
from tuitrain.runs import catalogue, export, folder, record, report, saved, tensorboard
print([name for name in ("torch", "numpy", "tensorboard", "textual", "psutil", "PIL", "rich") if name in sys.modules])
"""


def test_nothing_heavy_is_imported():
    ended = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == "[]", ended.stderr


def read(folder):
    """What TensorBoard itself reads: each tag's steps and values."""
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={SCALARS: 0})
    accumulator.Reload()
    return {tag: [(point.step, round(point.value, 4)) for point in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}


def steps_from(first, last, value):
    return [step(number, value) for number in range(first, last + 1)]


def saved(number):
    return Checkpoint(step=number, path=f"step-{number:08}", kind="epoch")


def going_on(number):
    return msgspec.structs.replace(STARTED, resumed_from=number)


def test_a_run_that_goes_on_is_read_as_one_without_the_steps_that_were_made_twice(tmp_path):
    first = TensorBoardWriter(tmp_path)
    first.write([STARTED, *steps_from(1, 10, 1.0), evaluation(10, 1, 0.5), saved(10), *steps_from(11, 20, 1.0), evaluation(20, 2, 0.1)])
    # Killed here: the end of the last record is torn, and the second evaluation was in no checkpoint.
    first._file.close()
    (torn,) = tmp_path.iterdir()
    torn.write_bytes(torn.read_bytes()[:-7])
    second = TensorBoardWriter(tmp_path)
    second.write([going_on(10), *steps_from(11, 20, 2.0), evaluation(20, 2, 0.75), saved(20), RunEnded(state="finished", step=20)])
    second.close()
    found = read(tmp_path)
    assert found["train_loss"] == [(number, 1.0 if number <= 10 else 2.0) for number in range(1, 21)]
    assert found["test_accuracy"] == [(0, 0.5), (1, 0.75)]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_group_that_starts_again_within_a_run_is_read_as_one_too(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.write([STARTED, *steps_from(1, 10, 1.0), evaluation(10, 1, 0.5), saved(10), *steps_from(11, 19, 1.0), evaluation(20, 2, 0.1)])
    writer.write([going_on(10), *steps_from(11, 20, 2.0), evaluation(20, 2, 0.75), RunEnded(state="stopped", step=20)])
    writer.close()
    found = read(tmp_path)
    assert found["train_loss"] == [(number, 1.0 if number <= 10 else 2.0) for number in range(1, 21)]
    assert found["test_accuracy"] == [(0, 0.5), (1, 0.75)]


def test_a_clock_that_was_set_back_changes_nothing(tmp_path, monkeypatch):
    for now, steps in ((2_000_000_000, (1, 4)), (1_000_000_000, (3, 6)), (1_000_000_000, (5, 8))):
        monkeypatch.setattr(time, "time", lambda now=now: float(now))
        writer = TensorBoardWriter(tmp_path)
        writer.write([going_on(steps[0] - 1), *steps_from(*steps, float(now))])
        writer.close()
    assert [number for number, _ in read(tmp_path)["train_loss"]] == list(range(1, 9))
    assert len(list(tmp_path.iterdir())) == 3


class Full:
    """A disk that takes a part of a record and then nothing for a while."""

    def __init__(self, file):
        self.file = file

    def write(self, content):
        if len(content) < 50:
            raise OSError(28, "No space left on device")
        return self.file.write(content[: len(content) - 49])

    def truncate(self, size):
        return self.file.truncate(size)

    def seek(self, place):
        return self.file.seek(place)


def test_what_a_full_disk_refuses_is_written_later_and_no_record_is_torn(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.write([STARTED, *steps_from(1, 5, 1.0), evaluation(5, 1, 0.5)])
    file, writer._file = writer._file, Full(writer._file)
    for batch in ([*steps_from(6, 8, 1.0), saved(8)], steps_from(9, 9, 1.0)):
        with pytest.raises(OSError, match="No space"):
            writer.write(batch)
        assert [number for number, _ in read(tmp_path)["train_loss"]] == [1, 2, 3, 4, 5]
    writer._file = file
    writer.write(steps_from(10, 10, 1.0))
    writer.close()
    found = read(tmp_path)
    assert [number for number, _ in found["train_loss"]] == list(range(1, 11))
    assert found["test_accuracy"] == [(0, 0.5)]


def test_what_was_written_is_there_though_nobody_closed_the_file(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.write(steps_from(1, 3, 1.0))
    assert [number for number, _ in read(tmp_path)["train_loss"]] == [1, 2, 3]
    writer.close()


def test_an_evaluation_that_a_killed_process_did_not_write_is_written_when_the_run_goes_on(tmp_path):
    first = TensorBoardWriter(tmp_path)
    first.write([STARTED, *steps_from(1, 10, 1.0), evaluation(10, 1, 0.25), saved(10), *steps_from(11, 20, 1.0), evaluation(20, 2, 0.5)])
    # Killed after the second checkpoint was in place, and before anybody was told.
    first._file.close()
    evals = [evaluation(10, 1, 0.25), evaluation(20, 2, 0.5), evaluation(30, 3, 0.125)]
    second = TensorBoardWriter(tmp_path, evals)
    second.write([going_on(20), *steps_from(21, 30, 1.0), evaluation(30, 3, 0.75), saved(30), RunEnded(state="finished", step=30)])
    second.close()
    assert read(tmp_path)["test_accuracy"] == [(0, 0.25), (1, 0.5), (2, 0.75)]


def test_an_evaluation_that_is_made_again_is_there_once(tmp_path):
    first = TensorBoardWriter(tmp_path)
    # It could not be saved, and the run ended so.
    first.write([STARTED, *steps_from(1, 10, 1.0), evaluation(10, 1, 0.5), RunEnded(state="failed", step=10)])
    first.close()
    (old,) = tmp_path.iterdir()
    with old.open("ab") as file:
        file.write(b"\xff" * 30 + b"test_loss")
    second = TensorBoardWriter(tmp_path)
    second.write([going_on(5), *steps_from(6, 10, 1.0), evaluation(10, 1, 0.5), saved(10)])
    second.close()
    assert read(tmp_path)["test_accuracy"] == [(0, 0.5)]


def test_an_epoch_that_was_cut_and_then_finished_has_its_last_evaluation_last(tmp_path):
    cut, whole = evaluation(13, 2, 0.15, loss=2.4), evaluation(20, 2, 0.3, loss=2.2)
    first = TensorBoardWriter(tmp_path)
    first.write([STARTED, *steps_from(1, 13, 1.0), cut, saved(13), RunEnded(state="finished", step=13)])
    first.close()
    for _ in range(2):
        later = TensorBoardWriter(tmp_path, [cut, whole])
        later.write([going_on(13), *steps_from(14, 20, 1.0), whole, saved(20), RunEnded(state="finished", step=20)])
        later.close()
    assert read(tmp_path)["test_accuracy"] == [(1, 0.15), (1, 0.3)]


def test_a_run_of_many_epochs_that_goes_on_compares_each_evaluation_with_its_own_epoch_only(tmp_path, monkeypatch):
    evals = [evaluation(10 * epoch, epoch, 0.5) for epoch in range(1, 301)]
    first = TensorBoardWriter(tmp_path)
    first.write([STARTED, *evals, saved(3_000)])
    first.close()
    compared = []
    monkeypatch.setattr(tensorboard, "_is_as_written", lambda written, loss: compared.append(loss) or True)
    second = TensorBoardWriter(tmp_path, evals)
    second.write([going_on(3_000), saved(3_000)])
    second.close()
    assert len(compared) == 300
    assert len(read(tmp_path)["test_accuracy"]) == 300
