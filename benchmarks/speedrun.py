"""The recipe `speedrun-94` inside the app against the same recipe in plain PyTorch, seed by seed: accuracy and seconds of training."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.awaited import NO_GPU, NotMeasured
from benchmarks.machine import gpus
from benchmarks.pairs import Figure, Wanted, figure, own, rounds, told
from benchmarks.programs import HERE, Screen, Training, metrics, output_of, runs_dir

STEPS = 476
TIMED_SEEDS = 6
AT_ONCE = {"cuda": 4, "cpu": 1}
PATIENCE_SECONDS = {"cuda": 120, "cpu": 3600}
ACCURACY = "speed run, mean accuracy"
SECONDS = "speed run, training with the screen live"


class Ended(NamedTuple):
    """What came of one seed: the accuracy, 0 to 1, and the seconds that count."""

    accuracy: float
    seconds: float


def speedrun(wanted: Wanted) -> list[Figure]:
    """`wanted.seeds` runs of each on a GPU; on a machine without one only where `wanted.steps` bounds them.

    Of the first seeds the time is taken, one run after the other. How well the others learn is seen without a screen, several at a time.

    Raises:
        NotMeasured: there is no GPU, and no bound.
    """
    if not gpus() and wanted.steps is None:
        raise NotMeasured(NO_GPU)
    device, steps = "cuda" if gpus() else "cpu", wanted.steps or STEPS
    where = "" if steps == STEPS and device == "cuda" else f", {steps} steps on {device}"
    with _plain(wanted.data, steps, device) as plain:
        timed = range(min(wanted.seeds, TIMED_SEEDS))
        others = _beside_each_other(
            partial(_headless, wanted.data, steps, device), plain, range(len(timed), wanted.seeds), AT_ONCE[device], wanted.within
        )
        in_app = partial(next, (_in_app(wanted.data, seed, steps, device) for seed in timed))
        takers = [told("in the app", in_app), told("plain PyTorch", partial(next, map(plain, timed)))]
        pairs = rounds(takers, len(timed), warmup=0, within=wanted.within)
    accuracies, plain_accuracies = ([each[which].accuracy for each in (*pairs, *others)] for which in (0, 1))
    seconds, plain_seconds = ([each[which].seconds for each in pairs] for which in (0, 1))
    return [
        figure(
            ACCURACY + where,
            # Of the means: one seed says little.
            [statistics.fmean(accuracies) / statistics.fmean(plain_accuracies)],
            ours=_spread(accuracies),
            peer=f"{_spread(plain_accuracies)}, plain PyTorch, {len(plain_accuracies)} seeds of each",
            least=0.999,
        ),
        own(SECONDS + where, seconds, plain_seconds, most=2.0, unit="s", what=f"plain PyTorch, seeds 0 to {len(pairs) - 1}"),
    ]


def _beside_each_other(
    ours: Callable[[int], Ended], theirs: Callable[[int], Ended], seeds: Sequence[int], at_once: int, within: float
) -> list[tuple[Ended, Ended]]:
    """What came of both for each seed: `at_once` of ours at a time, and the others one after the other meanwhile; none that would begin
    after `within` seconds."""
    end = time.monotonic() + within

    def in_time(what: str, take: Callable[[int], Ended], seed: int) -> Ended | None:
        return told(f"{what}, seed {seed}", partial(take, seed))() if time.monotonic() < end else None

    with ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(in_time, "without a screen", ours, seed) for seed in seeds]
        found = [in_time("plain PyTorch", theirs, seed) for seed in seeds]
    both = zip((future.result() for future in waiting), found, strict=True)
    return [(mine, other) for mine, other in both if mine is not None and other is not None]


def _spread(accuracies: Sequence[float]) -> str:
    low, mean, high = (100 * value for value in (min(accuracies), statistics.fmean(accuracies), max(accuracies)))
    return f"{mean:.2f} % ({low:.2f} to {high:.2f})"


@contextmanager
def _plain(folder: Path, steps: int, device: str) -> Iterator[Callable[[int], Ended]]:
    """Trains with plain PyTorch from a seed. One process does all of them, so that it is warm."""
    script = [sys.executable, str(HERE / "plain_speedrun.py"), str(folder), "--asked", "--steps", str(steps), "--device", device]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        asked, answers = child.stdin.fileno(), child.stdout

        def train(seed: int) -> Ended:
            # Not by the file, which would keep what a process that has ended does not take.
            with suppress(BrokenPipeError):
                os.write(asked, f"{seed}\n".encode())
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
    """One run inside the app at 120×40."""
    with runs_dir() as (runs, env):
        screen = Screen(_training(folder, seed, steps, device).command("--tui"), env)
        try:
            screen.until_sent(b"finished", seconds=PATIENCE_SECONDS[device])
            screen.child.send("q")
            screen.rest()
        finally:
            screen.close()
        return _kept(runs)


def _headless(folder: Path, steps: int, device: str, seed: int) -> Ended:
    """One run in a pipe."""
    with runs_dir() as (runs, env):
        output_of(_training(folder, seed, steps, device).command(), env)
        return _kept(runs)


def _training(folder: Path, seed: int, steps: int, device: str) -> Training:
    return Training(str(folder), steps, ("--seed", str(seed)), recipe="speedrun-94", device=device)


def _kept(runs: Path) -> Ended:
    """What came of the only run in a folder."""
    ((accuracy,),) = metrics(runs, "SELECT accuracy FROM evals ORDER BY step DESC LIMIT 1")
    ((clock,),) = metrics(runs, "SELECT event FROM clock")
    return Ended(accuracy, json.loads(clock)["seconds"])
