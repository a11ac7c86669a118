"""A run whose steps take next to no time, recorded in this process and read as a screen reads it. Prints MB resident, early and late.

python -m benchmarks.quick_steps FOLDER STEPS
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from tuitrain.config import DEFAULTS, RunConfig
from tuitrain.engine.allocator import give_back_holes, kept_memory
from tuitrain.events import Event, Losses, RunEnded, RunStarted, State
from tuitrain.session.control import Control
from tuitrain.session.worker import WorkerSession

BLOCK = 500
AHEAD = 4 * BLOCK
"""So many steps may wait to be recorded. That is done ten times a second, which makes 20,000 steps in one: several times what the smallest
networks make on a GPU. What a second brings takes memory until it is written."""
PATIENCE = 600.0
WRITTEN_SECONDS = 3.0
"""By then what was recorded is on the disk."""
WEIGHT = 0.9
COLUMNS = 240


def main(folder: Path, steps: int) -> None:
    """Train, and print what is resident after a tenth of the steps and after all of them, each time once what is free was given back, as
    it is now and then while a network learns."""
    resident: list[float] = []

    def read(batch: Sequence[Event]) -> None:
        record = session.record
        if record is not None and batch:
            for curve in (record.loss, record.loss.smoothed(WEIGHT), record.times):
                curve.thin(1, steps, COLUMNS)

    def wait_for(step: int) -> None:
        while session.record is None or session.record.step < step:
            time.sleep(0.001)

    def look() -> None:
        time.sleep(WRITTEN_SECONDS)
        give_back_holes(0)
        resident.append(psutil.Process().memory_info().rss / 2**20)

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield RunStarted(
            recipe="custom",
            device=("cpu",),
            strategy="single",
            data="random",
            parameters=1,
            train_samples=steps,
            test_samples=0,
            steps_per_epoch=steps,
            total_steps=steps,
        )
        yield State(state="running")
        for first in range(1, steps + 1, BLOCK):
            wait_for(first - AHEAD)
            losses = tuple(random.random() for _ in range(BLOCK))
            yield Losses(first_step=first, epoch=1, losses=losses, times=(time.time(),) * BLOCK)
            made = first - 1 + BLOCK
            if made in (steps // 10, steps):
                wait_for(made)
                look()
        yield RunEnded(state="finished", step=steps)

    session = WorkerSession(lambda: train, folder, list)
    session.subscribe(read)
    with kept_memory():
        session.start(DEFAULTS)
        session.join(PATIENCE)
    print(*resident)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
