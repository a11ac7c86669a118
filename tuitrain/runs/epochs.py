"""The mean training loss of an epoch, to stand beside the test loss at its end: where they part, it learns its data by heart."""

from __future__ import annotations

from tuitrain.events import RunStarted
from tuitrain.runs.series import Curve


def train_loss(losses: Curve, last: int, started: RunStarted, batch_size: int) -> float | None:
    """The mean over the samples that the epoch of step `last` had trained on by then; `None` where a loss of them is not known or finite.

    Args:
        losses: every step's, each the mean over its batch.
        last: a step of the run, from 1.
        started: how many steps an epoch has, and of how many samples.
        batch_size: of each step but the last one of an epoch, which has what is left.
    """
    steps = started.steps_per_epoch
    first = last - (last - 1) % steps
    gathered, newest = losses.thin(first, last, 1), losses.at(last)
    if newest is None or not gathered or gathered[0].count != last - first + 1:
        return None
    short = steps * batch_size - started.train_samples
    if not 0 <= short < batch_size:  # somebody has edited the configuration
        return None
    missing = short if last % steps == 0 else 0
    samples = (last - first + 1) * batch_size
    return (gathered[0].mean * samples - newest[1] * missing) / (samples - missing)
