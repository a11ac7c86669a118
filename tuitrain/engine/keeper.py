"""When a run's checkpoints are saved, and which of them are kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tuitrain.config import RunConfig
from tuitrain.engine import checkpoint, snapshot
from tuitrain.engine.averaging import Lookahead
from tuitrain.engine.checkpoint import BadCheckpoint, Position, merit
from tuitrain.engine.failures import first_line
from tuitrain.engine.snapshot import Snapshot
from tuitrain.events import Checkpoint, CheckpointKind, Notice, Progress
from tuitrain.files import write_atomically
from tuitrain.paths import BEST, by_step, saved_folders
from tuitrain.text import readable

Told = Checkpoint | Notice | Progress
_UNSAID_SECONDS = 1.0
"""For so long a disk is waited for without a word."""
FIRST_EPOCHS = 10
"""The ends of so many epochs are saved, however short they are."""
EPOCH_SECONDS = 1.0
"""After them an epoch's end is not saved so soon after another checkpoint: to write one may take as long as many epochs of small data."""
RESTS = 10
"""Nor is it, or what the clock alone asks for, until the disk has been left alone for so many times as long as the last one took to be
written: those of a large network would keep it busy for others too."""
MOST_REST_SECONDS = 1800.0
"""But no longer: where a file server did not answer for an hour, half a day would go unsaved."""
UNREAD = "unread-"
"""Before the name of a checkpoint that may be good, and that its run has gone on without."""


class Keeper:
    """Saves one run's checkpoints: copied in the training thread, written in another. A save that fails is a notice: training is worth
    more than one checkpoint.

    One is written at a time. What came of it is told by the next call of `news`, `drain` or `save`.

    Args:
        parent: the folder for checkpoints.
        config: how often to save and how many to keep.
        devices: those of the run.
        origin: what the run trains on, see `snapshot.take`.
        recorded: waits until the losses that were told are on disk. Whoever goes on from a checkpoint does not make them again.
        averaging: of the model's weights, where the run has one.
    """

    def __init__(
        self,
        parent: Path,
        config: RunConfig,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        devices: Sequence[torch.device],
        origin: Mapping[str, Any],
        recorded: Callable[[], object] = lambda: None,
        averaging: Lookahead | None = None,
    ) -> None:
        self._recorded = recorded
        self._averaging = averaging
        self._config = config
        self._model = model
        self._optimizer = optimizer
        self._devices = devices
        self._origin = origin
        self._shelf = Shelf(parent, config.keep_checkpoints)
        self._saved_at = time.monotonic()
        # The greatest merit that was asked to be saved. What is on disk by now, which may be less, only the writing thread knows.
        self._best: float | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="tuitrain-save")
        self._flight: Future[list[Told]] | None = None
        self._taken: Snapshot | None = None
        self._rests_until = 0.0

    def went_on_from(self, position: Position) -> None:
        """The run was at `position` when it was saved last, in another process, and goes on from there."""
        self._shelf.saved = position
        self._best = position.merit

    @property
    def saved_step(self) -> int:
        """The step of the newest checkpoint that is known to be on disk; 0 where there is none."""
        return self._shelf.saved.step if self._shelf.saved is not None else 0

    def due(self, step: int) -> bool:
        """Whether the configuration asks for a checkpoint after `step`. One that the clock alone asks for waits for the one before, and for
        as long after it as `RESTS` says."""
        every = self._config.checkpoint_every_steps
        if every is not None and step % every == 0:
            return True
        return self._rested(self._config.checkpoint_every_minutes * 60)

    def save(
        self, kind: CheckpointKind, position: Position, accuracy: float | None, loss: float | None = None, *, ends: bool = False
    ) -> Iterator[Told]:
        """Copy everything, and let it be written; a position that is saved already is only told again. The end of an epoch may not be worth
        it, see `EPOCH_SECONDS` and `RESTS`: of those the one with the best accuracy so far is saved, and the last one.

        Args:
            kind: why it is saved.
            position: where the run is; the best result up to there is filled in here.
            accuracy: on the test data, where it was evaluated in this process. It is compared with those of epochs that were saved alone.
            loss: on the test data, where there is no accuracy.
            ends: the run ends there.
        """
        worth = merit(accuracy, loss)
        better = worth is not None and (self._best is None or worth > self._best)
        # A loss is a little less after nearly every epoch, while an accuracy is seldom higher.
        must_be = ends or position.epoch <= FIRST_EPOCHS or (better and loss is None)
        if kind == "epoch" and not must_be and not self._rested(EPOCH_SECONDS):
            return
        if better:
            self._best = worth
        yield from self.drain()
        self._saved_at = time.monotonic()
        saved = self._shelf.saved
        highest = saved.merit if saved is not None else None
        best = worth is not None and (highest is None or worth > highest)
        if best:
            position = replace(position, best_accuracy=accuracy, best_loss=loss)
        elif saved is not None:
            position = replace(position, best_accuracy=saved.best_accuracy, best_loss=saved.best_loss)
        taken: Snapshot | None = None
        if position != self._shelf.saved:
            spent, self._taken = self._taken, None
            try:
                taken = snapshot.take(position, self._model, self._optimizer, self._devices, self._origin, self._averaging, spent)
            except Exception as error:  # a model whose state is no tensors, or no memory for the copies
                yield _not_saved(position, error, ends=ends)
                return
            self._taken = taken
        self._flight = self._writer.submit(self._put, kind, position, taken, best=best, ends=ends)

    def news(self) -> Iterator[Told]:
        """What is known by now of the checkpoint that is being written; never waits."""
        if self._flight is not None and self._flight.done():
            yield from self.drain()

    def drain(self) -> Iterator[Told]:
        """Wait until all that was saved is on disk, and tell so."""
        if self._flight is not None:
            if not wait((self._flight,), _UNSAID_SECONDS).done:
                yield Progress(phase="saving")
            told, self._flight = self._flight.result(), None
            yield from told

    def close(self) -> None:
        """Wait for the writing thread, and end it."""
        self._writer.shutdown()

    def _rested(self, seconds: float) -> bool:
        """Whether the last save was `seconds` ago, and the disk has been left alone for long enough since."""
        written = self._flight is None or self._flight.done()
        now = time.monotonic()
        return written and now - self._saved_at >= seconds and now >= self._rests_until

    def _put(self, kind: CheckpointKind, position: Position, taken: Snapshot | None, *, best: bool, ends: bool) -> list[Told]:
        if taken is None:
            return self._shelf.put(kind, position, taken, best=best, ends=ends)
        self._recorded()
        began = time.monotonic()
        told = self._shelf.put(kind, position, taken, best=best, ends=ends)
        ended = time.monotonic()
        self._rests_until = ended + min(RESTS * (ended - began), MOST_REST_SECONDS)
        return told


