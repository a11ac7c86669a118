"""The run's curves for TensorBoard, as tensorboard's own records."""

from __future__ import annotations

import io
import itertools
import math
import os
import socket
import sys
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from tuitrain.events import Checkpoint, Eval, Event, RunEnded, RunStarted, Step

_VERSION = "brain.Event:2"
_STEP = ("train_loss", "learning_rate", "samples_per_second")
_EVALUATION = "test_loss"
# As it is in a record: the field, its length, its text.
_MARK = b"\n" + bytes([len(_EVALUATION)]) + _EVALUATION.encode()
_PREFIX = "events.out.tfevents."


class TensorBoardWriter:
    """Writes one event file in `folder`; a run that goes on later gets a new file, because what follows a torn record is never read.

    At the steps of step events: `train_loss`, `learning_rate`, `samples_per_second`. At the index of the epoch, from 0: `test_loss` (the
    sum over test batches), `test_loss_mean`, `test_accuracy`.

    A run that goes on from a checkpoint makes the steps after it again: a mark tells TensorBoard to forget them. What is at an epoch's
    index no mark takes back, so it is written when a checkpoint holds the epoch, or the run has ended, and again only where it is another
    one: of an epoch that `max_steps` had cut and that was finished later.

    Args:
        folder: where the files are.
        earlier: the evaluations of a run that goes on; those that a killed process did not come to write are written now.

    Raises:
        OSError: the file cannot be made; `write` and `close` raise it when it cannot be written. What they were given is then written the
            next time.
    """

    _numbers = itertools.count()

    def __init__(self, folder: Path, earlier: Sequence[Eval] = ()) -> None:
        # tensorboard imports tensorflow where that is installed, for seconds and with warnings on the screen; a module of
        # this name is its own way to say no.
        sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))
        from tensorboard.compat.proto.event_pb2 import Event as Record
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        from tuitrain.runs.tfrecord import contents_with, framed

        self._record, self._summary, self._session, self._framed = Record, Summary, SessionLog, framed
        # One for all steps, of which there may be thousands a second.
        self._step = Record(summary=self._summary_of(dict.fromkeys(_STEP, 0.0)))
        self._step_values = list(self._step.summary.value)
        self._evals: list[Eval] = []
        self._earlier = list(earlier)
        before = sorted(folder.glob(f"{_PREFIX}*"))
        self._told: dict[int, list[float]] = defaultdict(list)
        """The test losses that are in a file, by their epochs."""
        for path in before:
            for content in contents_with(path, _MARK):
                told = Record.FromString(content)
                self._told[int(told.step) + 1] += [float(value.simple_value) for value in told.summary.value if value.tag == _EVALUATION]
        folder.mkdir(exist_ok=True)
        name = f"{_PREFIX}{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(self._numbers)}"
        # Without a buffer: what was written stays when the process is killed, and is known to be there when it was.
        self._file = (folder / name).open("xb", buffering=0)
        self._whole = 0
        self._waiting = io.BytesIO()
        _put_before(before, folder / name)
        self._add(Record(file_version=_VERSION))

    def write(self, batch: Iterable[Event]) -> None:
        """Write what TensorBoard shows of these events."""
        for event in batch:
            match event:
                case Step():
                    self._step.step = event.step
                    for value, number in zip(self._step_values, (event.loss, event.lr, event.samples_per_second), strict=True):
                        value.simple_value = number
                    self._add(self._step)
                case Eval():
                    self._evals.append(event)
                case Checkpoint() | RunEnded():
                    self._write_evals(event.step)
                case RunStarted(resumed_from=int(step)):
                    self._forget_after(step)
                case _:
                    pass
        self._flush()

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._write_evals(math.inf)
        try:
            self._flush()
        finally:
            self._file.close()

    def _write_evals(self, step: float) -> None:
        """Those up to `step`."""
        ready = bisect_right(self._evals, step, key=attrgetter("step"))
        for event in self._evals[:ready]:
            told = self._told[event.epoch]
            if not any(_is_as_written(loss, event.loss_sum) for loss in told):
                told.append(event.loss_sum)
                values = {_EVALUATION: event.loss_sum, "test_loss_mean": event.loss, "test_accuracy": event.accuracy}
                if math.isnan(event.accuracy):
                    del values["test_accuracy"]
                self._add(self._record(step=event.epoch - 1, summary=self._summary_of(values)))
        del self._evals[:ready]

    def _forget_after(self, step: int) -> None:
        self._evals, self._earlier = [*self._earlier, *self._evals], []
        self._write_evals(step)
        self._evals = []
        start = self._session(status=self._session.START)
        self._add(self._record(step=step + 1, session_log=start))

    def _summary_of(self, values: dict[str, float]) -> Any:
        return self._summary(value=[self._summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])

    def _add(self, record: Any) -> None:
        record.wall_time = time.time()
        self._waiting.write(self._framed(record.SerializeToString()))

    def _flush(self) -> None:
        """Append the records that wait, whole ones only: what follows a torn one is never read."""
        content = self._waiting.getvalue()
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError:
            with suppress(OSError):
                self._file.truncate(self._whole)
                self._file.seek(self._whole)
            raise
        self._whole += len(content)
        self._waiting.seek(0)
        self._waiting.truncate()


def _put_before(old: list[Path], new: Path) -> None:
    """Rename old files where they would not come first: TensorBoard reads by name, which holds the time of a clock that may be set."""
    if not old or max(old) < new:
        return
    began = int(new.name.removeprefix(_PREFIX).split(".")[0])
    for place, path in enumerate(old):
        rest = path.name.removeprefix(_PREFIX).partition(".")[2]
        path.rename(path.with_name(f"{_PREFIX}{began - len(old) + place:010d}.{rest}"))


def _is_as_written(written: float, loss: float) -> bool:
    """Whether a number in a file, which keeps 32 bits of it, is this one."""
    return math.isclose(written, loss, rel_tol=1e-6) or (math.isnan(written) and math.isnan(loss))
