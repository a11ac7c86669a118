from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
