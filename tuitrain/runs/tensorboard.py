"""The run's curves for TensorBoard, written by tensorboard's own writer."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from tuitrain.events import Eval, Event, Step

FLUSH_SECONDS = 5
_QUEUED_EVENTS = 1000


class TensorBoardWriter:
    """Writes one event file in `folder`; a run that goes on later gets a new file, because what follows a torn record is never read.

    At the steps of step events: `train_loss`, `learning_rate`, `samples_per_second`. At the index of the epoch, from 0: `test_loss` (the
    sum over test batches), `test_loss_mean`, `test_accuracy`.

    Raises:
        OSError: the file cannot be made; `write` and `close` raise it when it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        # tensorboard imports tensorflow where that is installed, for seconds and with warnings on the screen; a module of
        # this name is its own way to say no.
        sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))
        from tensorboard.compat.proto.event_pb2 import Event as Record
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._record, self._summary = Record, Summary
        self._writer = EventFileWriter(str(folder), max_queue_size=_QUEUED_EVENTS, flush_secs=FLUSH_SECONDS)

    def write(self, batch: Iterable[Event]) -> None:
        """Queue what TensorBoard shows of these events; it is on disk some seconds later."""
        for event in batch:
            match event:
                case Step():
                    values = {"train_loss": event.loss, "learning_rate": event.lr, "samples_per_second": event.samples_per_second}
                    self._add(event.step, values)
                case Eval():
                    values = {"test_loss": event.loss_sum, "test_loss_mean": event.loss, "test_accuracy": event.accuracy}
                    self._add(event.epoch - 1, values)
                case _:
                    pass

    def close(self) -> None:
        """Write what is queued, close the file and join the writer's thread."""
        self._writer.close()

    def _add(self, step: int, values: dict[str, float]) -> None:
        summary = self._summary(value=[self._summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._writer.add_event(self._record(wall_time=time.time(), step=step, summary=summary))
