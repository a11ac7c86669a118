"""What going on with a run would mean: which configuration, how much more of a finished one, or why not. All of it waits for the disk."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tuitrain.config import RunConfig
from tuitrain.tui.hosts.outside import Outside

if TYPE_CHECKING:
    from tuitrain.runs.summary import RunSummary


class More(msgspec.Struct, frozen=True):
    """A finished run: how much it was to do, in the unit that ended it, and what one may add to that."""

    run: str
    unit: Literal["epochs", "steps"]
    done: int
    proposed: int
    steps_per_epoch: int
    epochs: int
    """Of its configuration."""

    def changes(self, count: int) -> dict[str, str]:
        """What changes in the configuration for `count` more."""
        total = self.done + count
        if self.unit == "epochs":
            return {"epochs": str(total)}
        return {"max_steps": str(total), "epochs": str(max(self.epochs, math.ceil(total / self.steps_per_epoch)))}


class GoesOn(msgspec.Struct, frozen=True):
    """It was paused and has been told to go on where it is, or is queued and waits again; the sentence that says so."""

    sentence: str


class Plan(msgspec.Struct, frozen=True):
    """An ended run, and what it would go on with."""

    run: str
    config: RunConfig


def look(path: Path, outside: Outside, changes: Mapping[str, str] | None = None) -> More | GoesOn | Plan:
    """What going on with the run in folder `path` means; a paused live one is told to go on at once, a queued one to wait again.

    Args:
        changes: fields of the configuration that the person has given; without them a finished run that has nothing left to do asks for
            some.

    Raises:
        ConfigError: it cannot go on; the sentence says why.
    """
    from tuitrain.runs.errors import RunError
    from tuitrain.runs.summary import summarize
    from tuitrain.session.resume import lacks_its_end, may_be_gone

    run = summarize(path, time.time())
    if run.broken is not None:
        raise RunError(run.broken)
    if run.live and not may_be_gone(run):
        return _live(run, outside)
    if run.left:
        return GoesOn(outside.wait_again(run))
    if run.state == "finished" and not changes and not lacks_its_end(run):
        return _more(run)
    return Plan(run.run, outside.plan(run, changes or {}))


def _live(run: RunSummary, outside: Outside) -> GoesOn:
    from tuitrain.runs.errors import RunError

    if not run.here:
        raise RunError(f"{run.run} is {run.state} on {run.host}, and only there it can be told anything.")
    if run.state != "paused":
        # One that prepares to go on is "queued" too, and in no queue.
        state = "about to go on" if run.state == "queued" and run.queue is None else run.state
        raise RunError(f"{run.run} is {state} already (pid {run.pid}): Enter in the list of runs opens it.")
    outside.ask(run.path, "resume")
    return GoesOn(f"{run.run} goes on.")


def _more(run: RunSummary) -> More:
    from tuitrain.runs.made_with import config_of
    from tuitrain.runs.status import read_status

    config, status = config_of(run.path), read_status(run.path)
    epoch = max(status.steps_per_epoch, 1)
    if config.max_steps is not None and config.max_steps <= config.epochs * epoch:
        return More(run.run, "steps", config.max_steps, config.max_steps, epoch, config.epochs)
    return More(run.run, "epochs", config.epochs, config.epochs, epoch, config.epochs)
