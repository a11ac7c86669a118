"""Where the time of a run's steps went, summed up over the run."""

from __future__ import annotations

from tuitrain.events import StepTimes


def sum_of(before: StepTimes | None, more: StepTimes) -> StepTimes:
    """Both together. A run that goes on with other devices or another strategy begins anew: their times cannot be added.

    Steps that a run makes twice, because it went on from a checkpoint, count twice: their time was spent.
    """
    if before is None or (before.strategy, before.devices) != (more.strategy, more.devices) or len(before.replicas) != len(more.replicas):
        return more
    return StepTimes(
        strategy=more.strategy,
        devices=more.devices,
        steps=before.steps + more.steps,
        samples=before.samples + more.samples,
        phases=before.phases + more.phases,
        replicas=tuple(one + other for one, other in zip(before.replicas, more.replicas, strict=True)),
    )
