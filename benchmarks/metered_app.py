"""`tuitrain` that says what it costs: python -m benchmarks.metered_app FILE ARGUMENT...

At each SIGUSR2 the event loop adds a line to FILE: the processor seconds that its thread and the whole process have used, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.inside_app import run_with


@contextmanager
def meter(file: Path) -> Iterator[None]:
    """On an event loop: what writes to `file`."""

    def note() -> None:
        used = (time.thread_time(), time.process_time())
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"{json.dumps(used)}\n")

    # Not from a signal handler of Python's own: that runs in the main thread too, but in the middle of whatever it does.
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, note)
    yield


if __name__ == "__main__":
    run_with(partial(meter, Path(sys.argv.pop(1))))
