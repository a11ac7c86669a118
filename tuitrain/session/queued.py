"""The folder of a run that has not begun: made at once, the session's own from its claim to `end`, and its place in the queue."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tuitrain.config import RunConfig, parse_device
from tuitrain.events import EndState, RunStarted
from tuitrain.paths import expected_data
from tuitrain.runs import claim
from tuitrain.runs.errors import RunError
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.process import this_process
from tuitrain.runs.queue import end_of_line
from tuitrain.runs.record import RunRecord
from tuitrain.runs.silence import Wait, let_pass
from tuitrain.runs.status import InQueue, RunStatus
from tuitrain.runs.summary import RunSummary
from tuitrain.runs.utc import utc
from tuitrain.session.archive import Archive
from tuitrain.text import clean

BEAT_SECONDS = 5.0
"""How often `state.json` says that somebody waits: other hosts see nothing else, and watch for `silence.LEAST_SECONDS`."""


class QueuedRun:
    """A run in the queue, `Owned` as `tuitrain.session.owned` says. Threads may use it together.

    Args:
        path: the run folder.
        record: an empty one.
        wait: called while it is watched whether a process that is out of sight still waits for it.

    Raises:
        RunError: another process waits for it, it is not in the queue any more, or it cannot be written.
    """

    def __init__(self, path: Path, record: RunRecord, wait: Wait = let_pass) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._logged = 0
        self._beaten = time.monotonic()
        self._begun = False
        self._claim = claim.take(path, wait=wait)
        try:
            self.folder = RunFolder.open(path)
            self._wait_again()
        except BaseException:
            self._claim.release()
            raise
        record.path, record.run = path, path.name

    @classmethod
    def new(cls, runs_dir: Path, record: RunRecord) -> QueuedRun:
        """Make the folder of a new run, which is the last one in the queue.

        Raises:
            ConfigError: its data is not there, or the folder cannot be made; nothing is left of it.
        """
        config = record.config
        started = RunStarted(
            recipe=config.recipe,
            device=_devices(config),
            strategy=config.strategy,
            data=expected_data(config.data)[1],
            parameters=0,
            train_samples=0,
            test_samples=0,
            steps_per_epoch=0,
            total_steps=0,
        )
        queue = InQueue(since=end_of_line(runs_dir), cwd=os.fsencode(os.getcwd()).decode(errors="replace"))
        path = RunFolder.create(runs_dir, config, started, {}, queue=queue).path
        try:
            return cls(path, record)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def wait_for(self, words: str, device: tuple[str, ...]) -> None:
        """Say what it waits for; without a GPU on this machine `auto` is the CPU."""
        with suppress(OSError), self._lock:
            self.folder.write_state(msgspec.structs.replace(self._queued(words=words), device=device))

    def take_turn(self, devices: tuple[str, ...]) -> None:
        """Its turn has come: from now on these devices are its.

        Raises:
            OSError: nobody could be told so.
        """
        with self._lock:
            self.folder.write_state(msgspec.structs.replace(self._queued(turn=True, words=""), device=devices))

    def beat(self) -> None:
        """Say that somebody waits, and who looks at it; write down what the log says."""
        with suppress(OSError), self._lock:
            if self._begun:
                return
            self._logged = self.folder.log_since(self._record.log, self._logged)
            status = self.folder.status
            # By the clock that only grows: were the other set back, nobody elsewhere would hear for so long.
            if status.attached != self._record.attached or time.monotonic() - self._beaten >= BEAT_SECONDS:
                self.folder.write_state(self._queued())
                self._beaten = time.monotonic()

    def begin(self, config: RunConfig, started: RunStarted, environment: Mapping[str, Any]) -> Archive:
        """See `Owned`.

        Raises:
            RunError: it cannot be written.
        """
        with self._lock:
            archive = Archive(self.folder, logged=self._logged)
            try:
                self.folder.begin_again(config, started, environment)
            except OSError as error:
                raise _unwritable(self.folder.path, error) from None
            self._begun = True
        return archive

    def taken_over_by(self) -> str | None:
        """See `Claim`."""
        return self._claim.taken_over_by()

    def end(self, state: EndState | None) -> None:
        """See `Owned`. A run that has not begun stays in the queue, where nobody stopped it and it did not fail."""
        with suppress(OSError), self._lock:
            if not self._begun:
                self._logged = self.folder.log_since(self._record.log, self._logged)
                if state in ("stopped", "failed"):
                    self.folder.write_state(msgspec.structs.replace(self.folder.status.with_record(self._record), queue=None))
                else:
                    status = msgspec.structs.replace(self._queued(turn=False, words=""), device=_devices(self._record.config))
                    self.folder.write_state(_without_process(status))
        self._claim.release()

    def _wait_again(self) -> None:
        """Raises: RunError: it has begun or ended, or cannot be written."""
        status = self.folder.status
        if status.state != "queued" or status.queue is None:
            raise RunError(f"RUN: {status.run} is not in the queue any more: it is {status.state}.")
        process = msgspec.structs.asdict(this_process())
        status = msgspec.structs.replace(self._queued(turn=False, words=""), device=_devices(self._record.config), **process)
        try:
            self.folder.write_state(status)
        except OSError as error:
            raise _unwritable(self.folder.path, error) from None

    def _queued(self, **changes: Any) -> RunStatus:
        status = self.folder.status
        assert status.queue is not None
        queue = msgspec.structs.replace(status.queue, **changes)
        return msgspec.structs.replace(status, queue=queue, attached=self._record.attached, heartbeat=time.time())


def take_out(run: RunSummary, wait: Wait = let_pass) -> str:
    """Stop a queued run that nobody waits for; what became of it.

    Args:
        run: the run.
        wait: called while it is watched whether a process that is out of sight waits for it after all.

    Raises:
        RunError: somebody waits for it after all, or it cannot be written.
    """
    held = claim.take(run.path, wait=wait)
    try:
        folder = RunFolder.open(run.path)
        if folder.status.state == "queued":
            status = _without_process(folder.status)
            folder.write_state(msgspec.structs.replace(status, state="stopped", queue=None, ended=utc(time.time())))
    except OSError as error:
        raise _unwritable(run.path, error) from None
    finally:
        held.release()
    return f"{run.run} {folder.status.state} at step {folder.status.step:,}"


def _without_process(status: RunStatus) -> RunStatus:
    return msgspec.structs.replace(status, pid=0, pid_started=None, attached=0)


def _devices(config: RunConfig) -> tuple[str, ...]:
    """What a run that has not begun waits for, as `RunStatus.queue` says."""
    named = parse_device(config.device)
    return named if isinstance(named, tuple) else (config.device,)


def _unwritable(path: Path, error: OSError) -> RunError:
    return RunError(f"RUN: {clean(path.name)} cannot be written: {error.strerror or error}.")
