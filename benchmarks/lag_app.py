"""`tuitrain` with a clock in its event loop: python -m benchmarks.lag_app FILE ARGUMENT...

A task sleeps for 10 ms, over and over; when the app ends, FILE gets [moment, seconds too late] for each of these sleeps as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.inside_app import run_with

SLEEP = 0.01


async def tick(lags: list[tuple[float, float]]) -> None:
    """Note how much later than asked each sleep ends."""
    while True:
        begin = time.perf_counter()
        await asyncio.sleep(SLEEP)
        now = time.perf_counter()
        lags.append((now, now - begin - SLEEP))


@contextmanager
def clock(file: Path) -> Iterator[None]:
    """On an event loop: the clock, and at the end what it noted in `file`."""
    lags: list[tuple[float, float]] = []
    ticking = asyncio.get_running_loop().create_task(tick(lags))
    try:
        yield
    finally:
        ticking.cancel()
        file.write_text(json.dumps(lags))


if __name__ == "__main__":
    run_with(partial(clock, Path(sys.argv.pop(1))))
