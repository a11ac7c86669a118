"""Interleaved pairs: ours and the peer in turn, so that a machine whose speed drifts moves both."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the table. `ratio` is the median over the pairs; `low` and `high` are its 95 % bootstrap interval."""

    name: str
    ours: str
    peer: str
    ratio: float
    low: float
    high: float
    target: str
    holds: bool
    pairs: int
    note: str = ""


def measure(ours: Callable[[], float], peer: Callable[[], float], pairs: int, warmup: int = 1) -> list[tuple[float, float]]:
    """`pairs` measurements (ours, peer), taken in turn after `warmup` pairs that do not count; which of the two goes first alternates."""
    taken = []
    for index in range(warmup + pairs):
        if index % 2:
            second = peer()
            first = ours()
        else:
            first = ours()
            second = peer()
        if index >= warmup:
            taken.append((first, second))
    return taken


def interval(ratios: list[float], resamples: int = 2000) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median of `ratios`."""
    generator = random.Random(0)
    medians = sorted(statistics.median(generator.choices(ratios, k=len(ratios))) for _ in range(resamples))
    return medians[int(0.025 * resamples)], medians[int(0.975 * resamples)]


def figure(
    name: str, ratios: list[float], *, ours: str, peer: str, least: float | None = None, most: float | None = None, note: str = ""
) -> Figure:
    """A line whose median ratio must be at least `least` or at most `most`."""
    ratio = statistics.median(ratios)
    low, high = interval(ratios)
    holds = (least is None or ratio >= least) and (most is None or ratio <= most)
    target = f"≥ {least:g}" if least is not None else f"≤ {most:g}"
    return Figure(name, ours, peer, round(ratio, 3), round(low, 3), round(high, 3), target, holds, len(ratios), note)


def middle(values: list[float]) -> float:
    """The median."""
    return statistics.median(values)
