"""Going on with a run that has ended: whether it can, and what it trains with then."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuitrain.config import FIELDS, ConfigError, RunConfig, check_field, parse_device, with_changes
from tuitrain.paths import CHECKPOINTS, saved_folders
from tuitrain.runs.errors import RunError
from tuitrain.runs.made_with import config_of
from tuitrain.runs.process import is_out_of_sight
from tuitrain.runs.status import HEARTBEAT_SECONDS, RunStatus, read_status
from tuitrain.runs.summary import RunSummary

CHANGEABLE = ("device", "strategy", "epochs", "max_steps")
"""What may be another when a run goes on; all else decided the steps that are done."""


def plan(run: RunSummary, changes: Mapping[str, str]) -> RunConfig:
    """What a run that has ended goes on with.

    Args:
        run: the run as it is now.
        changes: fields of `CHANGEABLE`, as a person types them; `epochs` and `max_steps` count from the run's first step.

    Raises:
        ConfigError: it is live, was never saved, has nothing left to do, or cannot be read; or a change is not allowed.
    """
    for field in changes:
        if sentence := kept(field):
            raise ConfigError(f"{field}: {sentence}")
    check_resumable(run)
    before = config_of(run.path)
    config = with_changes(before, _with_strategy(before, changes), from_text=True)
    _check_left_to_do(read_status(run.path), config, _newest_saved(run.path))
    if not was_saved(run):
        raise RunError(f"RUN: {run.run} was never saved, so it cannot go on; start it anew.")
    return config


def kept(field: str) -> str:
    """That a field is not changed when a run goes on, and which ones may be; empty for one of these, and for what is no field."""
    if field not in FIELDS or field in CHANGEABLE:
        return ""
    another = "U in the app's list of runs begins another run with its weights."
    return f"a run that goes on keeps its {field}; only {', '.join(CHANGEABLE)} may be changed. {another}"


def was_saved(run: RunSummary) -> bool:
    """Whether the run's folder has a checkpoint, a good one or not."""
    return bool(saved_folders(run.path / CHECKPOINTS))


def lacks_its_end(run: RunSummary) -> bool:
    """Whether a run has finished and its last step could not be saved: it goes on without a change, and makes that again."""
    return run.state == "finished" and _newest_saved(run.path) < read_status(run.path).step


def check_resumable(run: RunSummary) -> None:
    """Check that a run has ended and can be read.

    Raises:
        RunError: it has not, or cannot.
    """
    if run.broken:
        raise RunError(f"RUN: {run.broken.rstrip('.')}; it cannot go on.")
    if run.live and not may_be_gone(run):
        raise RunError(f"RUN: {run.run} is {run.state} (pid {run.pid} on {run.host}); stop it first, or attach to it.")


def may_be_gone(run: RunSummary) -> bool:
    """Whether a run that seems to live may have no process any more: its heartbeat is of the future, so the clock of its machine says
    nothing here. Whoever takes it finds out.

    Raises:
        RunError: it cannot be read.
    """
    status = read_status(run.path)
    return is_out_of_sight(status.process) and status.heartbeat - time.time() > HEARTBEAT_SECONDS


def _with_strategy(before: RunConfig, changes: Mapping[str, str]) -> dict[str, Any]:
    """The changes; on another number of devices the strategy is chosen anew, where none is given."""
    wanted: dict[str, Any] = dict(changes)
    if "device" not in changes:
        return wanted
    after = check_field("device", changes["device"], from_text=True)
    if before.output_device is not None and after != before.device:
        wanted["output_device"] = None
    if "strategy" not in changes and _count(after) != _count(before.device):
        wanted["strategy"] = "auto"
    return wanted


def _count(device: str) -> int | None:
    found = parse_device(device)
    return len(found) if isinstance(found, tuple) else found


def _newest_saved(folder: Path) -> int:
    """The step of its newest checkpoint, by its name; 0 where there is none."""
    steps = [int(name) for path in saved_folders(folder / CHECKPOINTS) if (name := path.name.removeprefix("step-")).isdecimal()]
    return max(steps, default=0)


def _check_left_to_do(status: RunStatus, config: RunConfig, saved: int) -> None:
    """Raises: RunError: the run is at its end. Where its last step could not be saved, it is made again."""
    total = min(config.epochs * status.steps_per_epoch, config.max_steps or 2**63)
    if status.step < total or (status.step == total and (status.state != "finished" or saved < total)):
        return
    field = "max_steps" if config.max_steps == total else "epochs"
    limit = f"with {field} = {getattr(config, field):,} there are no more than {total:,}"
    raise RunError(f"RUN: {status.run} has done {status.step:,} steps, and {limit}; give --{field.replace('_', '-')} a larger number.")
