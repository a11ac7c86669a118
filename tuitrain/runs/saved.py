"""A run that is kept on disk, as the record that the screens show."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from tuitrain.config import load_recipe
from tuitrain.events import State
from tuitrain.runs.folder import CONFIG, LOG, METRICS
from tuitrain.runs.logtail import LOG_LEVELS, LOG_LINES, LogTail
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.record import RunRecord
from tuitrain.runs.series import Bin, Curve
from tuitrain.runs.status import RunStatus, from_utc, is_lost, read_status

_LOG_BYTES = 512 * 1024


class StoredCurve:
    """The losses of a run on disk as a curve. Each call opens the file anew, so nothing stays open and the newest points are seen."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __len__(self) -> int:
        with MetricsReader(self._path) as reader:
            return reader.count()

    def thin(self, lo: float, hi: float, columns: int) -> list[Bin]:
        """At most `columns` bins of the steps `lo` to `hi`, whose cost does not grow with the length of the run."""
        with MetricsReader(self._path) as reader:
            return reader.losses(lo, hi, columns)

    def at(self, x: float) -> tuple[float, float] | None:
        """The last step up to `x` and its loss."""
        with MetricsReader(self._path) as reader:
            return reader.loss_at(x)

    def smoothed(self, weight: float) -> Curve:
        """The moving average in memory: it needs every point, about a second for a million."""
        with MetricsReader(self._path) as reader:
            return reader.series().smoothed(weight)


def load_record(path: Path) -> RunRecord:
    """The record of the run in folder `path`.

    Raises:
        RunError: its state or metrics cannot be read.
        ConfigError: its configuration cannot.
    """
    status = read_status(path)
    with MetricsReader(path / METRICS) as reader:
        record = RunRecord(load_recipe(str(path / CONFIG)), ran_seconds=_running_seconds(reader.states(), status))
        _replay(record, status, reader)
    record.path = path
    record.loss = StoredCurve(path / METRICS)
    record.log = _read_log(path / LOG)
    record.state = "lost" if is_lost(status, time.time()) else status.state
    record.error = status.error
    return record


def _replay(record: RunRecord, status: RunStatus, reader: MetricsReader) -> None:
    record.apply(status.as_started())
    for timed in (reader.notices(), reader.checkpoints(), reader.evals()):
        for _, event in timed:
            record.apply(event)
    for newest in (reader.replicas(), reader.replica_stats(), reader.last_step_event()):
        if newest is not None:
            record.apply(newest)
    if last := reader.last_loss():
        record.step, record.epoch, record.last_loss = last


def _running_seconds(states: Iterable[tuple[float, State]], status: RunStatus) -> float:
    """How long the run was in the state "running"; one that was cut off ran until its last heartbeat."""
    seconds, since = 0.0, None
    for moment, event in states:
        if since is not None:
            seconds += moment - since
        since = moment if event.state == "running" else None
    return seconds + (max(status.heartbeat - since, 0.0) if since is not None else 0.0)


def _read_log(path: Path) -> LogTail:
    """The newest lines of a `log.txt`; without one, none."""
    log = LogTail()
    try:
        with path.open("rb") as file:
            file.seek(max(os.path.getsize(path) - _LOG_BYTES, 0))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return log
    for line in lines[-LOG_LINES:]:
        words = line.split(" ", 2)
        moment = from_utc(words[0])
        if len(words) == 3 and words[1] in LOG_LEVELS and moment is not None:
            log.add(words[1], words[2], moment)
    return log
