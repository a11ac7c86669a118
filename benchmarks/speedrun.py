"""The recipe `speedrun-94` inside the app against the same recipe in plain PyTorch, seed by seed: accuracy and seconds of training."""

from __future__ import annotations

import json
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.awaited import NO_GPU, NotMeasured
from benchmarks.machine import gpus
from benchmarks.pairs import Figure, Wanted, figure, own, rounds, told
from benchmarks.programs import HERE, Screen, Training, runs_dir

STEPS = 476
PATIENCE_SECONDS = {"cuda": 300, "cpu": 3600}
ACCURACY = "speed run, mean accuracy"
SECONDS = "speed run, training with the screen live"


class Ended(NamedTuple):
    """What came of one seed: the accuracy, 0 to 1, and the seconds that count."""

    accuracy: float
    seconds: float


def speedrun(wanted: Wanted) -> list[Figure]:
    """`wanted.seeds` runs of each on a GPU; on a machine without one only where `wanted.steps` bounds them.

    Raises:
        NotMeasured: there is no GPU, and no bound.
    """
    if not gpus() and wanted.steps is None:
        raise NotMeasured(NO_GPU)
    device, steps = "cuda" if gpus() else "cpu", wanted.steps or STEPS
    where = "" if steps == STEPS and device == "cuda" else f", {steps} steps on {device}"
    with _plain(wanted.data, steps, device) as plain:
        seeds = range(wanted.seeds)
        in_app = partial(next, (_in_app(wanted.data, seed, steps, device) for seed in seeds))
        takers = [told("in the app", in_app), told("plain PyTorch", partial(next, map(plain, seeds)))]
        ours, theirs = zip(*rounds(takers, wanted.seeds, warmup=0, within=wanted.within), strict=True)
    (accuracies, seconds), (plain_accuracies, plain_seconds) = zip(*ours, strict=True), zip(*theirs, strict=True)
    what = f"plain PyTorch, seeds 0 to {len(ours) - 1}"
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


@contextmanager
def _plain(folder: Path, steps: int, device: str) -> Iterator[Callable[[int], Ended]]:
    """Trains with plain PyTorch from a seed. One process does all of them, so that it is warm."""
    script = [sys.executable, str(HERE / "plain_speedrun.py"), str(folder), "--asked", "--steps", str(steps), "--device", device]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        asked, answers = child.stdin, child.stdout

        def train(seed: int) -> Ended:
            print(seed, file=asked, flush=True)
            answer = answers.readline()
            if not answer:
                raise RuntimeError(f"plain_speedrun.py ended with {child.wait()}")
            line = json.loads(answer)
            return Ended(line["accuracy"], line["seconds"])

        try:
            yield train
        finally:
            child.kill()


def _in_app(folder: Path, seed: int, steps: int, device: str) -> Ended:
    """One run inside the app at 120×40, as it kept them."""
    training = Training(str(folder), steps, ("--seed", str(seed)), recipe="speedrun-94", device=device)
    with runs_dir() as (runs, env):
        screen = Screen(training.command("--tui"), env)
        try:
            screen.until_sent(b"finished", seconds=PATIENCE_SECONDS[device])
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
        return Ended(accuracy, json.loads(clock)["seconds"])
