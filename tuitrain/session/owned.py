"""The folder of the run that a session hosts: a new one, or that of a run that goes on. It is the session's own from its claim to `end`."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tuitrain.config import RunConfig
from tuitrain.events import LIVE_STATES, EndState, Notice, RunStarted
from tuitrain.paths import CONFIG, METRICS, STATE
from tuitrain.runs import claim
from tuitrain.runs.claim import Claim
from tuitrain.runs.errors import RunError
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.mending import sound_metrics
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import take_up
from tuitrain.runs.series import Curve
from tuitrain.runs.silence import Wait, let_pass
from tuitrain.session.archive import Archive
from tuitrain.text import clean


class Owned(Protocol):
    """What the session knows of either kind."""

    @property
    def folder(self) -> RunFolder:
        """The run's folder; of a new run once it has begun."""
        ...

    def begin(self, config: RunConfig, started: RunStarted, environment: Mapping[str, Any]) -> Archive:
        """The run trains from now on, with `config`; the archive for what it says."""
        ...

    def taken_over_by(self) -> str | None:
        """See `Claim`."""
        ...

    def end(self, state: EndState | None) -> None:
        """All is written: others may have the folder. `state` is how the run ended, where it said so."""
        ...


class NewRun:
    """A run whose folder is made when it begins.

    Args:
        runs_dir: where.
    """

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._folder: RunFolder | None = None
        self._claim: Claim | None = None

    @property
    def folder(self) -> RunFolder:
        """See `Owned`."""
        assert self._folder is not None
        return self._folder

    def begin(self, config: RunConfig, started: RunStarted, environment: Mapping[str, Any]) -> Archive:
        """See `Owned`.

        Raises:
            ConfigError: the folder cannot be made; nothing is left of it.
        """
        folder = RunFolder.create(self._runs_dir, config, started, environment)
        try:
            self._claim = claim.take(folder.path)
            archive = Archive(folder)
        except RunError:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        self._folder = folder
        return archive

    def taken_over_by(self) -> str | None:
        """See `Claim`."""
        return None if self._claim is None else self._claim.taken_over_by()

    def end(self, state: EndState | None) -> None:
        """See `Owned`."""
        if self._claim is not None:
            self._claim.release()


class TakenRun:
    """A run that goes on. Its `state.json` says at once that this process has it.

    Args:
        path: the run folder.
        record: an empty one; it is filled with all that the folder keeps of the run.
        heir_of: the process on this host that hands the run over.
        wait: called while it is watched whether a process that is out of sight still has it.

    Attributes:
        notices: what was mended.

    Raises:
        RunError: another process has it, or it cannot be read or written; all is as it was.
    """

    def __init__(self, path: Path, record: RunRecord, heir_of: int | None = None, wait: Wait = let_pass) -> None:
        self._claim = claim.take(path, heir_of=heir_of, wait=wait)
        self._lock = threading.Lock()
        self._begun = False
        try:
            self.folder = RunFolder.open(path)
            self._before = self.folder.status
            problem = sound_metrics(path / METRICS)
            self.notices = [Notice(level="warning", text=f"The run's {problem}")] if problem else []
            self._logged = take_up(record, path)
            self._evals, self._losses, self._ran = tuple(record.evals), record.loss, record.running_seconds
            self.folder.take_over(self._ran)
        except OSError as error:
            self._claim.release()
            raise _unwritable(path, STATE, error) from None
        except BaseException:
            self._claim.release()
            raise

    def beat(self) -> None:
        """Say that this process is still there, while it prepares."""
        with suppress(OSError), self._lock:
            if not self._begun:
                self.folder.take_over(self._ran)

    def begin(self, config: RunConfig, started: RunStarted, environment: Mapping[str, Any]) -> Archive:
        """See `Owned`.

        Raises:
            RunError: it cannot be written.
        """
        waited_since = self._before.heartbeat if self._before.state in LIVE_STATES else None
        # Where the curves had to begin anew, that is said already.
        gap = [] if self.notices else _gap(self._losses, started.resumed_from or 0)
        archive = Archive(self.folder, logged=self._logged, waited_since=waited_since, evals=self._evals, gap=gap)
        # The recorder's thread beats until it has begun.
        with self._lock:
            try:
                self.folder.begin_again(config, started, environment)
            except OSError as error:
                raise _unwritable(self.folder.path, f"{CONFIG} or {STATE}", error) from None
            self._begun = True
        return archive

    def taken_over_by(self) -> str | None:
        """See `Claim`."""
        return self._claim.taken_over_by()

    def end(self, state: EndState | None) -> None:
        """See `Owned`. Where the run did not come to begin, its `state.json` is as before."""
        if not self._begun:
            status = self._before
            if state in ("stopped", "interrupted") and status.state in LIVE_STATES:
                # It was handed over, and then nobody wanted it to go on.
                status = msgspec.structs.replace(status, state=state)
            with suppress(OSError):
                self.folder.write_state(status)
        self._claim.release()


def _gap(losses: Curve, step: int) -> list[Notice]:
    """Names the steps before a checkpoint at `step` whose losses are not kept, as after a disk that was full to the end."""
    newest = losses.at(step)
    first = 1 if newest is None else int(newest[0]) + 1
    if first > step:
        return []
    what, again = (
        (f"losses of the steps {first:,} to {step:,} were", "they are") if first < step else (f"loss of step {step:,} was", "it is")
    )
    text = f"The {what} never written, and {again} not made again: the run goes on from its checkpoint at step {step:,}."
    return [Notice(level="warning", text=text)]


def _unwritable(path: Path, name: str, error: OSError) -> RunError:
    return RunError(f"RUN: {clean(path.name)} cannot go on: {name} cannot be written: {error.strerror or error}.")
