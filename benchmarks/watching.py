"""Watching a run that another process trains, beside other programs that show what a run has written."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from benchmarks.awaited import NotMeasured
from benchmarks.leet import OFFLINE, leet
from benchmarks.monitor import MOST_PAIRS, watched, watched_lines
from benchmarks.pairs import Figure, Wanted
from benchmarks.programs import TUITRAIN, Training, runs_dir

TERMINALBOARD = str(Path(sys.executable).with_name("terminalboard"))
START_SECONDS = 120.0


def watching(wanted: Wanted) -> list[Figure]:
    """`tuitrain attach` of a run that trains all the while, beside terminalboard, and where wandb is installed beside LEET on a run that
    wandb is told of as often: bytes to the terminal, processor, memory. All of them watch at the same time."""
    if not Path(TERMINALBOARD).exists():
        raise RuntimeError("terminalboard is not installed: pip install '.[bench]' brings it")
    with ExitStack() as stack:
        folder, env = stack.enter_context(runs_dir())
        run = stack.enter_context(training_run(folder, env))
        monitors = [([TUITRAIN, "attach", run.name], env, ""), ([TERMINALBOARD, str(run / "tensorboard")], env, "")]
        with suppress(NotMeasured):
            monitors.append((stack.enter_context(leet(folder.parent / "wandb-runs")), OFFLINE, ""))
        taken = [watched(monitors) for _ in range(min(wanted.pairs, MOST_PAIRS))]
    ours, peer, *others = zip(*taken, strict=True)
    lines = watched_lines("watching a run", ours, peer, "terminalboard")
    return [*lines, *(line for other in others for line in watched_lines("watching a run beside W&B LEET", ours, other, "W&B LEET"))]


@contextmanager
def training_run(folder: Path, env: dict[str, str]) -> Iterator[Path]:
    """The folder of a run that trains until the end of the block."""
    command = Training("synthetic", 10**9, ("--epochs", "1000000")).command()
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, env={**os.environ, **env}, stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        yield _trained(folder, process)
    finally:
        process.terminate()
        process.wait()


def _trained(folder: Path, process: subprocess.Popen[bytes]) -> Path:
    """The run's folder, once it has its first checkpoint and so some points to show.

    Raises:
        RuntimeError: it never had.
    """
    end = time.perf_counter() + START_SECONDS
    while time.perf_counter() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the run that was to be watched ended with {process.returncode}")
        for checkpoint in folder.glob("*/checkpoints/step-*"):
            return checkpoint.parents[1]
        time.sleep(0.1)
    raise RuntimeError(f"the run that was to be watched has no checkpoint after {START_SECONDS:.0f} s")
