"""Watching a run that another process trains, beside other programs that show what a run has written."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.monitor import MOST_PAIRS, watched, watched_lines
from benchmarks.pairs import Figure, Wanted
from benchmarks.programs import TUITRAIN, Training, runs_dir

TERMINALBOARD = str(Path(sys.executable).with_name("terminalboard"))
START_SECONDS = 120.0


def watching(wanted: Wanted) -> list[Figure]:
    """`tuitrain attach` of a run that trains all the while, beside terminalboard: bytes to the terminal, processor, memory."""
    if not Path(TERMINALBOARD).exists():
        raise RuntimeError("terminalboard is not installed: pip install '.[bench]' brings it")
    with runs_dir() as (folder, env), training_run(folder, env) as run:
        monitors = [([TUITRAIN, "attach", run.name], env, ""), ([TERMINALBOARD, str(run / "tensorboard")], env, "")]
        ours, peer = zip(*(watched(monitors) for _ in range(min(wanted.pairs, MOST_PAIRS))), strict=True)
    return watched_lines("watching a run", ours, peer, "terminalboard")


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
