"""Reading a run's metrics, also while another process writes them: every query takes what it wants at once and lets go of the file."""

from __future__ import annotations

import math
import sqlite3
import stat
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tuitrain.events import Checkpoint, Clock, Eval, Event, GpuSample, Notice, Replicas, ReplicaStats, State, Step, StepTimes
from tuitrain.files import mode_at
from tuitrain.paths import CHECKPOINTS
from tuitrain.runs.buckets import Segment, cover, gathering
from tuitrain.runs.errors import RunError
from tuitrain.runs.pyramid import Bin, Tally
from tuitrain.runs.schema import FACTOR, LEVELS, LOSS, VERSION, Column
from tuitrain.text import clean, readable

PAGE_ROWS = 10_000
BUSY_SECONDS = 5.0

E = TypeVar("E", bound=Event)


class MetricsReader:
    """The metrics of one run, read-only. Use it as a context manager; any thread may call it.

    Args:
        path: the SQLite file of a run folder.

    Raises:
        RunError: it is missing, damaged, or of a newer tuitrain; so do all methods when they meet damage.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            if (mode := mode_at(path)) is None or not stat.S_ISREG(mode):
                raise RunError(f"{clean(path.parent.name)}: there is no {path.name}.")
            self._connection = _connect(path)
        except (sqlite3.Error, OSError) as error:
            raise self._damaged(error) from None
        self._close = weakref.finalize(self, self._connection.close)
        version = self._query("PRAGMA user_version")[0][0]
        if version != VERSION:
            self.close()
            raise RunError(f"{clean(path.parent.name)}: {path.name} has version {version}, and this tuitrain reads version {VERSION}.")
        self._tables = {name for (name,) in self._query("SELECT name FROM sqlite_master")}

    def __enter__(self) -> MetricsReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file, as the end of the reader does too."""
        self._close()

    def last_step(self) -> int:
        """The newest step with a loss; 0 without any."""
        return int(self._query("SELECT max(step) FROM losses")[0][0] or 0)

    def has_pyramid(self, column: Column) -> bool:
        """Whether `bins` can gather a column; files of older versions lack some pyramids."""
        return column.pyramid in self._tables

    def count(self, column: Column = LOSS) -> int:
        """How many steps have a number in a column, finite or not."""
        if column.table == "losses":
            # Every step has a loss, and counting a million rows takes a while.
            first, last = (self._query(f"SELECT {end}(step) FROM losses")[0][0] for end in ("min", "max"))
            return 0 if first is None else int(last - first) + 1
        if self.has_pyramid(column):
            return int(self._query(f"SELECT total(count) FROM {column.pyramid} WHERE level = {LEVELS}")[0][0])
        return int(self._query(f"SELECT count(*) FROM {column.table}")[0][0])

    def last_loss(self) -> tuple[int, int, float] | None:
        """Step, epoch and loss of the newest step."""
        rows = self._query("SELECT step, epoch, loss FROM losses ORDER BY step DESC LIMIT 1")
        return (rows[0][0], rows[0][1], _number(rows[0][2])) if rows else None

    def at(self, column: Column, step: float) -> tuple[float, float] | None:
        """The last step up to `step` that is in a column's table, and its number."""
        query = f"SELECT step, {column.name} FROM {column.table} WHERE step <= ? ORDER BY step DESC LIMIT 1"
        rows = self._query(query, (math.floor(max(min(step, _LARGEST_STEP), 0)),))
        return (rows[0][0], _number(rows[0][1])) if rows else None

    def losses(self, lo: float, hi: float, columns: int) -> list[Bin]:
        """The losses of the steps `lo` to `hi`, as `bins` gives them."""
        return self.bins(LOSS, lo, hi, columns)

    def bins(self, column: Column, lo: float, hi: float, columns: int) -> list[Bin]:
        """The numbers of the steps `lo` to `hi` in at most `columns` bins, as `Series.thin` gives them; the column has a pyramid.

        Reads at most about `64 * columns` rows, however many steps there are. A long range is gathered from the pyramid: a bucket that
        lies over the edge between two columns is counted with the one that holds its middle.
        """
        first, last = max(math.ceil(lo), 1), min(math.floor(hi), self.last_step())
        if first > last:
            return []
        if last - first < columns:
            return [Bin(step, value, value, value) for step, value in self._query(_finite(column), (first, last))]
        bins: list[Bin | None] = []
        tally, filling, begin, end = Tally(), 0, first, first
        for into, start, stop, count, total, low, high in self._gathered(column, cover(first, last, columns), lo, hi, columns):
            if into != filling:
                bins.append(tally.as_bin((begin + end) / 2))
                tally, filling, begin = Tally(), into, start
            end = stop
            tally.add(count, _number(total), low, high)
        bins.append(tally.as_bin((begin + end) / 2))
        return [found for found in bins if found is not None]

    def between(self, column: Column, first: int, last: int) -> list[tuple[int, float]]:
        """The steps `first` to `last` that are in a column's table, each with its number."""
        query = f"SELECT step, {column.name} FROM {column.table} WHERE step BETWEEN ? AND ?"
        return [(step, _number(value)) for step, value in self._query(query, (first, last))]

    def points(self, column: Column, after: float = 0) -> Iterator[tuple[list[float], list[float]]]:
        """The steps after `after` and their numbers, page by page."""
        query = f"SELECT step, {column.name} FROM {column.table} WHERE step > ? ORDER BY step LIMIT ?"
        for page in self._pages(query, math.floor(after)):
            yield [row[0] for row in page], [_number(row[1]) for row in page]

    def groups(self, column: Column, size: int, count: int) -> Iterator[Tally]:
        """What each `size` steps from the first one on add up to: `count` of them, or those before the first that has not all its numbers.

        Args:
            size: so many whole buckets of the pyramid that it is a multiple of theirs.
        """
        buckets = size // FACTOR
        query = f"""
SELECT bucket / {buckets}, sum(count), total(mean * count), min(min), max(max)
FROM {column.pyramid} WHERE level = 1 AND bucket >= ? AND bucket < ? GROUP BY 1 ORDER BY 1
"""
        place = 0
        for first in range(0, count if self.has_pyramid(column) else 0, PAGE_ROWS):
            for found, numbers, total, low, high in self._query(query, (first * buckets, min(first + PAGE_ROWS, count) * buckets)):
                if (found, numbers) != (place, size):
                    return
                tally = Tally()
                tally.add(numbers, total, low, high)
                yield tally
                place += 1

    def evals(self, since: int = 0) -> list[tuple[float, Eval]]:
        """Time and event of every evaluation, or of those since a step."""
        rows = self._query("SELECT time, step, epoch, loss, loss_sum, accuracy FROM evals WHERE step >= ? ORDER BY step", (since,))
        return [
            (time, Eval(step=step, epoch=epoch, loss=_number(loss), loss_sum=_number(loss_sum), accuracy=_number(accuracy)))
            for time, step, epoch, loss, loss_sum, accuracy in rows
        ]

    def step_events(self) -> Iterator[tuple[float, Step]]:
        """Time and event of every step event, read page by page so that the writer is never held up for long."""
        for page in self._pages(f"{_STEP_EVENTS} WHERE s.step > ? ORDER BY s.step LIMIT ?"):
            yield from map(_step, page)

    def last_step_events(self, count: int) -> list[Step]:
        """The newest `count` step events, in the order of their steps."""
        rows = self._query(f"{_STEP_EVENTS} ORDER BY s.step DESC LIMIT ?", (count,))
        return [_step(row)[1] for row in reversed(rows)]

    def last_paces(self, count: int) -> list[tuple[int, float]]:
        """Step and samples per second of the newest `count` step events, in the order of their steps."""
        rows = self._query("SELECT step, samples_per_second FROM step_events ORDER BY step DESC LIMIT ?", (count,))
        return [(step, _number(samples_per_second)) for step, samples_per_second in reversed(rows)]

    def gpu_samples(self, after: int) -> Iterator[list[tuple[int, GpuSample]]]:
        """What the run's devices did, page by page, each sample with its place; only those after the place `after`."""
        for page in self._pages(_GPU_SAMPLES, after):
            yield [(row[0], _gpu_sample(row)) for row in page]

    def checkpoints(self) -> list[tuple[float, Checkpoint]]:
        """Time and event of every checkpoint that was announced; its folder may be gone since."""
        return self._checkpoints("ORDER BY time, rowid")

    def last_checkpoint(self) -> Checkpoint | None:
        """The one that was announced last."""
        return next((checkpoint for _, checkpoint in self._checkpoints("ORDER BY rowid DESC LIMIT 1")), None)

    def notices(self) -> list[tuple[float, Notice]]:
        """Time and event of every notice."""
        rows = self._query("SELECT time, level, text FROM notices ORDER BY id")
        return [(time, Notice(level=level, text=text)) for time, level, text in rows]

    def states(self) -> list[tuple[float, State]]:
        """Time and event of every change of state, the end included."""
        return [(time, State(state=state)) for time, state in self._query("SELECT time, state FROM states ORDER BY id")]

    def replicas(self) -> Replicas | None:
        """The newest pattern of shapes."""
        return self._newest("replicas", Replicas)

    def replica_stats(self) -> ReplicaStats | None:
        """The newest statistics of the replicas."""
        return self._newest("replica_stats", ReplicaStats)

    def step_times(self) -> StepTimes | None:
        """Where the time of all measured steps went, summed up; files of older versions do not say."""
        return self._newest_where_there_is("step_times", StepTimes)

    def clock(self) -> Clock | None:
        """How long the run has trained, where it has a target accuracy."""
        return self._newest_where_there_is("clock", Clock)

    def _checkpoints(self, which: str) -> list[tuple[float, Checkpoint]]:
        folder = self._path.parent / CHECKPOINTS
        rows = self._query(f"SELECT time, step, folder, kind FROM checkpoints {which}")
        return [(time, Checkpoint(step=step, path=readable(folder / name), kind=kind)) for time, step, name, kind in rows]

    def _newest_where_there_is(self, table: str, kind: type[E]) -> E | None:
        # A run that goes on gets the table while readers have the file open.
        there = self._query("SELECT name FROM sqlite_master WHERE name = ?", (table,))
        return self._newest(table, kind, by="id") if there else None

    def _newest(self, table: str, kind: type[E], by: str = "step") -> E | None:
        rows = self._query(f"SELECT event FROM {table} ORDER BY {by} DESC LIMIT 1")
        try:
            return msgspec.json.decode(rows[0][0], type=kind) if rows else None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damaged(error) from None

    def _gathered(self, column: Column, segments: Sequence[Segment], lo: float, hi: float, columns: int) -> Iterator[tuple[Any, ...]]:
        """Bin, first and last step, count, sum, least and greatest of what the segments hold, in the order of the steps.

        The file's own library gathers them: thousands of rows, for which it lets other threads run.
        """
        for segment in segments:
            yield from self._query(gathering(column, segment), {**segment.values(), "lo": float(lo), "hi": float(hi), "columns": columns})

    def _pages(self, query: str, after: int = 0) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query with the parameters (places after this one, how many), whose first column is the place, like the step."""
        while rows := self._query(query, (after, PAGE_ROWS)):
            yield rows
            after = rows[-1][0]

    def _query(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> RunError:
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        return RunError(f"{clean(self._path.parent.name)}: {self._path.name} cannot be read: {clean(why)}.")


# What a reader needs of a step event, first of all the step; its loss and epoch are those of the step.
_STEP_EVENTS = "SELECT s.step, l.time, l.epoch, l.loss, s.lr, s.samples_per_second FROM step_events s LEFT JOIN losses l USING (step)"
_GPU_SAMPLES = """
SELECT rowid, time, device, memory_used, utilization, power, temperature FROM gpu_samples WHERE rowid > ? ORDER BY rowid LIMIT ?
"""
_LARGEST_STEP = 2**53


def _finite(column: Column) -> str:
    return f"SELECT step, {column.name} FROM {column.table} WHERE step BETWEEN ? AND ? AND {column.name} IS NOT NULL ORDER BY step"


def _number(stored: float | None) -> float:
    """NULL stands for a number that was not finite."""
    return math.nan if stored is None else stored


def _step(row: tuple[Any, ...]) -> tuple[float, Step]:
    step, time, epoch, loss, lr, samples_per_second = row
    event = Step(step=step, epoch=epoch or 0, loss=_number(loss), lr=_number(lr), samples_per_second=_number(samples_per_second))
    return time or 0.0, event


def _gpu_sample(row: tuple[Any, ...]) -> GpuSample:
    _, time, device, memory_used, utilization, power, temperature = row
    return GpuSample(
        time=time, device=clean(device), memory_used=memory_used, utilization=utilization, power=power, temperature=temperature
    )


def _connect(path: Path) -> sqlite3.Connection:
    """A read-only connection, and a file that a killed writer left in the middle of a commit put back to the commit before.

    SQLite itself undoes the unfinished commit when the file is opened, which a read-only connection cannot do.
    """
    address = f"{path.absolute().as_uri()}?mode="
    connection = sqlite3.connect(f"{address}ro", uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except sqlite3.OperationalError:
        if not path.with_name(f"{path.name}-journal").exists():
            connection.close()
            raise
        with closing(sqlite3.connect(f"{address}rw", uri=True, timeout=BUSY_SECONDS)) as mending:
            mending.execute("SELECT count(*) FROM sqlite_master").fetchall()
    return connection
