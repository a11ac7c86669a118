"""What the curve can show of a run: which points, how their numbers are written, and why there are none yet."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from tuitrain import words
from tuitrain.runs.evaluations import EvaluationCurve, Point

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord
    from tuitrain.runs.series import Curve


class Metric(msgspec.Struct, frozen=True):
    """One thing to show over the steps."""

    name: str
    """In sentences and before a number."""
    title: str
    curve: Callable[[RunRecord], Curve] | None
    """What training says; `None` where only evaluations say something."""
    tests: Callable[[RunRecord], EvaluationCurve]
    """What each evaluation says."""
    number: Callable[[float | None], str]
    digits: int
    """Cells that a usual number takes."""
    best: Literal["least", "greatest"] | None = None
    """Which evaluation is the best one."""
    scales: bool = True
    """Whether a logarithmic axis makes sense."""
    smooths: bool = False
    """Whether the curve is noisy enough to be smoothed."""
    every_step: bool = False
    """Whether every step has a point, so that a missing one is a gap."""

    def best_of(self, tests: EvaluationCurve) -> Point | None:
        """The best evaluation."""
        return {None: None, "least": tests.least, "greatest": tests.greatest}[self.best]


def _nothing(record: RunRecord) -> EvaluationCurve:
    return EvaluationCurve()


def _percent(value: float | None) -> str:
    return words.NONE if value is None or math.isnan(value) else f"{value:.1f} %"


def _general(value: float | None) -> str:
    return words.NONE if value is None or math.isnan(value) else f"{value:.4g}"


LOSS = Metric(
    name="loss",
    title="Loss",
    curve=lambda record: record.loss,
    tests=lambda record: record.evaluations.losses,
    number=words.number,
    digits=6,
    best="least",
    smooths=True,
    every_step=True,
)
ACCURACY = Metric(
    name="accuracy",
    title="Accuracy",
    curve=None,
    tests=lambda record: record.evaluations.accuracies,
    number=_percent,
    digits=6,
    best="greatest",
    scales=False,
)
LEARNING_RATE = Metric(
    name="learning rate",
    title="Learning rate",
    curve=lambda record: record.learning_rate,
    tests=_nothing,
    number=_general,
    digits=7,
)
SPEED = Metric(
    name="samples/s",
    title="Samples/s",
    curve=lambda record: record.speed,
    tests=_nothing,
    number=words.rate,
    digits=7,
    smooths=True,
)
METRICS = (LOSS, ACCURACY, LEARNING_RATE, SPEED)
WEIGHTS = (0.0, 0.6, 0.9, 0.97, 0.99)
"""Of what came before, in a smoothed curve: from none to the smoothest."""


def why_empty(metric: Metric, record: RunRecord, *, ended: bool) -> str:
    """A sentence in place of a curve without any point."""
    if metric.curve is None:
        return _why_no_evaluation(metric, record, ended=ended)
    if record.step == 0:
        return f"no step was made, so there is no {metric.name}" if ended else "the curve begins with the first step"
    if metric.every_step:
        return f"there is no {metric.name} to show: none is a finite number, or none could be read"
    return f"this run kept no {metric.name}" if ended else f"the {metric.name} comes with the next step that is reported"


def _why_no_evaluation(metric: Metric, record: RunRecord, *, ended: bool) -> str:
    plan = record.plan
    if not record.has_accuracy:
        return f"the targets are numbers, so there is no {metric.name}"
    if plan is not None and not plan.test_samples:
        return f"this run has no test data, so there is no {metric.name}"
    if ended:
        return f"no evaluation was made, so there is no {metric.name}"
    if plan is None:
        return f"{metric.name} comes with the first evaluation"
    return f"{metric.name} comes with the first evaluation, after step {plan.next_evaluation(record.step):,}"
