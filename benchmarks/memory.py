"""Whether the app's memory stays as it is, however long it runs, and what its terminal gets meanwhile."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from typing import NamedTuple

import psutil

from benchmarks.monitor import BUSY, stand_in
from benchmarks.pairs import Figure, Wanted, alone, middle
from benchmarks.programs import HERE, PATIENCE_SECONDS, TUITRAIN, Screen, Training, headless, output_of, runs_dir, side_by_side
from benchmarks.speed import SMALL
from tuitrain.events import Losses
from tuitrain.paths import METRICS, STATE
from tuitrain.runs.store import MetricsWriter

QUICK_STEPS = (sys.executable, "-m", "benchmarks.quick_steps")
CARDS = BUSY.replace("count 3", "count 16")
SETTLE_SECONDS = 5.0
"""After the first evaluation, which takes memory that training keeps."""
EVALUATED = re.compile(r"accuracy +\d")
EPOCH_SECONDS = 60.0
"""By then the first evaluation is over."""
SAMPLE_SECONDS = 0.5
PAUSED_SECONDS = 3.0
"""In a pause the screen may still read and draw what came last."""
PAUSE = " "
RESIZED_SECONDS = 5.0
SMALL_SECONDS = 15.0
SPARE = 1.15
"""So much longer than it is watched is a run planned: its first steps do not tell exactly how long all of them take."""
SPEED_STEPS = 40
POINTS = 1_000_000
PIECE = 50_000


class Watch(NamedTuple):
    """Of a while: MB resident, again and again, and bytes a second to the terminal."""

    resident: list[float]
    rate: float


def long_run(wanted: Wanted) -> list[Figure]:
    """The app while it trains: its memory, and what a terminal of 120×40 and then one of 80×24 gets; and in another process the memory of
    one that shows a run of a million steps and sixteen stand-in cards. That needs next to nothing of the processor, so both are watched at
    the same time. Meanwhile a third process records as many steps that take next to no time."""
    seconds = 60 * wanted.minutes
    with ExitStack() as stack:
        nvml = stack.enter_context(stand_in(CARDS))
        folder, env = stack.enter_context(runs_dir())
        run = lengthened(folder, env, POINTS)
        steps = planned_steps(seconds, headless(Training(SMALL, SPEED_STEPS)))
        training = Training(str(wanted.data), steps, ("--epochs", "1000000")).command("--tui")
        showing = stack.enter_context(closing(Screen([TUITRAIN, "attach", run.name], {**env, **nvml})))
        showing.wait(lambda text: f"{POINTS:,}" in text)
        trained = stack.enter_context(closing(Screen(training, env)))
        quick = stack.enter_context(Popen([*QUICK_STEPS, str(folder), str(POINTS)], cwd=HERE.parent, stdout=PIPE, text=True))
        trained.wait(lambda text: EVALUATED.search(text) is not None)
        trained.discard(SETTLE_SECONDS)
        before = _paused(trained, folder)
        shown, large = side_by_side([partial(_watch, screen, seconds) for screen in (showing, trained)])
        after = _paused(trained, folder)
        trained.resize(80, 24)
        trained.discard(RESIZED_SECONDS)
        small = trained.discard(SMALL_SECONDS) / SMALL_SECONDS
        printed, _ = quick.communicate()
        if quick.returncode:
            raise RuntimeError(f"benchmarks.quick_steps ended with {quick.returncode}")
        early, late = map(float, printed.split())
        if "running" not in _states(folder):
            raise RuntimeError("the run ended before it had been watched")
    least, most = min(large.resident), max(large.resident)
    return [
        alone("terminal output while training, 120×40", round(large.rate), most=1000, unit="B/s"),
        alone("terminal output while training, 80×24", round(small), most=500, unit="B/s"),
        _gained(
            f"memory gained in {wanted.minutes:g} min of training, from pause to pause",
            before,
            after,
            f", {least:.0f} to {most:.0f} between",
        ),
        _gained(f"memory gained in {wanted.minutes:g} min of showing {POINTS:,} steps and 16 stand-in cards", *_ends(shown.resident)),
        _gained(f"memory gained in {POINTS:,} steps that take next to no time", early, late),
    ]


def planned_steps(seconds: float, per_step: float) -> int:
    """How long a run must be to be watched for `seconds`, and not much longer: its curve grows over the whole width meanwhile, as a
    person's does."""
    return int(SPARE * (EPOCH_SECONDS + SETTLE_SECONDS + seconds + RESIZED_SECONDS + SMALL_SECONDS) / per_step)


def _gained(name: str, first: float, last: float, more: str = "") -> Figure:
    return alone(name, last - first, most=2, unit="MB", ours=f"{last - first:+.2f} MB (from {first:.0f} MB{more})")


def _ends(resident: list[float]) -> tuple[float, float]:
    """Medians of the first and the last third."""
    third = len(resident) // 3
    return middle(resident[:third]), middle(resident[-third:])


def _states(folder: Path) -> set[str]:
    return {json.loads(path.read_bytes())["state"] for path in folder.glob(f"*/{STATE}")}


def _watch(screen: Screen, seconds: float) -> Watch:
    process = psutil.Process(screen.child.pid)
    resident, before, begin = [], screen.received, time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        screen.discard(SAMPLE_SECONDS)
        resident.append(process.memory_info().rss / 2**20)
    return Watch(resident, (screen.received - before) / passed)


def _paused(screen: Screen, folder: Path) -> float:
    """The least MB resident in a pause of the run that the screen trains; in `folder` no other is paused.

    What steps and evaluations free and take again is given back then. While they come and go the medians of the same minute's first and
    last third were up to 9 MB apart, where nothing was gained in eight minutes.
    """
    screen.child.send(PAUSE)  # an evaluation ends first
    end = time.perf_counter() + PATIENCE_SECONDS
    while "paused" not in _states(folder):
        if time.perf_counter() > end:
            raise RuntimeError("the run has not paused")
        screen.discard(SAMPLE_SECONDS)
    least = min(_watch(screen, PAUSED_SECONDS).resident)
    screen.child.send(PAUSE)
    return least


def lengthened(folder: Path, env: dict[str, str], points: int) -> Path:
    """A run in `folder` whose store has the losses of `points` steps: one that was really trained, a little, and was then made longer."""
    output_of([TUITRAIN, "run", "random-linear", "--device", "cpu"], env)
    run = next(folder.iterdir())
    writer = MetricsWriter(run / METRICS)
    for first in range(1, points, PIECE):
        steps = range(first, min(first + PIECE, points + 1))
        losses, times = tuple(1 + (step % 97) / 97 for step in steps), tuple(1.7e9 + step / 100 for step in steps)
        writer.append([Losses(first_step=first, epoch=1, losses=losses, times=times)])
        writer.commit()
    writer.close()
    state = run / STATE
    status = json.loads(state.read_bytes()) | {"step": points, "steps_per_epoch": points, "total_steps": points}
    state.write_text(json.dumps(status))
    return run
