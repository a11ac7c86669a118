"""The folder of a run: made whole or not at all, and kept up to date while the run lives, also when it goes on later."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import string
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.device_names import in_words
from tuitrain.events import END_STATES, RunStarted
from tuitrain.files import sweep, sync_folder, write_atomically
from tuitrain.paths import ANOTHER_RUNS_DIR, CHECKPOINTS, CONFIG, LOG, METRICS, STATE, TENSORBOARD
from tuitrain.recipes import TRAINED_BEFORE, load_environment, to_toml
from tuitrain.runs.gone import memory_kills
from tuitrain.runs.logtail import LogLine, LogTail
from tuitrain.runs.network import PARAMETERS, PREDICTIONS
from tuitrain.runs.process import this_process
from tuitrain.runs.status import Ended, InQueue, RunStatus, read_status
from tuitrain.runs.store import MetricsWriter
from tuitrain.runs.utc import utc
from tuitrain.text import clean

SLUG_LENGTH = 24
UNFINISHED_SECONDS = 86_400.0
"""A folder that was begun so long ago and has no name yet is one whose process was killed."""
_ATTEMPTS = 100
_NEW = ".new-"
_REPLACED = (CONFIG, STATE, PARAMETERS, PREDICTIONS)
"""Files that only the process that has the run replaces."""


def new_id(name: str, now: float) -> str:
    """A fresh id like `20261121-0413-seed-cnn-k3f`.

    Args:
        name: a recipe, or what a person calls the run.
        now: Unix seconds.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:SLUG_LENGTH].strip("-") or "run"
    # Not from `random`: a run's seed must not decide its id, nor an id the run's numbers.
    tail = "".join(secrets.choice(string.digits + string.ascii_lowercase) for _ in range(3))
    return f"{datetime.fromtimestamp(now, timezone.utc):%Y%m%d-%H%M}-{slug}-{tail}"


