"""The curves of a run on disk, read when they are asked for and shared by all who look at the run.

A record of a live run is read anew every second; what is in memory of its curves and devices stays, and only what is new is read.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from tuitrain.events import GpuSample
from tuitrain.paths import CONFIG, LOG, METRICS
from tuitrain.runs.errors import RunError
from tuitrain.runs.evaluations import Evaluations
from tuitrain.runs.history import DeviceHistory
from tuitrain.runs.label import LABEL
from tuitrain.runs.logfile import LogFile
from tuitrain.runs.logtail import LogTail
from tuitrain.runs.made_with import config_of, environment_of
from tuitrain.runs.network import PARAMETERS, PREDICTIONS, read_parameters, read_predictions
from tuitrain.runs.pyramid import Bin
from tuitrain.runs.reader import PAGE_ROWS, MetricsReader
from tuitrain.runs.schema import LEARNING_RATE, LOSS, SPEED, TIME, Column
from tuitrain.runs.series import Curve, Series
from tuitrain.runs.unchanged import Unchanged
from tuitrain.text import clean

T = TypeVar("T")


class Metrics:
    """A metrics file that stays open between two questions, without a lock on it. Any thread may ask.

    Args:
        path: the SQLite file of a run folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._reader: MetricsReader | None = None

    def ask(self, question: Callable[[MetricsReader], T]) -> T:
        """The answer of the file as it is now.

        Raises:
            RunError: the file is missing, damaged, or of a newer tuitrain.
        """
        reader = self._open()
        try:
            return question(reader)
        except RunError:
            # A writer that was killed leaves something to mend, which opening the file does.
            with self._lock:
                self._reader = None if self._reader is reader else self._reader
            return question(self._open())

    def _open(self) -> MetricsReader:
        with self._lock:
            if self._reader is None:
                self._reader = MetricsReader(self._path)
            return self._reader


class StoredCurve:
    """One column of a run's metrics over the steps. What cannot be read is left out: a screen that draws it must not fail.

    Args:
        metrics: the file.
        column: which number of each step.
    """

    def __init__(self, metrics: Metrics, column: Column) -> None:
        self._metrics = metrics
        self._column = column
        self._lock = threading.Lock()
        self._points = Series()

    @property
    def in_memory(self) -> bool:
        """Whether it answers without waiting for a disk."""
        return False

    def __len__(self) -> int:
        return self._ask(lambda reader: reader.count(self._column), 0)

    def thin(self, lo: float, hi: float, columns: int) -> list[Bin]:
        """At most `columns` bins of the steps `lo` to `hi`.

        Its cost does not grow with the length of the run, but for runs of older versions: these are read through once.
        """
        if self._ask(lambda reader: reader.has_pyramid(self._column), True):
            return self._ask(lambda reader: reader.bins(self._column, lo, hi, columns), [])
        return self._series().thin(lo, hi, columns)

    def at(self, x: float) -> tuple[float, float] | None:
        """The last step up to `x` and its number."""
        return self._ask(lambda reader: reader.at(self._column, x), None)

    def smoothed(self, weight: float) -> Curve:
        """The moving average. The first call reads every point, about a second for a million; later ones what is new."""
        return self._series(weight).smoothed(weight)

    def load(self) -> Series:
        """All steps up to now in a series of its own, to which others may be added. The older ones, which may be many millions, are not
        read for it where the pyramid has all of them.

        Raises:
            RunError: they cannot be read.
        """
        return self._metrics.ask(lambda reader: self._follow(reader, self._older(reader)))

    def numbers(self, first: int, last: int) -> list[float]:
        """Those of the steps `first` up to, not including, `last`; NaN where there is none."""
        found: dict[int, float] = self._ask(lambda reader: dict(reader.between(self._column, first, last - 1)), {})
        return [found.get(step, math.nan) for step in range(first, last)]

    def _series(self, weight: float = 0.0) -> Series:
        with self._lock:
            if not self._still_holds():
                self._points = Series()
            return self._ask(lambda reader: self._follow(reader, self._points, weight), self._points)

    def _older(self, reader: MetricsReader) -> Series:
        """What a series would have let go of."""
        return Series.on_disk(1, reader.last_step(), partial(reader.groups, self._column), self.numbers)

    def _follow(self, reader: MetricsReader, points: Series, weight: float = 0.0) -> Series:
        """Add the steps that are new, averaged at once where that is wanted: what is let go of would be read again for it."""
        for steps, values in reader.points(self._column, points[-1][0] if len(points) else 0):
            points.extend(steps, values)
            points.smoothed(weight)
            points.let_go(self.numbers)
        return points

    def _still_holds(self) -> bool:
        """Whether the newest point in memory is one of the file: a run that goes on from a checkpoint makes its later steps again."""
        if not len(self._points):
            return True
        x, y = self._points[-1]
        found = self.at(x)
        return found is not None and found[0] == x and (found[1] == y or (math.isnan(found[1]) and math.isnan(y)))

    def _ask(self, question: Callable[[MetricsReader], T], otherwise: T) -> T:
        try:
            return self._metrics.ask(question)
        except RunError:
            return otherwise


