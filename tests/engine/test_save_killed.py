"""Processes that are killed while they save, again and again: there is always a newest checkpoint that loads."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from tuitrain.engine import checkpoint, snapshot
from tuitrain.engine.checkpoint import Contents, Position
from tuitrain.engine.keeper import Shelf
from tuitrain.engine.resume import newest_valid
from tuitrain.engine.snapshot import Snapshot
from tuitrain.events import Checkpoint

KILLS = 40
KEEP = 3

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def at(step: int, taken: Snapshot) -> Snapshot:
    position = Position(step=step, epoch=1, batches=step, evaluated=False, best_accuracy=None)
    model = {name: torch.full_like(tensor, step) for name, tensor in taken.model.items()}
    return Snapshot(**(vars(taken) | {"position": position, "model": model}))


def newest(parent: Path) -> tuple[Contents | None, list[str]]:
    looking, told = newest_valid(parent), []
    while True:
        try:
            told.append(next(looking).text)
        except StopIteration as end:
            return end.value, told


def save_without_end(parent: Path, first: Snapshot, announce: int) -> None:
    """In a process of its own: a checkpoint after the other, each announced when it is told; every other step is saved twice."""
    shelf = Shelf(parent, KEEP)
    for step in range(first.position.step + 1, first.position.step + 10_000):
        taken = at(step, first)
        for kind in ("last", "manual") if step % 2 else ("last",):
            told = shelf.put(kind, taken.position, taken, best=step % 3 == 0)
        if all(isinstance(event, Checkpoint) for event in told):
            os.write(announce, step.to_bytes(4, "big"))
    os._exit(1)


def test_a_process_killed_at_any_moment_of_a_save_leaves_one_that_loads(tmp_path: Path) -> None:
    model = nn.Linear(200, 50)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start = Position(step=0, epoch=1, batches=0, evaluated=False, best_accuracy=None)
    latest = snapshot.take(start, model, optimizer, [torch.device("cpu")], {})
    draw = random.Random(7)
    known = within = 0
    for _ in range(KILLS):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            save_without_end(tmp_path, latest, write)
        os.close(write)
        try:
            # Wait for its first checkpoint, and then for a moment of a save.
            assert select.select([read], [], [], 20)[0]
            end = time.monotonic() + draw.uniform(0, 0.02)
            while time.monotonic() < end:
                pass
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        while piece := os.read(read, 4):
            known = int.from_bytes(piece, "big")
        os.close(read)
        within += any(path.name.startswith(".") for path in tmp_path.iterdir())
        found, told = newest(tmp_path)
        assert found is not None
        assert told == []
        step = found.position.step
        assert step >= known
        assert set(found.model["weight"].unique().tolist()) == {float(step)}
        folders = checkpoint.checkpoints(tmp_path)
        assert len(folders) >= min(step, KEEP)
        for folder in folders:
            checkpoint.verify(folder)
        assert not [path.name for path in tmp_path.iterdir() if path.name.startswith((".step", ".old", ".replaced"))]
        latest = at(step, latest)
    # Else the test would be about nothing.
    assert within > KILLS // 4
