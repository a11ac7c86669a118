"""A run that is kept on disk, as the record that the screens show."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from tuitrain.events import State
from tuitrain.paths import METRICS
from tuitrain.runs.gone import why_lost
from tuitrain.runs.logtail import LOG_LINES
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.record import RunRecord
from tuitrain.runs.schema import TIME
from tuitrain.runs.status import RunStatus, is_lost, read_status
from tuitrain.runs.stored import StoredRun, stored_run

# Enough for the speed of the last two seconds.
_PACE_EVENTS = 256


def load_record(path: Path, status: RunStatus | None = None) -> RunRecord:
    """The record of the run in folder `path`; of a long run not yet all that its devices did, see `StoredRun.devices`.

    Args:
        path: the folder.
        status: its state, where that was just read.

    Raises:
        RunError: its state or metrics cannot be read.
        ConfigError: its configuration cannot.
    """
    status = read_status(path) if status is None else status
    stored = stored_run(path)
    config = stored.config.get()
    record = stored.metrics.ask(lambda reader: _replay(_with_curves(RunRecord(config), stored), stored, status, reader))
    record.path = path
    record.devices = stored.devices()
    record.parameters, record.predictions = stored.parameters.get(), stored.predictions.get()
    record.log = stored.log()
    record.state = "lost" if is_lost(status, time.time()) else status.state
    record.error = status.error or (why_lost(status, path) if record.state == "lost" else None)
    record.stalled_seconds = (status.stalled_seconds or 0.0) if record.state == "running" else 0.0
    return record


def _with_curves(record: RunRecord, stored: StoredRun) -> RunRecord:
    """The record with the curves of the file, to which no event adds."""
    record.stored = stored
    record.loss, record.times = stored.loss, stored.times
    record.leave_on_disk(stored)
    return record


def take_up(record: RunRecord, path: Path) -> int:
    """Fill the empty record of a run that goes on with what its folder `path` keeps.

    Nothing has been applied to the record yet, and nothing is until this returns.

    Returns:
        How many lines were added to its log and are in the folder's already.

    Raises:
        RunError: the state or the metrics cannot be read.
    """
    # Not the shared one of those who look at the run: the record's histories grow by themselves.
    kept = StoredRun(path)
    with MetricsReader(path / METRICS) as reader:
        _replay(record, kept, read_status(path), reader)
    record.loss, record.times = kept.loss.load(), kept.times.load()
    record.leave_on_disk(kept)
    record.path, record.run = path, path.name
    record.wait_for_start()
    record.devices = kept.devices()
    while kept.behind:
        record.devices = kept.devices()
    record.parameters, record.predictions = kept.parameters.get(), kept.predictions.get()
    log = kept.log()
    for line in log.tail(LOG_LINES):
        record.log.add(line.level, line.text, line.time)
    if log.cut:
        record.log.leave_out()
    return record.log.total


def _replay(record: RunRecord, stored: StoredRun, status: RunStatus, reader: MetricsReader) -> RunRecord:
    """The record, to which everything happened that is more than a curve."""
    record.ran_before(_running_seconds(reader.states(), status))
    if (started := status.as_started()) is not None:
        record.take(started)
    for _, notice in reader.notices():
        record.take(notice)
    record.evaluations, evaluated = stored.evaluations()
    for newest in (reader.last_checkpoint(), reader.replicas(), reader.replica_stats(), reader.step_times(), reader.clock()):
        if newest is not None:
            record.take(newest)
    paces = reader.last_paces(_PACE_EVENTS)
    if paces:
        record.begin_after(paces[0][0] - 1)
    for step, samples_per_second in paces:
        record.pace(step, samples_per_second)
    for newest_step in reader.last_step_events(1):
        record.take(newest_step)
    if last := reader.last_loss():
        record.step, record.epoch, record.last_loss = last
    if record.evals and (stepped := reader.at(TIME, record.evals[-1].step)):
        # The newest evaluation took from its step to its end.
        record.eval_seconds = max(evaluated - stepped[1], 0.0)
    return record


def _running_seconds(states: Iterable[tuple[float, State]], status: RunStatus) -> float:
    """How long the run was in the state "running"; one that was cut off ran until its last heartbeat.

    Where an older version kept no more than moments of the clock on the wall, a span that is negative is one in which somebody set it back,
    and nobody knows how long it was.
    """
    if status.running_seconds is not None:
        return status.running_seconds
    seconds, since = 0.0, None
    for moment, state in [*((moment, event.state) for moment, event in states), (status.heartbeat, None)]:
        if since is not None:
            seconds += max(moment - since, 0.0)
        since = moment if state == "running" else None
    return seconds
