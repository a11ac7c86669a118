"""Watching a run that another process trains, beside terminalboard on the same run's TensorBoard files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.monitor import MOST_PAIRS, VALUES, Watched
from benchmarks.pairs import Figure, Wanted, own
from benchmarks.programs import TUITRAIN, Training, runs_dir

TERMINALBOARD = str(Path(sys.executable).with_name("terminalboard"))
START_SECONDS = 120.0


def watching(wanted: Wanted) -> list[Figure]:
    """`tuitrain attach` of a run that trains all the while, beside terminalboard: bytes to the terminal, processor, memory."""
    if not Path(TERMINALBOARD).exists():
        raise RuntimeError("terminalboard is not installed: pip install '.[bench]' brings it")
    ours: list[Watched] = []
    peer: list[Watched] = []
    with runs_dir() as (folder, env), _run(folder, env) as run:
        for _ in range(min(wanted.pairs, MOST_PAIRS)):
            ours.append(Watched([TUITRAIN, "attach", run.name], env, ""))
            peer.append(Watched([TERMINALBOARD, str(run / "tensorboard")], env, ""))
    return [
        own(
            f"watching a run, {what}",
            [value(one) for one in ours],
            [value(one) for one in peer],
            most=most,
            unit=unit,
            what="terminalboard",
        )
        for what, unit, most, value in VALUES
    ]


@contextmanager
def _run(folder: Path, env: dict[str, str]) -> Iterator[Path]:
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