class Shelf:
    """The checkpoints on disk, for one thread at a time.

    Attributes:
        saved: the position of the newest one.
    """

    def __init__(self, parent: Path, keep: int) -> None:
        self.saved: Position | None = None
        self._parent = parent
        self._keep = keep
        self._verified: set[str] = set()
        self._unnoted: str | None = None

    def put(self, kind: CheckpointKind, position: Position, taken: Snapshot | None, *, best: bool, ends: bool = False) -> list[Told]:
        """Write a checkpoint and delete what is no longer kept; what there is to tell.

        Args:
            taken: `None` when it is on disk already.
            best: note it as the one with the best test result.
            ends: the run ends there.
        """
        folder = self._parent / checkpoint.folder_name(position.step)
        if taken is not None:
            try:
                self._verified.discard(folder.name)
                snapshot.write(self._parent, kind, taken)
            except Exception as error:  # a full disk, and whatever else: the run goes on
                return [_not_saved(position, error, ends=ends)]
            self.saved = position
        told: list[Told] = [Checkpoint(step=position.step, path=readable(folder), kind=kind)]
        if best:
            self._unnoted = folder.name
        told += self._note_best()
        told += self._set_newer_aside()
        with suppress(OSError):  # the next save tries again
            self._delete_old()
        return told

    def _note_best(self) -> list[Told]:
        """Note which checkpoint is the best, where that is not on disk yet."""
        if self._unnoted is None:
            return []
        folder = self._parent / self._unnoted
        step = int(folder.name.rpartition("-")[2])
        try:
            write_atomically(self._parent / BEST, f"{folder.name}\n".encode())
        except OSError as error:
            reason = error.strerror or error
            text = f"The checkpoint at step {step} is saved, and could not be noted as the best: {reason}. The next save tries again."
            return [Notice(level="warning", text=text)]
        self._unnoted = None
        return [Checkpoint(step=step, path=readable(folder), kind="best")]

    def _set_newer_aside(self) -> list[Told]:
        """Those that could not be read when the run went on, which makes their steps again: a later resume would skip them."""
        told: list[Told] = []
        for folder in saved_folders(self._parent):
            newer = self.saved is not None and by_step(folder.name) > by_step(checkpoint.folder_name(self.saved.step))
            if newer and (aside := checkpoint.set_aside(folder, UNREAD)) is not None:
                text = (
                    f"{folder.name}, which could not be read when the run went on, is set aside as {aside.name}: its steps are made again."
                )
                told.append(Notice(text=text))
        return told

    def _delete_old(self) -> None:
        """Keep the best and the newest that are as they were written; older ones go when so many of these have been read again."""
        best, good = self._parent / self._unnoted if self._unnoted else checkpoint.best(self._parent), 0
        for folder in reversed(checkpoint.checkpoints(self._parent)):
            if good < self._keep:
                good += self._is_good(folder)
            elif folder != best:
                _delete(folder)

    def _is_good(self, folder: Path) -> bool:
        if folder.name not in self._verified:
            try:
                checkpoint.verify(folder)
            except BadCheckpoint:
                return False
            self._verified.add(folder.name)
        return True


def _delete(folder: Path) -> None:
    # Renamed first: nobody may find a half-deleted checkpoint under a good name.
    doomed = folder.with_name(f".old-{folder.name}")
    with suppress(OSError):
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _not_saved(position: Position, error: Exception, *, ends: bool) -> Notice:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
    then = "" if ends else " Training goes on."
    return Notice(level="warning", text=f"The checkpoint at step {position.step} could not be saved: {reason}.{then}")
