"""A run that is opened from its folder: read in a thread, and read again while another process trains it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tuitrain.config import ConfigError
from tuitrain.events import Progress
from tuitrain.files import Stamp, stamp
from tuitrain.paths import BEST, CHECKPOINTS, STATE
from tuitrain.runs.unchanged import Unchanged
from tuitrain.text import clean
from tuitrain.tui.run_view import StoredView

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord


class KeptCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint on disk: bytes of all its files, when it was written (Unix seconds), and where, seen from the run's folder."""

    step: int
    kind: str
    size: int
    written: float
    path: str


class Reading(msgspec.Struct, frozen=True):
    """What was read of the folder; `problem` is the sentence that says why not."""

    record: RunRecord | None = None
    checkpoints: tuple[KeptCheckpoint, ...] = ()
    environment: Mapping[str, Any] = {}
    problem: str | None = None
    host: str = ""
    pid: int = 0
    left: bool = False
    stamp: Stamp | None = None
    """Of the state that was read."""


class OpenedRun(StoredView):
    """The run as panes see it. `read` and `stirred` are for a thread; all else is for the event loop's.

    Args:
        path: its folder.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(None)
        self.path = path
        self._checkpoints = Unchanged(partial(_checkpoints, path), path / CHECKPOINTS, path / CHECKPOINTS / BEST)
        self.checkpoints: tuple[KeptCheckpoint, ...] = ()
        self.environment: Mapping[str, Any] = {}
        self.problem: str | None = None
        """Why the folder could not be read the last time."""
        self.host = ""
        """The machine that trains it, or trained it last."""
        self.pid = 0
        self.left = False
        """It is in the queue, and no process waits for its turn."""
        self._stamp: Stamp | None = None

    @property
    def alive(self) -> bool:
        """Whether a process trains it, or waits for its turn."""
        return super().alive and not self.left

    @property
    def here(self) -> bool:
        """Whether a process of this machine trains it, or trained it last."""
        return self.host == socket.gethostname()

    def stirred(self) -> bool:
        """Whether the run's state is another one than was read last: somebody has gone on with it, or has deleted it."""
        return stamp(self.path / STATE) != self._stamp

    def read(self) -> Reading:
        """Read the folder; takes in nothing."""
        from tuitrain.runs.saved import load_record
        from tuitrain.runs.status import read_status
        from tuitrain.runs.summary import row_of

        # Before reading: a state that is written meanwhile is read the next time.
        seen = stamp(self.path / STATE)
        try:
            status = read_status(self.path)
            record = load_record(self.path, status)
            found = row_of(self.path, status, time.time())
            if found.waits and found.queue is not None:
                record.phase = Progress(phase="nobody waits for its turn" if found.left else found.queue.words)
            assert record.stored is not None
            checkpoints, environment = self._checkpoints.get(), record.stored.environment.get()
            return Reading(record, checkpoints, environment, host=status.host, pid=status.pid, left=found.left, stamp=seen)
        except ConfigError as error:
            return Reading(problem=str(error), stamp=seen)
        except OSError as error:
            return Reading(problem=f"{clean(self.path.name)}: the folder cannot be read: {error.strerror}.", stamp=seen)

    def take(self, reading: Reading) -> None:
        """Show what was read; where nothing could be, what was there stays and `problem` says why."""
        self.problem, self._stamp = reading.problem, reading.stamp
        if reading.record is None:
            return
        self.record, self.checkpoints, self.environment = reading.record, reading.checkpoints, reading.environment
        self.host, self.pid, self.left = reading.host, reading.pid, reading.left


def _checkpoints(folder: Path) -> tuple[KeptCheckpoint, ...]:
    from tuitrain.runs.checkpoints import checkpoints

    kept = []
    for one in checkpoints(folder):
        path = Path(one["path"])
        try:
            sizes = [entry.stat().st_size for entry in os.scandir(path)]
            written = path.stat().st_mtime
        except OSError:
            continue  # removed since: the run keeps only its newest ones
        kept.append(KeptCheckpoint(one["step"], one["kind"], sum(sizes), written, f"{path.parent.name}/{path.name}"))
    return tuple(kept)
