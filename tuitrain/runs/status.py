"""`state.json`: what is known of a run at a glance."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tuitrain.events import LIVE_STATES, DataKind, EndState, RunStarted, RunState, Targets
from tuitrain.files import read_in
from tuitrain.paths import STATE
from tuitrain.runs.errors import RunError
from tuitrain.runs.label import read_label
from tuitrain.runs.process import Process, is_of_earlier_boot, is_out_of_sight, runs_here
from tuitrain.runs.utc import utc
from tuitrain.text import clean, is_plain_json

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord

HEARTBEAT_SECONDS = 60.0
"""A run out of sight whose heartbeat is older than this is lost."""


class InQueue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of a run that is queued and has not begun."""

    since: float
    """When it came (Unix seconds): the order of the queue."""
    cwd: str = ""
    """Where it was queued: what its configuration names is looked for there."""
    turn: bool = False
    """Its devices are free, and it prepares to train on them."""
    words: str = ""
    """What it waits for."""


class Ended(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run had ended that a process has taken to go on with it: what `RunStatus` said of that."""

    state: EndState
    ended: str | None = None
    error: str | None = None


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `state.json`. `loss` is the last training loss, `accuracy` the best test accuracy; both `None` when there is none."""

    run: str
    name: str
    note: str = ""
    recipe: str
    state: RunState
    device: tuple[str, ...]
    strategy: str
    data: DataKind
    step: int = 0
    epoch: int = 0
    loss: float | None = None
    accuracy: float | None = None
    attached: int = 0
    """How many screens show it while it is live."""
    started: str
    """ISO 8601, UTC."""
    ended: str | None = None
    heartbeat: float
    """Unix seconds."""
    running_seconds: float | None = None
    """How long it has been running up to the heartbeat, by clocks that nobody sets and that stand while the machine is suspended; `None` in
    files of older versions."""
    host: str
    pid: int
    """0 where a queued run has no process."""
    pid_started: float | None = None
    boot_id: str | None = None
    pid_namespace: int | None = None
    memory_kills: int | None = None
    """What `gone.memory_kills` said at the heartbeat."""
    stalled_seconds: float | None = None
    """How long no step has come where several should have; `None` as long as they come."""
    error: str | None = None
    parameters: int
    train_samples: int
    test_samples: int
    targets: Targets = "classes"
    readers: int = 0
    steps_per_epoch: int
    total_steps: int
    queue: InQueue | None = None
    """`device` is then what it waits for: names, or `auto` and how many as a configuration says it."""
    before: Ended | None = None
    """While a process prepares to go on with a run that had ended."""

    @property
    def process(self) -> Process:
        """The process that wrote this."""
        return Process(self.host, self.pid, self.pid_started, self.boot_id, self.pid_namespace)

    def as_started(self) -> RunStarted | None:
        """What the run said when it began; `None` where it never did."""
        if not self.steps_per_epoch:
            return None
        return RunStarted(
            run=self.run,
            recipe=self.recipe,
            device=self.device,
            strategy=self.strategy,
            data=self.data,
            parameters=self.parameters,
            train_samples=self.train_samples,
            test_samples=self.test_samples,
            targets=self.targets,
            readers=self.readers,
            steps_per_epoch=self.steps_per_epoch,
            total_steps=self.total_steps,
        )

    def with_record(self, record: RunRecord) -> RunStatus:
        """This status brought up to what `record` says now, with a fresh heartbeat."""
        now = time.time()
        return msgspec.structs.replace(
            self,
            state=record.state,
            step=record.step,
            epoch=record.epoch,
            loss=record.last_loss if record.last_loss is not None and math.isfinite(record.last_loss) else None,
            accuracy=record.best_accuracy,
            attached=record.attached if record.live else 0,
            ended=None if record.live else (self.ended or utc(now)),
            heartbeat=now,
            running_seconds=record.running_seconds,
            stalled_seconds=record.stalled_seconds or None,
            error=record.error,
        )


def read_status(folder: Path) -> RunStatus:
    """What the `state.json` in a run folder says, under the name and note of its label.

    The run's id is the folder's name, so that a renamed copy is a run of its own. A run that had ended, and whose process went while it
    prepared to go on, has ended as it had: it did no step more.

    Raises:
        RunError: it is missing or damaged.
    """
    try:
        content = read_in(folder, STATE)
        status = msgspec.json.decode(content, type=RunStatus)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not os.path.lexists(folder):
            raise RunError(f"{clean(folder.name)} is not there any more.") from None
        raise RunError(f"{clean(folder.name)}: {STATE} cannot be read: {error.strerror}.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RunError(f"{clean(folder.name)}: {STATE} is damaged: {clean(str(error))}.") from None
    # A list of two thousand runs has some thirty thousand texts, and hardly one of them needs it.
    if not is_plain_json(content):
        status = _cleaned(status)
    if status.before is not None and not has_process(status, time.time()):
        before = msgspec.structs.asdict(status.before)
        status = msgspec.structs.replace(status, **before, before=None)
    label = read_label(folder)
    return msgspec.structs.replace(status, run=clean(folder.name), name=label.name_or(status.name), note=label.note_or(status.note))


class _Written(msgspec.Struct, frozen=True):
    run: str


def written_as(folder: Path) -> str:
    """The id under which a process last wrote the `state.json` in a run folder: that of another run where the folder was copied or renamed
    since; empty where nobody can tell."""
    try:
        return clean(msgspec.json.decode(read_in(folder, STATE), type=_Written).run)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return ""


def _cleaned(status: RunStatus) -> RunStatus:
    """All its texts as a terminal may have them."""
    texts = {field: clean(value) for field in RunStatus.__struct_fields__ if isinstance(value := getattr(status, field), str)}
    device = tuple(map(clean, status.device))
    queue = status.queue and msgspec.structs.replace(status.queue, words=clean(status.queue.words))
    before = status.before and msgspec.structs.replace(status.before, error=status.before.error and clean(status.before.error))
    return msgspec.structs.replace(status, **{**texts, "device": device, "queue": queue, "before": before})


def is_lost(status: RunStatus, now: float) -> bool:
    """Whether a run that calls itself live has no process any more; one that has not begun loses nothing by that."""
    return status.state in LIVE_STATES and status.queue is None and not has_process(status, now)


def has_process(status: RunStatus, now: float) -> bool:
    """Whether the process that wrote a run's `state.json` seems to be still there; `now` is Unix seconds.

    Of one that is out of sight it is only known when it last said so. That is quick, and no more than a list needs: the other machine's
    clock may be another one. `claim` knows for certain.
    """
    process = status.process
    if not process.pid:
        return False
    if not is_out_of_sight(process):
        return runs_here(process)
    return not is_of_earlier_boot(process, status.heartbeat) and now - status.heartbeat <= HEARTBEAT_SECONDS
