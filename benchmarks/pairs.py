"""Interleaved measurements: ours and the peers in turn, so that a machine whose speed drifts moves all of them."""

from __future__ import annotations

import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Wanted:
    """What the person asked for.

    Attributes:
        data: a folder with train/<class>/*.jpg and test/<class>/*.jpg.
        pairs: how often most figures are taken.
        minutes: how long the memory is watched.
        seeds: how many speed runs are made.
        steps: how long they are at most; given, they are made without a GPU too.
        within: how many seconds after each half of the speed run was begun its last seed may begin.
    """

    data: Path
    pairs: int = 3
    minutes: float = 1.0
    seeds: int = 20
    steps: int | None = None
    within: float = math.inf


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


def rounds(takers: Sequence[Callable[[], T]], count: int, warmup: int = 1, within: float = math.inf) -> list[tuple[T, ...]]:
    """One measurement by each of `takers` in turn, `count` times after `warmup` that do not count; every second time in reverse.

    After `within` seconds no further one begins, so that of a machine that is lent for minutes there is less, and not nothing; one that
    counts is always made.
    """
    kept: list[tuple[T, ...]] = []
    end = time.monotonic() + within
    for index in range(warmup + count):
        if kept and time.monotonic() > end:
            break
        order = range(len(takers)) if index % 2 == 0 else reversed(range(len(takers)))
        taken = {which: takers[which]() for which in order}
        if index >= warmup:
            kept.append(tuple(taken[which] for which in range(len(takers))))
    return kept


def told(what: str, take: Callable[[], T]) -> Callable[[], T]:
    """`take`, which says on stderr what it gave: what comes after it may be cut off."""

    def taking() -> T:
        taken = take()
        print(f"{what}: {taken}", file=sys.stderr, flush=True)
        return taken

    return taking


def measure(ours: Callable[[], float], peer: Callable[[], float], pairs: int, warmup: int = 1) -> list[tuple[float, float]]:
    """`pairs` measurements (ours, peer), as `rounds` takes them."""
    return [(first, second) for first, second in rounds((ours, peer), pairs, warmup)]


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


def speed(
    name: str, ours: Sequence[float], peer: Sequence[float], *, what: str, least: float, per_second: bool = False, note: str = ""
) -> Figure:
    """A line about how many times as fast as the peer our steps are.

    Args:
        ours, peer: seconds per step, taken in pairs.
        what: the peer, in words.
        least: how many times as fast they must be.
        per_second: speak of steps per second, and not of milliseconds per step.
    """
    words = _steps_per_second if per_second else _milliseconds_per_step
    return figure(
        name,
        [theirs / mine for mine, theirs in zip(ours, peer, strict=True)],
        ours=words(ours),
        peer=f"{words(peer)}, {what}",
        least=least,
        note=note,
    )


def own(name: str, ours: Sequence[float], peer: Sequence[float], *, most: float, unit: str, what: str, note: str = "") -> Figure:
    """A line whose target is our own median, with the ratio to the peer's values beside it.

    Args:
        ours, peer: taken in pairs.
        most: what our median must not exceed, in `unit`.
        what: the peer, in words.
    """
    ratios = [mine / other for mine, other in zip(ours, peer, strict=True)]
    low, high = interval(ratios)
    shown, spread = middle(ours), f" ({_short(min(ours))} to {_short(max(ours))})" if len(ours) > 1 else ""
    return Figure(
        name,
        f"{_short(shown)} {unit}{spread}",
        f"{_short(middle(peer))} {unit}, {what}",
        round(middle(ratios), 3),
        round(low, 3),
        round(high, 3),
        f"≤ {most:g} {unit}",
        shown <= most,
        len(ours),
        note,
    )


def alone(name: str, value: float, *, most: float, unit: str, ours: str = "") -> Figure:
    """A line without a peer: one value and what it must not exceed, in `unit`."""
    return Figure(
        name,
        ours or f"{_short(value)} {unit}",
        "-",
        round(value, 3),
        round(value, 3),
        round(value, 3),
        f"≤ {most:g} {unit}",
        value <= most,
        1,
    )


def _steps_per_second(seconds: Sequence[float]) -> str:
    return f"{middle([1 / each for each in seconds]):.1f} steps/s"


def _milliseconds_per_step(seconds: Sequence[float]) -> str:
    milliseconds = middle([1000 * each for each in seconds])
    return f"{milliseconds:.{1 if milliseconds >= 10 else 2}f} ms/step"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def middle(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def percentile(values: Sequence[float], percent: int) -> float:
    """What `percent` of the values do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
