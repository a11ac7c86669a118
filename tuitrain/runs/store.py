"""The metrics of a run on disk: one SQLite file, one writer, any number of readers.

The journal is SQLite's rollback journal: WAL does not work over network file systems, where shared machines keep their home folders.
Above what each step has lie pyramids, so that a curve of any length opens at once: at level L, bucket B holds the count, least, mean and
greatest of the finite numbers of the steps B * 64**L + 1 to (B + 1) * 64**L.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from tuitrain import events
from tuitrain.events import Event
from tuitrain.runs.errors import RunError
from tuitrain.runs.schema import (
    CLOCK,
    FACTOR,
    GATHERED,
    LEVELS,
    SCHEMA,
    STEP_TIMES,
    VERSION,
    Column,
    forget_buckets,
    gather_buckets,
    pyramid_schema,
)
from tuitrain.runs.times import sum_of
from tuitrain.text import clean_lines

# Long enough for a reader to finish, short enough that the thread that commits stays in step with the run.
BUSY_SECONDS = 0.5
# A full disk stays full; a lock goes, and then nothing of the run is lost.
LOCKED_SECONDS = 45.0
# However long a disk stays full, each try costs the same.
AT_ONCE = 2_000
# Only ends of tables are written to. SQLite's own 2 MB would fill up while the file grows.
CACHE_KIB = 256

_STEP_TABLES = ("losses", "step_events", "evals", "replicas", "replica_stats", "checkpoints")


class MetricsWriter:
    """The one writer of a run's metrics. All calls come from one thread at a time.

    Args:
        path: the SQLite file; made when missing.

    Raises:
        RunError: it cannot be opened, or a newer tuitrain made it.
    """

    def __init__(self, path: Path) -> None:
        self._buffer: list[tuple[float, Event]] = []
        # By table, the first step that was written or forgotten since the last commit.
        self._first_changed: dict[str, int] = {}
        self.error: str | None = None
        """Why the last commit wrote nothing, `None` when it wrote."""
        try:
            self._connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise _unopened(path, error) from None
        try:
            self._prepare(path)
        except sqlite3.Error as error:
            self._connection.close()
            raise _unopened(path, error) from None

    def append(self, batch: Iterable[Event]) -> None:
        """Keep events for the next commit; what is not a metric is passed over."""
        now = time.time()
        self._buffer.extend((now, event) for event in batch)

    def note_waiting(self, moment: float) -> None:
        """The run has waited since `moment` (Unix seconds) for a process to go on with it."""
        self._buffer.append((moment, events.State(state="queued")))

    def commit(self) -> bool:
        """Write what was appended: in one transaction, or in several where a disk that was full has made it long.

        Returns:
            Whether it is written. If not (`error` says why: a lock that lasts, a full disk), what is left is kept for the next commit.
        """
        while self._buffer:
            batch = self._buffer[:AT_ONCE]
            try:
                self._write_all(batch)
            except sqlite3.Error as error:
                self.error = str(error)
                return False
            del self._buffer[: len(batch)]
        self.error = None
        return True

    def close(self, timeout: float = 5.0, locked: float = LOCKED_SECONDS) -> int:
        """Commit for the last time, trying for at most about `timeout` seconds, or `locked` where others lock the file, and close it.

        Returns:
            How many events could not be written; 0 when all is well.
        """
        begun = time.monotonic()
        while not self.commit() and time.monotonic() - begun < (locked if "locked" in (self.error or "") else timeout):
            time.sleep(0.05)
        self._connection.close()
        return len(self._buffer)

    def _prepare(self, path: Path) -> None:
        execute = self._connection.execute
        execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        # A commit that is larger, as after a lock that lasted, stays in memory until its end: readers are held up only then.
        execute("PRAGMA cache_spill = OFF")
        # A file that someone switched to WAL goes back before the first write.
        execute("PRAGMA journal_mode = DELETE")
        version = execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            self._connection.close()
            raise RunError(f"{path.name}: a newer tuitrain made these metrics (version {version}, this one knows {VERSION}).")
        if version == 0:
            self._connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        else:
            self._add_tables()

    def _add_tables(self) -> None:
        """Files that were made before a table was thought of get it now."""
        tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
        for table, schema in (("step_times", STEP_TIMES), ("clock", CLOCK)):
            if table not in tables:
                self._connection.execute(schema)
        for column in GATHERED:
            if column.pyramid not in tables:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute(pyramid_schema(column))
                self._update_pyramid(column, 1)
                self._connection.execute("COMMIT")

    def _write_all(self, batch: Sequence[tuple[float, Event]]) -> None:
        """In one transaction, or not at all."""
        self._first_changed = {}
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for kind, timed in groupby(batch, lambda pair: type(pair[1])):
                if kind is events.Step:
                    # There may be thousands of them, with nothing in between.
                    self._write_steps([event for _, event in timed if isinstance(event, events.Step)])
                else:
                    for now, event in timed:
                        self._write(now, event)
            for column in GATHERED:
                if column.table in self._first_changed:
                    self._update_pyramid(column, self._first_changed[column.table])
            self._connection.execute("COMMIT")
        except BaseException:
            # Where even this fails, the next transaction does not begin either, and it is tried again after that.
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise

    def _write(self, now: float, event: Event) -> None:
        match event:
            case events.Losses():
                self._write_losses(event)
            case events.Eval():
                self._insert("evals", event.step, event.epoch, _finite(event.loss), _finite(event.loss_sum), _finite(event.accuracy), now)
            case events.Replicas():
                self._insert("replicas", event.step, msgspec.json.encode(event))
            case events.ReplicaStats():
                # Nobody reads the earlier ones.
                self._connection.execute("DELETE FROM replica_stats")
                self._insert("replica_stats", event.step, msgspec.json.encode(event))
            case events.StepTimes():
                self._add_times(event)
            case events.Clock():
                self._insert("clock", 1, event.step, msgspec.json.encode(event))
            case events.Checkpoint():
                # The folder's name only: a run that is copied elsewhere keeps its checkpoints.
                self._insert("checkpoints", event.step, event.kind, Path(event.path).name, now)
            case events.Notice():
                self._insert("notices", None, now, event.level, clean_lines(event.text))
            case events.State() | events.RunEnded():
                self._insert("states", None, now, event.state)
            case events.GpuSample():
                sample = (event.memory_used, event.utilization, event.power, event.temperature)
                self._insert("gpu_samples", event.time, event.device, *sample)
            case events.RunStarted(resumed_from=int(step)):
                self._rewind(step)
            case _:
                pass

    def _insert(self, table: str, *row: Any) -> None:
        self._connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def _add_times(self, event: events.StepTimes) -> None:
        rows = self._connection.execute("SELECT event FROM step_times").fetchall()
        before = None
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # what is damaged begins anew
            before = msgspec.json.decode(rows[0][0], type=events.StepTimes) if rows else None
        self._insert("step_times", 1, msgspec.json.encode(sum_of(before, event)))

    def _write_losses(self, event: events.Losses) -> None:
        steps = range(event.first_step, event.first_step + len(event.losses))
        timed = zip(steps, event.losses, event.times, strict=True)
        rows = [(step, event.epoch, _finite(loss), moment) for step, loss, moment in timed]
        self._connection.executemany("INSERT OR REPLACE INTO losses VALUES (?, ?, ?, ?)", rows)
        self._change_from("losses", event.first_step)

    def _write_steps(self, steps: Sequence[events.Step]) -> None:
        rows = [(step.step, _finite(step.lr), _finite(step.samples_per_second)) for step in steps]
        self._connection.executemany("INSERT OR REPLACE INTO step_events VALUES (?, ?, ?)", rows)
        self._change_from("step_events", min(step.step for step in steps))

    def _rewind(self, step: int) -> None:
        """Forget what lies after `step`: a run that goes on from a checkpoint makes those steps again."""
        self._connection.execute("DELETE FROM clock WHERE step > ?", (step,))
        for table in _STEP_TABLES:
            self._connection.execute(f"DELETE FROM {table} WHERE step > ?", (step,))
            self._change_from(table, step + 1)

    def _change_from(self, table: str, step: int) -> None:
        self._first_changed[table] = min(step, self._first_changed.get(table, step))

    def _update_pyramid(self, column: Column, first_step: int) -> None:
        """Gather again, level by level, the buckets that hold steps from `first_step` on."""
        bucket = first_step - 1
        for level in range(1, LEVELS + 1):
            bucket //= FACTOR
            values = {"level": level, "bucket": bucket}
            self._connection.execute(forget_buckets(column), values)
            self._connection.execute(gather_buckets(column, level), values)


def _unopened(path: Path, error: sqlite3.Error) -> RunError:
    return RunError(f"{path.name}: the metrics cannot be opened: {error}.")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
