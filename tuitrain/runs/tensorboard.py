"""The run's curves for TensorBoard, as tensorboard's own records."""

from __future__ import annotations

import io
import itertools
import math
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from tuitrain.events import Checkpoint, Eval, Event, RunEnded, RunStarted, Step

_VERSION = "brain.Event:2"
_EVALUATION = "test_loss"
# A record: its length in 8 bytes, a checksum of that in 4, its content, a checksum of that in 4.
_HEADER, _FOOTER = 12, 4
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
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._record, self._summary, self._session = Record, Summary, SessionLog
        self._evals: list[Eval] = []
        self._earlier = list(earlier)
        before = sorted(folder.glob(f"{_PREFIX}*"))
        self._told = [told for path in before for told in self._evaluations_in(path)]
        """The evaluations that are in a file: epoch and test loss."""
        folder.mkdir(exist_ok=True)
        name = f"{_PREFIX}{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(self._numbers)}"
        # Without a buffer: what was written stays when the process is killed, and is known to be there when it was.
        self._file = (folder / name).open("xb", buffering=0)
        self._whole = 0
        self._waiting = io.BytesIO()
        self._records = RecordWriter(self._waiting)
        _put_before(before, folder / name)
        self._add_record(file_version=_VERSION)

    def write(self, batch: Iterable[Event]) -> None:
        """Write what TensorBoard shows of these events."""
        for event in batch:
            match event:
                case Step():
                    values = {"train_loss": event.loss, "learning_rate": event.lr, "samples_per_second": event.samples_per_second}
                    self._add(event.step, values)
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
        while self._evals and self._evals[0].step <= step:
            event = self._evals.pop(0)
            if any(epoch == event.epoch and _is_as_written(loss, event.loss_sum) for epoch, loss in self._told):
                continue
            self._told.append((event.epoch, event.loss_sum))
            values = {_EVALUATION: event.loss_sum, "test_loss_mean": event.loss, "test_accuracy": event.accuracy}
            self._add(event.epoch - 1, values)

    def _forget_after(self, step: int) -> None:
        self._evals, self._earlier = [*self._earlier, *self._evals], []
        self._write_evals(step)
        self._evals = []
        start = self._session(status=self._session.START)
        self._add_record(step=step + 1, session_log=start)

    def _evaluations_in(self, path: Path) -> Iterator[tuple[int, float]]:
        """The epochs whose evaluation an older file holds, with their test losses, as far as it can be read."""
        size = path.stat().st_size
        with path.open("rb") as file:
            while len(header := file.read(_HEADER)) == _HEADER:
                record = file.read(min(int.from_bytes(header[:8], "little"), size))
                if len(file.read(_FOOTER)) == _FOOTER and _EVALUATION.encode() in record:
                    with suppress(Exception):  # google.protobuf.message.DecodeError: it is damaged
                        event = self._record.FromString(record)
                        for value in event.summary.value:
                            if value.tag == _EVALUATION:
                                yield int(event.step) + 1, float(value.simple_value)

    def _add(self, step: int, values: dict[str, float]) -> None:
        summary = self._summary(value=[self._summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._add_record(step=step, summary=summary)

    def _add_record(self, **content: Any) -> None:
        self._records.write(self._record(wall_time=time.time(), **content).SerializeToString())

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