class StoredRun:
    """What all records of one run on disk share.

    Args:
        folder: the run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.metrics = Metrics(folder / METRICS)
        self.loss, self.times = StoredCurve(self.metrics, LOSS), StoredCurve(self.metrics, TIME)
        self.learning_rate, self.speed = StoredCurve(self.metrics, LEARNING_RATE), StoredCurve(self.metrics, SPEED)
        self.config = Unchanged(partial(config_of, folder), folder / CONFIG, folder / LABEL)
        self.environment = Unchanged(partial(environment_of, folder), folder / CONFIG)
        self.parameters = Unchanged(partial(read_parameters, folder), folder / PARAMETERS)
        self.predictions = Unchanged(partial(read_predictions, folder), folder / PREDICTIONS)
        self._log = LogFile(folder / LOG)
        self._evaluations = Evaluations()
        self._evaluated = 0.0
        """When the newest of them was made."""
        self.behind = False
        """Whether there are more samples of the devices than `devices` has read."""
        self._devices: dict[str, DeviceHistory] = {}
        self._samples = 0
        self._lock = threading.Lock()

    def log(self) -> LogTail:
        """The newest lines of the log up to now."""
        with self._lock:
            return self._log.follow()

    def evaluations(self) -> tuple[Evaluations, float]:
        """All evaluations up to now, and when the newest one was made; only those are read that are new.

        Raises:
            RunError: the metrics cannot be read.
        """
        with self._lock:
            self.metrics.ask(self._follow_evaluations)
            return self._evaluations, self._evaluated

    def _follow_evaluations(self, reader: MetricsReader) -> None:
        newest = self._evaluations.events[-1:]
        found = reader.evals(newest[0].step) if newest else reader.evals()
        if newest and (not found or found[0][0] != self._evaluated):
            # The run went on from a checkpoint, and made it again or will.
            self._evaluations, newest, found = Evaluations(), [], reader.evals()
        for time, event in found[len(newest) :]:
            self._evaluations.add(event)
            self._evaluated = time

    def devices(self) -> dict[str, DeviceHistory]:
        """What each device did up to now; of a long run, the first hours more with each call, as long as `behind` says so.

        A day with eight cards is some 700,000 samples, and a run that is opened shows its curve before all of them are read.

        Raises:
            RunError: the metrics cannot be read.
        """
        with self._lock:
            self.metrics.ask(self._follow_devices)
            return dict(self._devices)

    def _follow_devices(self, reader: MetricsReader) -> None:
        page = next(reader.gpu_samples(self._samples), [])
        self.behind = len(page) == PAGE_ROWS
        if page:
            by_device: dict[str, list[GpuSample]] = {}
            for _, sample in page:
                by_device.setdefault(sample.device, []).append(sample)
            for device, samples in by_device.items():
                self._devices.setdefault(device, DeviceHistory()).extend(samples)
            self._samples = page[-1][0]


_shared: weakref.WeakValueDictionary[tuple[str, int, int], StoredRun] = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def stored_run(folder: Path) -> StoredRun:
    """The run in `folder`, the same one as long as anybody holds it and its metrics are the same file.

    Raises:
        RunError: there are no metrics.
    """
    try:
        status = (folder / METRICS).stat()
    except OSError as error:
        raise RunError(f"{clean(folder.name)}: {METRICS} cannot be read: {error.strerror}.") from None
    key = (os.path.abspath(folder), status.st_dev, status.st_ino)
    with _shared_lock:
        run = _shared.get(key)
        if run is None:
            run = _shared[key] = StoredRun(folder)
        return run
