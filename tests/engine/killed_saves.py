"""Processes that do nothing but save, each killed at a moment of a save: what they leave, and whence the next one goes on."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from pathlib import Path

import torch
from torch import nn

from tuitrain.engine import checkpoint, snapshot
from tuitrain.engine.checkpoint import Contents, Position
from tuitrain.engine.keeper import Shelf
from tuitrain.engine.resume import newest_valid
from tuitrain.engine.snapshot import Snapshot
from tuitrain.events import Checkpoint

KEEP = 3
BOUND = 60.0


class KilledSaves:
    """A folder of checkpoints in which one process after the other is killed.

    Attributes:
        within: how often a save was under way.
    """

    def __init__(self, parent: Path) -> None:
        self.within = 0
        self._parent, self._known, self._draw = parent, 0, random.Random(7)
        model = nn.Linear(200, 50)
        start = Position(step=0, epoch=1, batches=0, evaluated=False, best_accuracy=None)
        self._latest = snapshot.take(start, model, torch.optim.SGD(model.parameters(), lr=0.1), [torch.device("cpu")], {})

    def kill_one(self) -> None:
        """Start one where the last one was killed, kill it, and look at what it has left.

        Raises:
            AssertionError: the newest checkpoint is not whole, is older than one that was announced, or more is left than checkpoints.
        """
        self._known = max(self._known, *self._announced())
        self.within += any(path.name.startswith(".") for path in self._parent.iterdir())
        found, told = _newest(self._parent)
        assert found is not None, told
        assert told == []
        step = found.position.step
        assert step >= self._known, f"step {self._known} was told and {step} is there"
        assert set(found.model["weight"].unique().tolist()) == {float(step)}
        folders = checkpoint.checkpoints(self._parent)
        assert len(folders) >= min(step, KEEP)
        for folder in folders:
            checkpoint.verify(folder)
        assert not [path.name for path in self._parent.iterdir() if path.name.startswith((".step", ".old", ".replaced", ".best"))]
        self._latest = _at(step, self._latest)

    def _announced(self) -> list[int]:
        """The steps that a process announced before it was killed."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _save_without_end(self._parent, self._latest, write)
        os.close(write)
        try:
            # Wait for its first checkpoint, and then for a moment of a save.
            assert select.select([read], [], [], BOUND)[0]
            time.sleep(self._draw.uniform(0, 0.02))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        with open(read, "rb") as file:
            said = file.read()
        return [int.from_bytes(said[place : place + 4], "big") for place in range(0, len(said), 4)]


def _at(step: int, taken: Snapshot) -> Snapshot:
    position = Position(step=step, epoch=1, batches=step, evaluated=False, best_accuracy=None)
    model = {name: torch.full_like(tensor, step) for name, tensor in taken.model.items()}
    return Snapshot(**(vars(taken) | {"position": position, "model": model}))


def _newest(parent: Path) -> tuple[Contents | None, list[str]]:
    looking, told = newest_valid(parent), []
    while True:
        try:
            told.append(next(looking).text)
        except StopIteration as end:
            return end.value, told


def _save_without_end(parent: Path, first: Snapshot, announce: int) -> None:
    """In a process of its own: a checkpoint after the other, each announced when it is told; every other step is saved twice."""
    shelf = Shelf(parent, KEEP)
    for step in range(first.position.step + 1, first.position.step + 10_000):
        taken = _at(step, first)
        for kind in ("last", "manual") if step % 2 else ("last",):
            told = shelf.put(kind, taken.position, taken, best=step % 3 == 0)
        if all(isinstance(event, Checkpoint) for event in told):
            os.write(announce, step.to_bytes(4, "big"))
    os._exit(1)
