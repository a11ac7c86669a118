"""What it costs the process of a run to tell those who watch it. `python -m benchmarks.viewers RUN_FOLDER COUNT` is so many of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from benchmarks.programs import HERE
from tuitrain.events import ReplicaStat, ReplicaStats, Step
from tuitrain.session.lines.client import RunLine
from tuitrain.session.lines.server import ControlServer

BATCHES = 150
BATCH_STEPS = 7
"""A tenth of a second's, at seventy steps a second."""
PAUSE_SECONDS = 0.01
COME_SECONDS = 20.0


def batches_to(count: int) -> float:
    """Processor seconds, of all threads, for a batch of steps told to `count` viewers who are another process."""
    with tempfile.TemporaryDirectory() as folder, _sockets(), _viewers(Path(folder), count) as server:
        begin = time.process_time()
        for batch in range(BATCHES):
            server.tell(_batch(batch))
            time.sleep(PAUSE_SECONDS)
        return (time.process_time() - begin) / BATCHES


def _batch(number: int) -> list[Step | ReplicaStats]:
    first = number * BATCH_STEPS + 1
    stats = ReplicaStat(index=0, loss=1.25, step_seconds=0.014, samples_per_second=4_500.0, memory=None)
    steps = [Step(step=step, epoch=1, loss=1.25, lr=0.01, samples_per_second=4_500.0) for step in range(first, first + BATCH_STEPS)]
    return [*steps, ReplicaStats(step=first, replicas=(stats,))]


@contextmanager
def _sockets() -> Iterator[None]:
    """A place of their own for sockets: a path to one has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder, mock.patch.dict(os.environ, XDG_RUNTIME_DIR=folder):
        yield


@contextmanager
def _viewers(folder: Path, count: int) -> Iterator[ControlServer]:
    """The server of a run in `folder` that `count` viewers watch.

    Raises:
        RuntimeError: they did not come.
    """
    there = threading.Event()
    server = ControlServer(folder, lambda command: None, lambda watching: there.set() if watching == count else None)
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.viewers", str(folder), str(count)], cwd=HERE.parent)
    try:
        if not there.wait(COME_SECONDS):
            raise RuntimeError(f"{count} viewers did not come within {COME_SECONDS:.0f} s")
        yield server
    finally:
        server.finish()
        server.join(COME_SECONDS)
        process.wait()


def main() -> None:
    """Watch, so many times at once, until the run hangs up."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    threads = [threading.Thread(target=_watch, args=(folder,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _watch(folder: Path) -> None:
    line = RunLine.connect(folder)
    assert line is not None
    with line:
        for _ in line.watch():
            pass


if __name__ == "__main__":
    main()
