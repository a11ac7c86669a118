"""What the unbroken run says, and whether another run's folder says the same."""

from __future__ import annotations

import logging
import os
from functools import cache
from pathlib import Path
from typing import Any

from host import EPOCHS, STEPS, Host, small_config
from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

from tuitrain.engine import checkpoint
from tuitrain.paths import CHECKPOINTS, METRICS, TENSORBOARD
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.schema import LOSS

# It says when it forgets steps that were made twice.
logging.getLogger("tensorboard").setLevel(logging.ERROR)


def losses(folder: Path, lost: range = range(0)) -> dict[int, float]:
    """The losses that a run keeps, by step, from step 1 on.

    Args:
        lost: steps that it need not keep.

    Raises:
        AssertionError: another step is missing.
    """
    with MetricsReader(folder / METRICS) as reader:
        pages = list(reader.points(LOSS))
    kept = [point for steps, values in pages for point in zip(steps, values, strict=True) if point[0] not in lost]
    steps = [step for step, _ in kept]
    wanted = [step for step in range(1, max(steps, default=0) + 1) if step not in lost]
    assert steps == wanted, f"not every step is kept: {len(steps)}, of which the last is {steps[-1]}"
    return dict(kept)


@cache
def whole() -> tuple[float, ...]:
    """The losses of the run that nobody disturbed."""
    host = Host(Path(os.environ["TORTURE"]) / "whole", small_config())
    assert host.wait() == "finished", host.complaint()
    assert len(host.words("step")) == STEPS
    found = tuple(losses(host.folder).values())
    assert len(found) == STEPS == len(set(found))
    return found


def check_so_far(folder: Path, lost: range = range(0)) -> int:
    """The run in `folder` keeps the first losses of the unbroken run, and checkpoints that can be read; how many losses.

    Args:
        lost: steps that it need not keep.

    Raises:
        AssertionError: it does not.
    """
    found = losses(folder, lost)
    assert found == {step: whole()[step - 1] for step in found}, "the losses are not those of the unbroken run"
    for saved in checkpoint.checkpoints(folder / CHECKPOINTS):
        checkpoint.verify(saved)
    return len(found)


def check_finished(folder: Path) -> None:
    """The run in `folder` is the unbroken run, for TensorBoard too.

    Raises:
        AssertionError: it is not.
    """
    kept = check_so_far(folder)
    assert kept == STEPS, f"{kept} losses are kept"
    newest = checkpoint.load(checkpoint.checkpoints(folder / CHECKPOINTS)[-1])
    assert newest.position.step == STEPS, f"the newest checkpoint is that of step {newest.position.step}"
    assert tensorboard_steps(folder, "test_accuracy") == list(range(EPOCHS)), "TensorBoard does not read one accuracy for each epoch"
    steps = tensorboard_steps(folder)
    assert steps == list(range(1, STEPS + 1)), f"TensorBoard reads {len(steps)} steps, of which {len(set(steps))} differ"


def tensorboard_steps(folder: Path, tag: str = "train_loss") -> list[int]:
    """The steps of a curve that TensorBoard's own loader reads."""
    loader: Any = EventAccumulator(str(folder / TENSORBOARD), size_guidance={SCALARS: 0})
    loader.Reload()
    return [point.step for point in loader.Scalars(tag)]
