"""The evaluations of a run, of which there may be a hundred thousand, and the curves of what they say."""

from __future__ import annotations

import math

from tuitrain.events import Eval
from tuitrain.runs.series import Series

Point = tuple[float, float]


class EvaluationCurve:
    """One number of each evaluation over the steps, those that are finite; the least and the greatest are the first ones of equals."""

    def __init__(self) -> None:
        self.points = Series()
        self.least: Point | None = None
        self.greatest: Point | None = None

    def add(self, step: int, value: float) -> None:
        """Take in a number; a second one of a step is passed over."""
        if not math.isfinite(value) or (len(self.points) and step <= self.points[-1][0]):
            return
        self.points.append(step, value)
        if self.least is None or value < self.least[1]:
            self.least = (float(step), value)
        if self.greatest is None or value > self.greatest[1]:
            self.greatest = (float(step), value)

    def around(self, low: float, high: float, columns: int) -> list[Point]:
        """The points with x from `low` to `high`, of many the means in at most `columns` parts, and the nearest one on either side."""
        before, after = self.points.at(math.nextafter(low, -math.inf)), self.points.since(math.nextafter(high, math.inf))
        between = [(one.x, one.mean) for one in self.points.thin(low, high, columns)]
        return [point for point in (before, *between, after) if point is not None]


class Evaluations:
    """All of a run, by their steps. One thread adds while any number of threads read.

    Attributes:
        events: a list that only grows.
        losses: mean test losses.
        accuracies: in percent.
        best_accuracy: the highest, 0 to 1; `None` where there is none.
    """

    def __init__(self) -> None:
        self.events: list[Eval] = []
        self.losses, self.accuracies = EvaluationCurve(), EvaluationCurve()
        self.best_accuracy: float | None = None

    def add(self, event: Eval) -> None:
        """Take in one more."""
        self.losses.add(event.step, event.loss)
        self.accuracies.add(event.step, 100 * event.accuracy)
        if event.accuracy > (-math.inf if self.best_accuracy is None else self.best_accuracy):
            self.best_accuracy = event.accuracy
        self.events.append(event)

    def up_to(self, step: int) -> Evaluations:
        """Those up to a step: these, where there are no others, as is so for most runs that go on."""
        if not self.events or self.events[-1].step <= step:
            return self
        kept = Evaluations()
        for event in self.events:
            if event.step <= step:
                kept.add(event)
        return kept
