"""What a run takes of its host's memory: its curves no more with every step, and nothing when it is over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_sessions import BOUND, Heard, count_to, session_of

from tuitrain.config import DEFAULTS
from tuitrain.events import Step
from tuitrain.runs import series, tape
from tuitrain.runs.record import RunRecord
from tuitrain.runs.store import MetricsWriter

# A process of its own: here TensorBoard has been imported long ago.
_PROGRAM = """
import gc, sys, weakref
from pathlib import Path

sys.path[:0] = [sys.argv[1]]
from small_sessions import started, until
from tuitrain.config import DEFAULTS
from tuitrain.events import Losses, RunEnded, State, Step
from tuitrain.paths import TENSORBOARD
from tuitrain.session.worker import WorkerSession

kept = []

class Network:
    def __init__(self):
        self.itself = self

def train(config, control):
    yield started(1)
    network = Network()
    kept.append(weakref.ref(network))
    yield State(state="running")
    yield Losses(first_step=1, epoch=1, losses=(1.0,), times=(1.0,))
    yield Step(step=1, epoch=1, loss=1.0, lr=0.1, samples_per_second=1.0)
    until(lambda: (control.folder / TENSORBOARD).is_dir())
    yield RunEnded(state="finished", step=1)

session = WorkerSession(lambda: train, Path(sys.argv[2]), list)
session.start(DEFAULTS)
assert session.join(60)
assert "tensorboard" in sys.modules
gc.collect()
assert [one() for one in kept] == [None], "what the run made is kept"
"""


def test_what_a_run_made_is_freed_after_it_though_tensorboard_was_imported_meanwhile(tmp_path: Path) -> None:
    program = [sys.executable, "-c", _PROGRAM, str(Path(__file__).parent), str(tmp_path / "runs")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.returncode == 0


def run_of(steps: int, tmp_path: Path, heard: Heard) -> RunRecord:
    session = session_of(count_to(steps), tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(Step, steps)
    session.stop()
    assert session.join(BOUND)
    assert session.record is not None
    return session.record


def keep_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "KEPT", 100)
    monkeypatch.setattr(tape, "PAGE", 25)


def assert_whole(record: RunRecord, steps: int) -> None:
    assert len(record.loss) == len(record.times) == steps
    for step in range(1, steps + 1):
        assert (record.loss.at(step), record.times.at(step)) == ((step, 1 / step), (step, step))
    assert [one.count for one in record.loss.thin(0.5, steps + 0.5, 3)] == pytest.approx([steps / 3] * 3, abs=64)
    averaged = series.Series()
    averaged.extend(range(1, steps + 1), [1 / step for step in range(1, steps + 1)])
    assert record.loss.smoothed(0.9).at(steps // 3) == averaged.smoothed(0.9).at(steps // 3)


def test_the_curves_of_a_long_run_stay_on_disk_but_for_their_end(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_few(monkeypatch)
    record = run_of(2_000, tmp_path, heard)
    assert (record.loss.in_memory, record.times.in_memory) == (False, False)
    assert_whole(record, 2_000)


def test_what_a_disk_does_not_take_stays_in_memory(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_few(monkeypatch)
    monkeypatch.setattr(MetricsWriter, "commit", lambda own: False)
    monkeypatch.setattr(MetricsWriter, "close", lambda own: 1)
    record = run_of(500, tmp_path, heard)
    assert record.loss.in_memory
    assert_whole(record, 500)
