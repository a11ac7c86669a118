"""Whether the app's memory stays as it is, however long it runs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil

from benchmarks.monitor import BUSY, stand_in
from benchmarks.pairs import Figure, Wanted, alone, middle
from benchmarks.programs import TUITRAIN, Screen, Training, output_of, runs_dir
from tuitrain.events import Losses
from tuitrain.runs.store import MetricsWriter

CARDS = BUSY.replace("count 3", "count 16")
SETTLE_SECONDS = 40.0
SAMPLE_SECONDS = 0.5
POINTS = 1_000_000
PIECE = 50_000
ENDLESS = ("--epochs", "1000000")


def long_run(wanted: Wanted) -> list[Figure]:
    """Growth of the app's memory with sixteen stand-in cards: while it trains, and while it shows a run of a million steps."""
    seconds = 60 * wanted.minutes
    with stand_in(CARDS) as nvml:
        with runs_dir() as (_, env):
            # An epoch of the synthetic data is short: evaluations and checkpoints come often, the first ones before the memory is warm.
            training = Training("synthetic", 10**9, ENDLESS).command("--tui")
            trained = _growth(training, {**env, **nvml}, "[64, 3, 32, 32]", seconds)
        with runs_dir() as (folder, env):
            run = million_points(folder, env)
            shown = _growth([TUITRAIN, "attach", run.name], {**env, **nvml}, f"{POINTS:,}", seconds / 2)
    return [
        _line(f"memory gained in {wanted.minutes:g} min of training, 16 stand-in cards", *trained),
        _line(f"memory gained in {wanted.minutes / 2:g} min of showing {POINTS:,} steps, 16 stand-in cards", *shown),
    ]


def _line(name: str, begin: float, end: float) -> Figure:
    return alone(name, end - begin, most=2, unit="MB", ours=f"{end - begin:+.2f} MB (from {begin:.0f} MB)")


def _growth(argv: list[str], env: dict[str, str], marker: str, seconds: float) -> tuple[float, float]:
    """MB resident in the first and in the last third of `seconds`, once all is warm: the medians, because evaluations come and go."""
    screen = Screen(argv, env)
    try:
        screen.wait(lambda text: marker in text)
        process = psutil.Process(screen.child.pid)
        screen.discard(SETTLE_SECONDS)
        values, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end:
            screen.discard(SAMPLE_SECONDS)
            values.append(process.memory_info().rss / 2**20)
    finally:
        screen.close()
    third = len(values) // 3
    return middle(values[:third]), middle(values[-third:])


def million_points(folder: Path, env: dict[str, str]) -> Path:
    """A run in `folder` whose store has the losses of `POINTS` steps: one that was really trained, a little, and was then lengthened."""
    output_of([TUITRAIN, "run", "random-linear", "--device", "cpu"], env)
    run = next(folder.iterdir())
    writer = MetricsWriter(run / "metrics.sqlite")
    for first in range(1, POINTS, PIECE):
        steps = range(first, first + PIECE)
        losses, times = tuple(1 + (step % 97) / 97 for step in steps), tuple(1.7e9 + step / 100 for step in steps)
        writer.append([Losses(first_step=first, epoch=1, losses=losses, times=times)])
        writer.commit()
    writer.close()
    state = run / "state.json"
    status = json.loads(state.read_bytes()) | {"step": POINTS, "steps_per_epoch": POINTS, "total_steps": POINTS}
    state.write_text(json.dumps(status))
    return run
