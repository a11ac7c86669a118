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

from benchmarks.pairs import middle
from tuitrain.config import DEFAULTS, RunConfig
from tuitrain.events import Event, Losses, RunEnded, RunStarted, State
from tuitrain.session.control import Control
from tuitrain.session.worker import WorkerSession

BLOCK = 500
AHEAD = 20 * BLOCK
"""So many steps may wait to be recorded: what waits takes memory, too."""
PATIENCE = 600.0
WEIGHT = 0.9
COLUMNS = 240


def main(folder: Path, steps: int) -> None:
    """Train, and print the medians of the first and the last third, a tenth of the steps at the beginning left out."""
    resident: list[float] = []
    process = psutil.Process()

    def read(batch: Sequence[Event]) -> None:
        record = session.record
        if record is not None and batch:
            for curve in (record.loss, record.loss.smoothed(WEIGHT), record.times):
                curve.thin(1, steps, COLUMNS)
            if record.step > steps / 10:
                resident.append(process.memory_info().rss / 2**20)

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
            while session.record is not None and first - session.record.step > AHEAD:
                time.sleep(0.001)
            losses = tuple(random.random() for _ in range(BLOCK))
            yield Losses(first_step=first, epoch=1, losses=losses, times=(time.time(),) * BLOCK)
        yield RunEnded(state="finished", step=steps)

    session = WorkerSession(lambda: train, folder, list)
    session.subscribe(read)
    session.start(DEFAULTS)
    session.join(PATIENCE)
    third = len(resident) // 3
    print(middle(resident[:third]), middle(resident[-third:]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
