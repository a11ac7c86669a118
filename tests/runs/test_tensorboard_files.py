"""TensorBoard's own reader finds what the writer wrote; nothing heavy is imported before a writer is made."""

import subprocess
import sys
import threading

import pytest
from small_runs import STARTED, small_run

from tuitrain.runs.tensorboard import TensorBoardWriter


def test_tensorboard_reads_the_curves(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    writer = TensorBoardWriter(tmp_path)
    writer.write([STARTED, *small_run()])
    writer.close()
    assert not [thread for thread in threading.enumerate() if type(thread).__name__ == "_AsyncWriterThread"]
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