class RunFolder:
    """A run folder that its run may write to. `status` is what `state.json` says."""

    def __init__(self, path: Path, status: RunStatus) -> None:
        self.path = path
        self.status = status
        self._log_lock = threading.Lock()

    @property
    def id(self) -> str:
        """The run's id."""
        return self.path.name

    @classmethod
    def create(
        cls, runs_dir: Path, config: RunConfig, started: RunStarted, environment: Mapping[str, Any], *, queue: InQueue | None = None
    ) -> RunFolder:
        """Make the folder of a new run of this process.

        Args:
            runs_dir: where the runs are; made when missing, for the owner alone.
            config: the resolved configuration.
            started: what the engine said of the run; of a queued one, what is known of it already.
            environment: what else decides the run's numbers, for the table `environment` of run.toml.
            queue: its place in the queue, of a run that has not begun.

        Raises:
            ConfigError: it cannot be written; nothing is left behind.
        """
        now = time.time()
        try:
            runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(runs_dir, now)
            for _ in range(_ATTEMPTS):
                run = new_id(config.name or "custom" if config.recipe == "custom" else config.recipe, now)
                status = msgspec.structs.replace(_first_status(run, config, started, now), queue=queue)
                if _make(runs_dir, status, to_toml(config, environment)):
                    return cls(runs_dir / run, status)
        except OSError as error:
            reason = "it is no folder" if isinstance(error, FileExistsError) else clean(error.strerror or str(error))
            raise ConfigError(f"the runs folder {clean(str(runs_dir))} cannot be written: {reason}; {ANOTHER_RUNS_DIR}.") from None
        raise ConfigError(f"the runs folder {clean(str(runs_dir))} has no free name for this run; {ANOTHER_RUNS_DIR}.")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of a run that was made before, for the process that has its claim.

        Raises:
            RunError: its state cannot be read.
        """
        sweep(path, _REPLACED)
        return cls(path, read_status(path))

    def take_over(self, ran: float) -> None:
        """`state.json` says that this process prepares to go on with the run, which has been running for `ran` seconds.

        Raises:
            OSError: it cannot be written.
        """
        process = msgspec.structs.asdict(this_process())
        was = self.status
        before = Ended(state=was.state, ended=was.ended, error=was.error) if was.state in END_STATES else was.before
        status = msgspec.structs.replace(was, state="queued", attached=0, ended=None, error=None, before=before, **process)
        self.write_state(msgspec.structs.replace(status, heartbeat=time.time(), running_seconds=ran))

    def begin_again(self, config: RunConfig, started: RunStarted, environment: Mapping[str, Any]) -> None:
        """The run goes on with another configuration; it keeps its id and the time of its first start. A queued one starts here.

        Raises:
            OSError: it cannot be written; both files are as they were.
        """
        status, before = _first_status(self.id, config, started, time.time()), self.status
        if before.queue is None:
            ran = before.running_seconds
            status = msgspec.structs.replace(status, started=before.started, step=before.step, epoch=before.epoch, running_seconds=ran)
        file = self.path / CONFIG
        made_with = file.read_bytes()
        write_atomically(file, to_toml(config, {**environment, **self._trained_before(config, started)}).encode())
        try:
            self.write_state(status)
        except OSError:
            with suppress(OSError):
                write_atomically(file, made_with)
            raise

    def _trained_before(self, config: RunConfig, started: RunStarted) -> dict[str, str]:
        """With what the run has trained until it goes on with something else, for the table `environment` of run.toml."""
        try:
            earlier = load_environment(self.path / CONFIG).get(TRAINED_BEFORE)
        except ConfigError:
            return {}
        before, changed = self.status, []
        if (before.device, before.strategy) != (started.device, started.strategy):
            changed.append(f"{before.strategy} on {in_words(before.device)}")
        if config.looks_ahead and before.total_steps != started.total_steps:
            changed.append(f"{before.total_steps:,} planned steps")
        spans = [str(earlier)] if earlier else []
        if started.resumed_from and changed:
            spans.append(f"{' and '.join(changed)} up to step {started.resumed_from:,}")
        return {TRAINED_BEFORE: "; ".join(spans)} if spans else {}

    def write_state(self, status: RunStatus) -> None:
        """Replace `state.json`.

        Raises:
            OSError: it cannot be written; the old one is as it was.
        """
        status = msgspec.structs.replace(status, memory_kills=memory_kills())
        write_atomically(self.path / STATE, msgspec.json.encode(status))
        self.status = status

    def log_since(self, log: LogTail, seen: int) -> int:
        """Add to `log.txt` what came to `log` after its first `seen` lines; how many it has had by now.

        Raises:
            OSError: it cannot be written.
        """
        lines, total = log.since(seen)
        self.log(lines)
        return total

    def log(self, lines: Iterable[LogLine]) -> None:
        """Add lines to `log.txt`, each with its time (UTC) and level; any thread may call this.

        Raises:
            OSError: they cannot be written.
        """
        text = "".join(f"{utc(line.time)} {line.level} {clean(line.text)}\n" for line in lines)
        if text:
            with self._log_lock, (self.path / LOG).open("a", encoding="utf-8") as file:
                file.write(text)


def _first_status(run: str, config: RunConfig, started: RunStarted, now: float) -> RunStatus:
    return RunStatus(
        run=run,
        name=config.name,
        note=config.note,
        recipe=started.recipe,
        state="queued",
        device=started.device,
        strategy=started.strategy,
        data=started.data,
        started=utc(now),
        heartbeat=now,
        **msgspec.structs.asdict(this_process()),
        parameters=started.parameters,
        train_samples=started.train_samples,
        test_samples=started.test_samples,
        targets=started.targets,
        readers=started.readers,
        steps_per_epoch=started.steps_per_epoch,
        total_steps=started.total_steps,
    )


def _sweep(runs_dir: Path, now: float) -> None:
    """Remove what processes that were killed have left of folders that they made."""
    with suppress(OSError):
        for name in os.listdir(runs_dir):
            left = runs_dir / name
            if name.startswith(_NEW) and now - left.lstat().st_mtime > UNFINISHED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _make(runs_dir: Path, status: RunStatus, run_toml: str) -> bool:
    """Make the folder beside its name and rename it, so that no list ever shows half of one; `False` when the name is taken."""
    final, beside = runs_dir / status.run, runs_dir / f"{_NEW}{status.run}"
    try:
        beside.mkdir(mode=0o700)
    except FileExistsError:
        return False
    try:
        (beside / CHECKPOINTS).mkdir()
        (beside / TENSORBOARD).mkdir()
        (beside / LOG).touch()
        write_atomically(beside / CONFIG, run_toml.encode())
        write_atomically(beside / STATE, msgspec.json.encode(status))
        MetricsWriter(beside / METRICS).close()
        if final.exists():
            return False
        os.rename(beside, final)
        sync_folder(runs_dir)
        return True
    finally:
        shutil.rmtree(beside, ignore_errors=True)
