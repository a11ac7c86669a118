"""The clock of a run that has an accuracy to reach, by the rules of speed runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuitrain.engine.checkpoint import Position
from tuitrain.events import Clock, Event, Notice
from tuitrain.words import target as in_percent


class TargetClock:
    """Counts what `events.Clock` says that counts.

    Args:
        target: a test accuracy, 0 to 1.
        seconds: what has been counted so far.

    Attributes:
        seconds: what has been counted so far, without an evaluation.
        crossed_epoch: in which epoch an evaluation reached the target first; `None` before.
        crossed_seconds: how long training had taken then.
    """

    def __init__(self, target: float, seconds: float) -> None:
        self.seconds = seconds
        self.crossed_epoch: int | None = None
        self.crossed_seconds: float | None = None
        self._target = target
        self._evaluation = 0.0

    def add_step(self, seconds: float) -> None:
        """A step took so long."""
        self.seconds += seconds

    def add_evaluation(self, step: int, epoch: int, accuracy: float, *, counted: float) -> Iterator[Event]:
        """An evaluation after `step` gave `accuracy`; `counted` is how long it took where it is the run's last, and else 0."""
        self._evaluation = counted
        if self.crossed_epoch is None and accuracy >= self._target:
            self.crossed_epoch, self.crossed_seconds = epoch, self.seconds + counted
            text = f"The test accuracy crossed {in_percent(self._target)} at epoch {epoch}, after {self.crossed_seconds:.2f} s of training."
            yield Notice(text=text)
        yield self.event(step)

    def event(self, step: int) -> Clock:
        """What has been counted up to `step`."""
        seconds = self.seconds + self._evaluation
        return Clock(
            step=step, seconds=seconds, target=self._target, crossed_epoch=self.crossed_epoch, crossed_seconds=self.crossed_seconds
        )

    def noted(self, position: Position) -> Position:
        """`position` with what has been counted up to there."""
        return replace(position, seconds=self.seconds, crossed_epoch=self.crossed_epoch, crossed_seconds=self.crossed_seconds)

    def go_on_from(self, position: Position) -> None:
        """The run goes on from here."""
        self.seconds = position.seconds
        self.crossed_epoch, self.crossed_seconds = position.crossed_epoch, position.crossed_seconds
