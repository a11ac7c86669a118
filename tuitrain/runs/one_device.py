"""What a run on several devices is compared with: another run that is kept, of the same training on one such device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.paths import METRICS
from tuitrain.runs.catalogue import list_runs
from tuitrain.runs.errors import RunError
from tuitrain.runs.made_with import config_of, environment_of
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.summary import RunSummary

LEAST_STEPS = 10
"""With fewer measured steps a run is no measure."""
_SAME = ("recipe", "model", "batch_size", "batch_dim", "precision", "compile", "augment", "optimizer", "deterministic")
"""Fields that decide how long a step takes."""


class OneDevice(msgspec.Struct, frozen=True):
    """A run on one device and its speed while training."""

    run: str
    device: str
    samples_per_second: float


def find_one_device(folder: Path) -> OneDevice | None:
    """The newest run beside the one in `folder` that trained the same on one device of the same kind; `None` without any.

    It reads every run's state, so it is for a thread.
    """
    try:
        runs = list_runs(folder.parent)
        mine = next((run for run in runs if run.path == folder), None)
        if mine is None or mine.broken is not None:
            return None
        config, environment = config_of(mine.path), environment_of(mine.path)
    except (RunError, ConfigError):
        return None
    kind = _kind(mine, environment)
    if kind is None:
        return None
    for run in runs:
        if _could_be(run, mine) and (found := _measured(run, config, kind)) is not None:
            return found
    return None


def _could_be(run: RunSummary, mine: RunSummary) -> bool:
    same = (run.recipe, run.data) == (mine.recipe, mine.data)
    return same and run.path != mine.path and run.strategy == "single" and len(run.device) == 1 and run.step > LEAST_STEPS


def _measured(run: RunSummary, config: RunConfig, kind: str) -> OneDevice | None:
    """The run's speed, where it is one to compare with; a run that cannot be read is none."""
    try:
        other = config_of(run.path)
        if any(getattr(other, field) != getattr(config, field) for field in _SAME) or _kind(run, environment_of(run.path)) != kind:
            return None
        with MetricsReader(run.path / METRICS) as reader:
            times = reader.step_times()
    except (RunError, ConfigError):
        return None
    if times is None or times.steps < LEAST_STEPS or times.strategy != "single" or times.phases.seconds <= 0:
        return None
    return OneDevice(run.run, run.device[0], times.samples / times.phases.seconds)


def _kind(run: RunSummary, environment: Mapping[str, Any]) -> str | None:
    """What the run's devices are: the machine for the CPU, the card's name for a GPU; `None` where they differ, or nobody says."""
    if set(run.device) == {"cpu"}:
        return f"cpu of {run.host}"
    names = set(str(environment.get("gpu") or "").split(", "))
    return names.pop() if len(names) == 1 and "cpu" not in run.device and names != {""} else None
