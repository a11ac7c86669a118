"""`state.json`: what is known of a run at a glance, and whether the process that makes it is still there."""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tuitrain.events import LIVE_STATES, DataKind, EndState, RunStarted, RunState
from tuitrain.files import read_in
from tuitrain.paths import STATE
from tuitrain.runs.errors import RunError
from tuitrain.runs.label import read_label
from tuitrain.runs.utc import utc
from tuitrain.text import clean, is_plain_json

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord

HEARTBEAT_SECONDS = 60.0
"""A run out of sight whose heartbeat is older than this is lost."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
# Elsewhere than on Linux the start time is computed from the clock, which may be set a little between two readings.
_START_TOLERANCE = 2.0


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
    """When the process started: a later process may get the same pid. Seconds after the machine did, which no clock that is set changes;
    Unix seconds where the system is not Linux."""
    boot_id: str | None = None
    pid_namespace: int | None = None
    """Within which `pid` says which process: a container that has the host's name has its own processes."""
    error: str | None = None
    parameters: int
    train_samples: int
    test_samples: int
    steps_per_epoch: int
    total_steps: int
    queue: InQueue | None = None
    """`device` is then what it waits for: names, or `auto` and how many as a configuration says it."""
    before: Ended | None = None
    """While a process prepares to go on with a run that had ended."""

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


def _cleaned(status: RunStatus) -> RunStatus:
    """All its texts as a terminal may have them."""
    texts = {field: clean(value) for field in RunStatus.__struct_fields__ if isinstance(value := getattr(status, field), str)}
    device = tuple(map(clean, status.device))
    queue = status.queue and msgspec.structs.replace(status.queue, words=clean(status.queue.words))
    before = status.before and msgspec.structs.replace(status.before, error=status.before.error and clean(status.before.error))
    return msgspec.structs.replace(status, **{**texts, "device": device, "queue": queue, "before": before})


class ThisProcess(msgspec.Struct, frozen=True):
    """What names this process among all of all machines."""

    host: str
    pid: int
    pid_started: float | None
    boot_id: str | None
    pid_namespace: int | None = None


def host_name() -> str:
    """What this machine calls itself."""
    import socket  # a list of runs that have all ended does without

    return socket.gethostname()


def this_process() -> ThisProcess:
    """Host, pid and so on of the calling process."""
    return ThisProcess(host_name(), os.getpid(), _start_time(os.getpid()), _boot_id(), _pid_namespace())


def is_lost(status: RunStatus, now: float) -> bool:
    """Whether a run that calls itself live has no process any more; one that has not begun loses nothing by that."""
    return status.state in LIVE_STATES and status.queue is None and not has_process(status, now)


def has_process(status: RunStatus, now: float) -> bool:
    """Whether the process that wrote a run's `state.json` is still there; `now` is Unix seconds."""
    if not status.pid:
        return False
    process = ThisProcess(status.host, status.pid, status.pid_started, status.boot_id, status.pid_namespace)
    return not is_gone(process, status.heartbeat, now)


def is_gone(process: ThisProcess, heard: float, now: float) -> bool:
    """Whether a process seems to be there no more; of one that is out of sight it is only known when it last said that it is there.

    That is quick, and no more than a list needs: the other machine's clock may be another one. `claim` knows for certain.

    Args:
        process: its pid may be another one's by now.
        heard: when it said so (Unix seconds).
        now: Unix seconds.
    """
    if not is_out_of_sight(process):
        return not runs_here(process)
    return is_of_earlier_boot(process, heard) or now - heard > HEARTBEAT_SECONDS


def runs_here(process: ThisProcess) -> bool:
    """Whether a process that is in sight still runs; its pid may be another one's by now."""
    start = _start_time(process.pid)
    return start is not None and (process.pid_started is None or abs(start - process.pid_started) <= _START_TOLERANCE)


def is_of_earlier_boot(process: ThisProcess, heard: float) -> bool:
    """Whether this machine has started anew since a process was heard of, or never was that process's machine: one that says something
    after that start is another one."""
    return process.host == host_name() and process.boot_id != _boot_id() and heard < _booted()


def uptime() -> float:
    """How many seconds ago this machine started."""
    return time.time() - _booted()


def is_out_of_sight(process: ThisProcess | RunStatus) -> bool:
    """Whether its pid says nothing here: it is of another host, of another boot or machine of this one's name, or of another container."""
    if process.host != host_name():
        return True
    if process.boot_id is None:
        return False
    return process.boot_id != _boot_id() or process.pid_namespace not in (None, _pid_namespace())


def _start_time(pid: int) -> float | None:
    """When process `pid` started, as `RunStatus.pid_started` says; `None` when there is none that runs."""
    if sys.platform != "linux":
        return _start_on_other_systems(pid)
    try:
        # The name in parentheses may hold anything; the state is the first field after it, the start the twentieth.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _start_on_other_systems(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except (psutil.Error, ValueError):
        return None


def _boot_id() -> str | None:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _booted() -> float:
    """When this machine started (Unix seconds); long ago where the system does not say."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else 0.0


def _pid_namespace() -> int | None:
    try:
        return _PID_NAMESPACE.stat().st_ino
    except OSError:
        return None
