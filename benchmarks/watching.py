"""Watching a run that another process trains, beside other programs that show what a run has written."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.awaited import NotMeasured
from benchmarks.leet import leet
from benchmarks.monitor import Monitor, watched, watched_lines
from benchmarks.pairs import Figure, Wanted
from benchmarks.programs import TUITRAIN, Training, runs_dir

TERMINALBOARD = str(Path(sys.executable).with_name("terminalboard"))
START_SECONDS = 120.0


def watching(wanted: Wanted) -> list[Figure]:
    """`tuitrain attach` of a run that trains all the while, beside terminalboard, and LEET where it is, on one that wandb is told of as
    often: bytes to the terminal, processor, memory."""
    if not Path(TERMINALBOARD).exists():
        raise RuntimeError("terminalboard is not installed: pip install '.[bench]' brings it")
    with ExitStack() as stack:
        folder, env = stack.enter_context(runs_dir())
        run = stack.enter_context(training_run(folder, env))
        monitors = [Monitor([TUITRAIN, "attach", run.name], env), Monitor([TERMINALBOARD, str(run / "tensorboard")], env)]
        try:
            monitors.append(stack.enter_context(leet(folder.parent / "wandb-runs")))
        except NotMeasured as error:
            print(f"without W&B LEET: {error}", file=sys.stderr)
        ours, *peers = watched(monitors)
    names = (("watching a run", "terminalboard"), ("watching a run beside W&B LEET", "W&B LEET"))
    # Without LEET its lines are left out.
    return [line for (name, what), peer in zip(names, peers, strict=False) for line in watched_lines(name, ours, peer, what)]


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
