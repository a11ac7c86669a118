"""Trainings that take turns: all are started, and each goes on for a moment while the others are stopped.

So a machine whose speed drifts moves all of them alike, and one start gives many pairs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.pairs import middle
from benchmarks.programs import HERE, Training, runs_dir, step_times

POLL_SECONDS = 0.1
START_SECONDS = 120.0
ENDING_SECONDS = 20.0


@dataclass(frozen=True)
class Trainee:
    """A program that trains until it is told to end.

    Attributes:
        command: starts it.
        times: when it made each step so far, Unix seconds.
        skipped: how many steps at the beginning do not count.
        env: variables for it.
    """

    command: Sequence[str]
    times: Callable[[], list[float]]
    skipped: int
    env: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def headless_trainee(training: Training) -> Iterator[Trainee]:
    """`tuitrain run` in a pipe."""
    with runs_dir() as (folder, env):
        yield Trainee(training.command(), lambda: _kept_times(folder), training.skipped, {**env, **training.env})


def in_turns(trainees: Sequence[Trainee], turns: int, seconds: float) -> list[tuple[float, ...]]:
    """Seconds per step of each, in each of its turns; every second time they take them in reverse.

    Raises:
        RuntimeError: one ended by itself, began no training, or made fewer than two steps in a turn.
    """
    spans: list[dict[int, tuple[float, float]]] = []
    with ExitStack() as stack:
        started = [stack.enter_context(_started(trainee)) for trainee in trainees]
        for turn in range(turns):
            order = range(len(started)) if turn % 2 == 0 else reversed(range(len(started)))
            spans.append({which: _let(started[which], seconds) for which in order})
    times = [trainee.times() for trainee in trainees]
    return [tuple(seconds_per_step(moments, *span[which]) for which, moments in enumerate(times)) for span in spans]


def seconds_per_step(moments: Sequence[float], begin: float, end: float) -> float:
    """The median of the steps that were begun and ended between two moments: an evaluation before one of them does not count.

    Raises:
        RuntimeError: there is none.
    """
    inside = [moment for moment in moments if begin <= moment <= end]
    if len(inside) < 2:
        raise RuntimeError(f"no whole step in a turn of {end - begin:.1f} s")
    return middle([after - before for before, after in pairwise(inside)])


@contextmanager
def _started(trainee: Trainee) -> Iterator[subprocess.Popen[bytes]]:
    """The program, stopped after its first steps."""
    env = {**os.environ, **trainee.env}
    process = subprocess.Popen(list(trainee.command), env=env, cwd=HERE.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_SECONDS
        while len(trainee.times()) <= trainee.skipped:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{' '.join(map(str, trainee.command))} did not begin to train")
            time.sleep(POLL_SECONDS)
        _tell(process, signal.SIGSTOP)
        yield process
    finally:
        _tell(process, signal.SIGCONT)
        process.terminate()
        try:
            process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _let(process: subprocess.Popen[bytes], seconds: float) -> tuple[float, float]:
    """Let it go on for so long; from when until when it did."""
    begin = time.time()
    _tell(process, signal.SIGCONT)
    time.sleep(seconds)
    if process.poll() is not None:
        raise RuntimeError("a training ended before its turns were over")
    end = time.time()
    _tell(process, signal.SIGSTOP)
    return begin, end


def _tell(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """A signal to the program and all that it started, as the ranks of a group."""
    if process.poll() is None:
        whole = psutil.Process(process.pid)
        for each in (whole, *whole.children(recursive=True)):
            each.send_signal(number)


def _kept_times(folder: Path) -> list[float]:
    return step_times(folder) if any(folder.glob("*/metrics.sqlite")) else []
