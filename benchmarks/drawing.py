"""What a curve costs the event loop each time it is drawn at 120×40, however many points it has."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from benchmarks.pairs import Figure, Wanted, own
from tuitrain.events import Eval, Losses, RunStarted
from tuitrain.recipes import load_recipe
from tuitrain.runs.record import RunRecord
from tuitrain.tui.curve.chart import load
from tuitrain.tui.curve.later import Later
from tuitrain.tui.curve.metrics import LOSS
from tuitrain.tui.curve.plot import Plot, Wish
from tuitrain.tui.look import DARK, palette_of

T = TypeVar("T")

POINTS = (1_000, 100_000, 1_000_000)
EVALUATIONS = 100_000
COLUMNS, ROWS = 71, 27
"""What the frame leaves of the curve's pane at 120×40 with one replica."""
DRAWN = 60
NEW_POINTS = 120
"""So many steps come in the two seconds after which a curve is drawn again at the latest."""


class _AtOnce(Later):
    """Computes in the call what the app computes in a thread: only the first picture needs it, which does not count."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Hashable, Hashable, Any]] = {}
        self.arrivals = 0

    def get(self, name: str, identity: Hashable, version: Hashable, work: Callable[[], T], *, at_once: bool) -> T | None:
        held = self._kept.get(name)
        if held is None or held[:2] != (identity, version):
            self._kept[name] = held = (identity, version, work())
        value: T = held[2]
        return value

    def trouble(self, name: str) -> str | None:
        return None


class Drawn:
    """The curve of a run of `points` steps, which goes on; it was evaluated so many times, evenly, and is so further on."""

    def __init__(self, points: int, evaluations: int = 0) -> None:
        config = load_recipe("seed-cnn")
        self._each = points // evaluations if evaluations else math.inf
        self._random = random.Random(0)
        self._record = RunRecord(config)
        started = RunStarted(
            recipe=config.recipe,
            device=("cpu",),
            strategy="single",
            data="cifar10",
            parameters=145_578,
            train_samples=64 * 782,
            test_samples=10_000,
            steps_per_epoch=782,
            total_steps=points * 5 // 4,
        )
        self._record.apply(started)
        self._plot, self._palette = Plot(_AtOnce()), palette_of(DARK)
        self._wish = Wish(
            metric=LOSS, log=False, weight=0.9, span=None, epochs=False, width=COLUMNS, height=ROWS, braille=True, theme=DARK.name
        )
        self._grow(points)
        self._few = min(NEW_POINTS, max(points // COLUMNS // 2, 1))
        self.picture()

    def _grow(self, count: int) -> None:
        first = self._record.step + 1
        values = [0.5 + 1.8 * math.exp(-step / (self._record.started.total_steps / 4)) for step in range(first, first + count)]  # type: ignore[union-attr]
        noisy = tuple(value + self._random.gauss(0, 0.1) for value in values)
        self._record.apply(Losses(first_step=first, epoch=1, losses=noisy, times=tuple(float(first + index) for index in range(count))))
        for step in range(first, first + count):
            if step % self._each == 0:
                loss = noisy[step - first]
                self._record.apply(Eval(step=step, epoch=int(step / self._each), loss=loss, loss_sum=loss, accuracy=0.5))

    def picture(self) -> float:
        """Seconds for the picture of what there is now."""
        begin = time.perf_counter()
        self._plot.picture(self._record, self._wish, self._palette, ended=False)
        return time.perf_counter() - begin

    def after_new_points(self) -> float:
        """Seconds for the picture after some steps more."""
        self._grow(self._few)
        return self.picture()

    def whole(self) -> float:
        """Seconds for the whole picture, as after a key that changes the axes or the smoothing."""
        self._plot._look = None
        return self.picture()

    def plotext(self) -> float:
        """Seconds that plotext takes for the thinned line alone."""
        import plotext

        drawing = self._plot._drawing
        assert drawing is not None
        points = drawing.lines[0].points
        begin = time.perf_counter()
        plotext.clear_figure()
        plotext.plotsize(COLUMNS, ROWS)
        plotext.plot([step for step, _ in points], [value for _, value in points], marker="braille")
        plotext.build()
        return time.perf_counter() - begin


def chart(wanted: Wanted) -> list[Figure]:
    """The curve after some new points, at a thousand to a million, with many evaluations, and the whole of the largest, beside plotext
    drawing the line alone."""
    load()
    lines = []
    runs = [(f"{points:,} points", Drawn(points)) for points in POINTS]
    for what, drawn in [(f"{EVALUATIONS:,} evaluations", Drawn(POINTS[-1], EVALUATIONS)), *runs]:
        gc.collect()
        takers = [drawn.after_new_points, drawn.plotext]
        taken = [[1000 * take() for take in takers] for _ in range(DRAWN)]
        lines.append(_line(f"curve after new points, {what} (120×40)", taken))
    taken = [[1000 * drawn.whole(), 1000 * drawn.plotext()] for _ in range(DRAWN)]
    return [*lines, _line(f"whole curve, {POINTS[-1]:,} points (120×40)", taken)]


def _line(name: str, taken: list[list[float]]) -> Figure:
    return own(name, [ours for ours, _ in taken], [peer for _, peer in taken], most=5, unit="ms", what="plotext, the thinned line alone")
