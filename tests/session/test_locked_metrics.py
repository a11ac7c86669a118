"""Metrics that another process has locked: training goes on without waiting, the run says so once, and no point is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_sessions import BOUND, Heard, session_of, started

from tuitrain.config import DEFAULTS, RunConfig
from tuitrain.events import Event, Losses, Notice, RunEnded, State
from tuitrain.paths import METRICS
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.schema import LOSS
from tuitrain.runs.status import read_status
from tuitrain.session.control import Control

LOCKS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
"""


def lock(path: Path) -> subprocess.Popen[str]:
    """A process that holds the file until it reads a line."""
    process = subprocess.Popen([sys.executable, "-c", LOCKS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def until_it_says(folder: Path, state: str) -> None:
    end = time.monotonic() + BOUND
    while read_status(folder).state != state:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("released", ["while it trains", "when it has ended"])
def test_training_goes_on_beside_a_lock_and_no_point_is_lost(tmp_path: Path, released: str) -> None:
    steps, locked, all_made, go_on = 500, threading.Event(), threading.Event(), threading.Event()

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(steps)
        yield State(state="running")
        assert locked.wait(BOUND)
        for step in range(1, steps + 1):
            yield Losses(first_step=step, epoch=1, losses=(1 / step,), times=(float(step),))
        all_made.set()
        assert go_on.wait(BOUND)
        yield RunEnded(state="finished", step=steps)

    heard = Heard()
    session = session_of(train, tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(State)
    assert session.record is not None
    assert session.record.path is not None
    holder = lock(session.record.path / METRICS)
    try:
        locked.set()
        # The lock is held until here: nothing in training has waited for it.
        assert all_made.wait(BOUND)
        heard.wait_for(Notice)
        heard.wait_for(Losses, steps)
        if released == "when it has ended":
            go_on.set()
            until_it_says(session.record.path, "finished")
        holder.communicate("\n", timeout=BOUND)
        go_on.set()
        assert session.join(BOUND)
    finally:
        holder.kill()
        holder.communicate()
        go_on.set()
    told = [event.text for event in heard.events if isinstance(event, Notice)]
    assert [text for text in told if "metrics cannot be written: database is locked. Training goes on" in text] == told
    assert len(told) == 1
    with MetricsReader(session.record.path / METRICS) as reader:
        assert (reader.count(), reader.last_step()) == (steps, steps)
        assert [value for _, values in reader.points(LOSS) for value in values] == [1 / step for step in range(1, steps + 1)]
        assert [event.state for _, event in reader.states()] == ["running", "finished"]
