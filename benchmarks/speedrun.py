"""The recipe `speedrun-94` inside the app against the same recipe in plain PyTorch, seed by seed: accuracy and seconds of training."""

from __future__ import annotations

import json
import sqlite3
import statistics
import sys
from pathlib import Path

from benchmarks.awaited import NO_GPU, NotMeasured
from benchmarks.machine import gpus
from benchmarks.pairs import Figure, Wanted, figure, own
from benchmarks.programs import HERE, Screen, Training, output_of, runs_dir

STEPS = 476
PATIENCE_SECONDS = 3600
ACCURACY = "speed run, mean accuracy"
SECONDS = "speed run, training with the screen live"


def speedrun(wanted: Wanted) -> list[Figure]:
    """`wanted.seeds` runs of each on a GPU; on a machine without one only where `wanted.steps` bounds them.

    Raises:
        NotMeasured: there is no GPU, and no bound.
    """
    if not gpus() and wanted.steps is None:
        raise NotMeasured(NO_GPU)
    device, steps = "cuda" if gpus() else "cpu", wanted.steps or STEPS
    where = "" if steps == STEPS and device == "cuda" else f", {steps} steps on {device}"
    theirs = _plain(wanted.data, wanted.seeds, steps, device)
    ours = [_in_app(wanted.data, seed, steps, device) for seed in range(wanted.seeds)]
    (accuracies, seconds), (plain_accuracies, plain_seconds) = zip(*ours, strict=True), zip(*theirs, strict=True)
    what = f"plain PyTorch, seeds 0 to {wanted.seeds - 1}"
    return [
        figure(
            ACCURACY + where,
            # Of the means: one seed says little.
            [statistics.fmean(accuracies) / statistics.fmean(plain_accuracies)],
            ours=_spread(accuracies),
            peer=f"{_spread(plain_accuracies)}, {what}",
            least=0.999,
        ),
        own(SECONDS + where, seconds, plain_seconds, most=2.0, unit="s", what=what),
    ]


def _spread(accuracies: tuple[float, ...]) -> str:
    low, mean, high = (100 * value for value in (min(accuracies), statistics.fmean(accuracies), max(accuracies)))
    return f"{mean:.2f} % ({low:.2f} to {high:.2f})"


def _plain(folder: Path, seeds: int, steps: int, device: str) -> list[tuple[float, float]]:
    """Accuracy and seconds of each seed."""
    script = [sys.executable, str(HERE / "plain_speedrun.py"), str(folder)]
    told = output_of([*script, "--seeds", str(seeds), "--steps", str(steps), "--device", device])
    lines = [json.loads(line) for line in told.splitlines()]
    return [(line["accuracy"], line["seconds"]) for line in lines]


def _in_app(folder: Path, seed: int, steps: int, device: str) -> tuple[float, float]:
    """Accuracy and seconds of one run inside the app at 120×40, as it kept them."""
    training = Training(str(folder), steps, ("--seed", str(seed)), recipe="speedrun-94", device=device)
    with runs_dir() as (runs, env):
        screen = Screen(training.command("--tui"), env)
        try:
            screen.until_sent(b"finished", seconds=PATIENCE_SECONDS)
            screen.child.send("q")
            screen.rest()
        finally:
            screen.close()
        connection = sqlite3.connect(f"file:{next(runs.glob('*/metrics.sqlite'))}?mode=ro", uri=True)
        try:
            (accuracy,) = connection.execute("SELECT accuracy FROM evals ORDER BY step DESC LIMIT 1").fetchone()
            (clock,) = connection.execute("SELECT event FROM clock").fetchone()
        finally:
            connection.close()
        return accuracy, json.loads(clock)["seconds"]
