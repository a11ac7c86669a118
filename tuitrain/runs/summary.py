"""A run in a line: what the list and every question about a run read, from its `state.json` alone."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec

from tuitrain.events import LIVE_STATES, RunState
from tuitrain.runs.errors import RunError
from tuitrain.runs.gone import why_lost
from tuitrain.runs.label import read_label
from tuitrain.runs.process import host_name
from tuitrain.runs.status import InQueue, RunStatus, has_process, is_lost, read_status
from tuitrain.text import clean

_ID_TIME = re.compile(r"(\d{4})(\d{2})(\d{2})-(\d{2})(\d{2})-")


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list. `run` is the folder's name, control characters replaced.

    A run whose `state.json` cannot be read has the state "lost", and `broken` says why.
    """

    path: Path
    run: str
    name: str = ""
    recipe: str = ""
    state: RunState = "lost"
    attached: int = 0
    device: tuple[str, ...] = ()
    strategy: str = ""
    data: str = ""
    step: int = 0
    epoch: int = 0
    loss: float | None = None
    accuracy: float | None = None
    started: str = ""
    running_seconds: float | None = None
    stalled_seconds: float | None = None
    host: str = ""
    pid: int | None = None
    note: str = ""
    error: str | None = None
    broken: str | None = None
    queue: InQueue | None = None

    @property
    def live(self) -> bool:
        """Whether a process trains it now, or waits for its turn."""
        return self.state in LIVE_STATES and not self.left

    @property
    def waits(self) -> bool:
        """Whether it is in the queue and its turn has not come."""
        return self.queue is not None and (self.left or not self.queue.turn)

    @property
    def left(self) -> bool:
        """Whether it is in the queue and no process waits for its turn."""
        return self.queue is not None and self.pid is None

    @property
    def here(self) -> bool:
        """Whether a process of this machine trains it, or was the last to do so."""
        return self.host == clean(host_name())

    @property
    def of_this_process(self) -> bool:
        """Whether the calling process trains it, or was the last to do so."""
        return self.here and self.pid == os.getpid()

    @property
    def state_words(self) -> str:
        """The state as it is shown: one that makes no steps is "stalled", another live run that no screen shows "detached"."""
        if self.queue is not None:
            return f"{self.state}, nobody waits" if self.left else self.state if self.waits else f"{self.state}, begins"
        if self.stalled_seconds:
            return f"{self.state}, stalled"
        return f"{self.state}, detached" if self.live and not self.attached else self.state

    def to_json(self) -> dict[str, Any]:
        """The run as `runs --json` prints it."""
        fields = [field for field in self.__struct_fields__ if field not in _INTERNAL]
        return {field: msgspec.to_builtins(getattr(self, field)) for field in fields}


_INTERNAL = ("path", "running_seconds", "stalled_seconds", "note", "error", "broken", "queue")


def summarize(folder: Path, now: float) -> RunSummary:
    """The row of the run in `folder`, whatever state its files are in; `now` is Unix seconds."""
    try:
        status = read_status(folder)
    except RunError as error:
        label = read_label(folder)
        return RunSummary(
            path=folder,
            run=clean(folder.name),
            name=label.name_or(""),
            started=started_of(folder.name),
            note=label.note_or(""),
            broken=str(error),
        )
    return row_of(folder, status, now)


def row_of(folder: Path, status: RunStatus, now: float) -> RunSummary:
    """The row of the run in `folder`, which has this status; `now` is Unix seconds."""
    state: RunState = "lost" if is_lost(status, now) else status.state
    queue = status.queue if state == "queued" else None
    return RunSummary(
        path=folder,
        run=status.run,
        name=status.name,
        recipe=status.recipe,
        state=state,
        attached=status.attached if state in LIVE_STATES else 0,
        device=status.device,
        strategy=status.strategy,
        data=status.data,
        step=status.step,
        epoch=status.epoch,
        loss=status.loss,
        accuracy=status.accuracy,
        started=status.started,
        running_seconds=status.running_seconds,
        stalled_seconds=status.stalled_seconds if state == "running" else None,
        host=status.host,
        pid=None if queue is not None and not has_process(status, now) else status.pid or None,
        note=status.note,
        error=status.error or (why_lost(status, folder) if state == "lost" else None),
        queue=queue,
    )


def started_of(run: str) -> str:
    """When a run began, from its id alone; empty when the id does not say."""
    match = _ID_TIME.match(run)
    return "{}-{}-{}T{}:{}:00.000Z".format(*match.groups()) if match else ""
