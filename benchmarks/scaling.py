"""How the cost of a frame or a step grows: with points, runs, cards, viewers, replicas, and the cells of the terminal.

Each line has the small end as its peer. What must not grow may cost `SAME` times as much, for the noise; what may grow at most linearly may
cost as many times as much as there is more of it.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial

from benchmarks.drawing import Drawn
from benchmarks.frames import Metered, press_in_turn, spent
from benchmarks.memory import lengthened
from benchmarks.monitor import BUSY, stand_in
from benchmarks.pairs import Figure, Wanted, figure, middle, rounds
from benchmarks.programs import Training, runs_dir, side_by_side
from benchmarks.speed import SMALL
from benchmarks.start import keep_runs
from benchmarks.turns import in_turns, tuitrain
from benchmarks.viewers import batches_to
from tuitrain.tui.curve.chart import load

SAME = 1.25
POINTS = (1_000, 1_000_000)
RUNS = (10, 2_000)
CARDS = (1, 16)
VIEWERS = (1, 8)
REPLICAS = (1, 8)
SIZES = ((80, 24), (300, 100))
DRAWN = 60
KEYS = 30
SAMPLES = 10
SHOWN_POINTS = 100_000
REPLICA_TURN_SECONDS = 1.5
DOWN, UP = "\x1b[B", "\x1b[A"


def scaling(wanted: Wanted) -> list[Figure]:
    """Every axis."""
    return [points(), runs(), terminal(), cards(), viewers(), replicas(wanted)]


def grown(name: str, small: Sequence[float], large: Sequence[float], *, unit: str, most: float, ends: tuple[str, str]) -> Figure:
    """A line about what the large end costs beside the small one.

    Args:
        small, large: taken in pairs, in `unit`.
        most: how many times as much the large one may cost.
        ends: what the small and the large one are, in words.
    """
    return figure(
        name,
        [b / a for a, b in zip(small, large, strict=True)],
        ours=f"{middle(large):.3g} {unit} with {ends[1]}",
        peer=f"{middle(small):.3g} {unit} with {ends[0]}",
        most=most,
    )


def points() -> Figure:
    """The curve after some new points."""
    load()
    drawn = [Drawn(count) for count in POINTS]
    gc.collect()
    small, large = zip(*rounds([each.after_new_points for each in drawn], DRAWN), strict=True)
    ends = (f"{POINTS[0]:,} points", f"{POINTS[1]:,}")
    return grown("a curve's redraw", _in_ms(small), _in_ms(large), unit="ms", most=SAME, ends=ends)


def runs() -> Figure:
    """The list of runs after a key that moves to another one."""
    with ExitStack() as stack:

        def opened(count: int) -> Metered:
            folder, env = stack.enter_context(runs_dir())
            keep_runs(folder, env, count)
            return stack.enter_context(closing(Metered([], env, lambda text: f"Runs {count:,} " in text, opening="r")))

        apps = [opened(count) for count in RUNS]
        press_in_turn(apps, (DOWN, DOWN, UP), KEYS)
        small, large = (spent(app.leave()) for app in apps)
    ends = (f"{RUNS[0]} runs", f"{RUNS[1]:,}")
    return grown("a key in the list of runs, event loop", small, large, unit="ms", most=SAME, ends=ends)


def terminal() -> Figure:
    """The training screen after a key that draws its curve anew."""
    with ExitStack() as stack:
        folder, env = stack.enter_context(runs_dir())
        run = lengthened(folder, env, SHOWN_POINTS)

        def opened(columns: int, rows: int) -> Metered:
            app = Metered(["attach", run.name], env, lambda text: f"{SHOWN_POINTS:,}" in text, columns=columns, rows=rows)
            return stack.enter_context(closing(app))

        apps = [opened(*size) for size in SIZES]
        press_in_turn(apps, "l", KEYS)
        small, large = (spent(app.leave()) for app in apps)
    cells = [columns * rows for columns, rows in SIZES]
    ends = tuple(f"{columns}×{rows}" for columns, rows in SIZES)
    return grown(
        "the training screen's redraw, event loop", small, large, unit="ms", most=round(cells[1] / cells[0], 1), ends=(ends[0], ends[1])
    )


def cards() -> Figure:
    """A second of the GPU screen, all values changing: sampling, drawing and all."""
    with ExitStack() as stack:
        _, env = stack.enter_context(runs_dir())
        apps: list[Metered] = []
        for count in CARDS:
            nvml = stack.enter_context(stand_in(BUSY.replace("count 3", f"count {count}")))
            apps.append(stack.enter_context(closing(Metered([], {**env, **nvml}, lambda text: "History" in text, opening="g"))))
        side_by_side([partial(app.watch, 1.0, SAMPLES) for app in apps])
        small, large = (spent(app.leave(), process=True) for app in apps)
    ends = (f"{CARDS[0]} card", str(CARDS[1]))
    return grown("the GPU screen, processor", small, large, unit="ms/s", most=CARDS[1] / CARDS[0], ends=ends)


def viewers() -> Figure:
    """A batch of events told to everybody who watches a run."""
    small, large = zip(*rounds([partial(batches_to, count) for count in VIEWERS], 3, warmup=0), strict=True)
    ends = (f"{VIEWERS[0]} viewer", str(VIEWERS[1]))
    return grown("a batch of events for the viewers", _in_ms(small), _in_ms(large), unit="ms", most=VIEWERS[1] / VIEWERS[0], ends=ends)


def replicas(wanted: Wanted) -> Figure:
    """A training step of one batch, cut into parts."""

    def training(count: int) -> Training:
        return Training(SMALL, options=("--strategy", "split"), device=",".join(["cpu"] * count))

    taken = in_turns([tuitrain(training(count)) for count in REPLICAS], wanted.pairs + 1, REPLICA_TURN_SECONDS)
    small, large = zip(*([turn.step for turn in turns] for turns in taken), strict=True)
    ends = (f"{REPLICAS[0]} replica", str(REPLICAS[1]))
    return grown("a step of split, CPU", _in_ms(small), _in_ms(large), unit="ms", most=REPLICAS[1] / REPLICAS[0], ends=ends)


def _in_ms(seconds: Sequence[float]) -> list[float]:
    return [1000 * each for each in seconds]
