"""Where the steps of a run stand on an axis that counts steps, epochs or seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tuitrain.tui.curve.straight import between

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord

Across = Literal["step", "epoch", "time"]
ACROSS: tuple[Across, ...] = ("step", "epoch", "time")

_TIME_MARKS = 512


class Ruler:
    """Where the steps of one run stand on the axis, and back: straight lines between known marks.

    Args:
        marks: (step, x), both ascending; at least one.
    """

    def __init__(self, marks: Sequence[tuple[float, float]]) -> None:
        self._steps = [step for step, _ in marks]
        self._xs = [x for _, x in marks]

    def place(self, step: float) -> float:
        """The x of a step."""
        return between(self._steps, self._xs, step)

    def step(self, x: float) -> float:
        """The step at x."""
        return between(self._xs, self._steps, x)


def ruler(record: RunRecord, across: Across) -> Ruler | None:
    """How the run's steps stand on the axis: as they are, in epochs, or in seconds since its first step; `None` where nobody knows."""
    if across == "step":
        return Ruler([(0, 0), (1, 1)])
    if across == "epoch":
        return None if record.plan is None else Ruler([(0, 0), (max(record.plan.steps_per_epoch, 1), 1)])
    bins = record.times.thin(0, max(record.step, 1), _TIME_MARKS)
    if not bins:
        return None
    marks = [(one.x, one.mean) for one in bins]
    # A bin stands for the middle of many steps; the run's first and last step have their own times.
    first, last = record.times.thin(0, bins[0].x, _TIME_MARKS)[:1], record.times.at(record.step)
    marks = [*((one.x, one.min) for one in first if one.x < bins[0].x), *marks]
    if last is not None and last[0] > bins[-1].x:
        marks.append(last)
    start, newest = marks[0][1], 0.0
    seconds = []
    for step, moment in marks:
        # A clock that was set back must not turn the curve round.
        newest = max(newest, moment - start)
        seconds.append((step, newest))
    return Ruler(seconds)
