"""The screens of the GPUs as pictures, over the stand-in for NVML that the tests use: a machine with eight cards, none of them real.

`make.py` starts it with the stand-in's environment. The history shows the minute before each picture.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from screenshots.make import SIZES, Camera
from tuitrain.cli.wiring import session_and_sampler
from tuitrain.recipes import load_recipe
from tuitrain.tui.app import TuitrainApp

HISTORY_SECONDS = 62.0


@contextmanager
def processes(folder: Path) -> Iterator[tuple[int, int]]:
    """Two processes of this machine, that only wait, for the table to list."""
    for name in ("train.py", "finetune.py"):
        (folder / name).write_text("import sys; sys.stdin.read()")
    commands = (["python", "train.py", "--depth", "48"], ["python", "finetune.py", "--gpus", "2,3"])
    started = [subprocess.Popen(command, executable=sys.executable, cwd=folder, stdin=subprocess.PIPE) for command in commands]
    try:
        yield started[0].pid, started[1].pid
    finally:
        for process in started:
            process.communicate()


def scenario(one: int, other: int) -> str:
    """Eight cards: one trains hard and is held back, two share a job, one is lost, the others are free."""
    return f"""count 8
card * memory_used 0
card * utilization 0
card * power 71000 72000 71000
card * temperature 33 33 34
card 0 memory_used 61203283968
card 0 utilization 96 99 97 91 42 88 97 98 99 95 97 60 93 98
card 0 power 688000 699000 694000 661000 402000 634000 690000 697000
card 0 temperature 81 82 82 83 83 82
card 0 throttle 4
card 2 memory_used 23622320128 24051816858 24696061952
card 2 utilization 71 84 78 66 90 82 75
card 2 power 412000 431000 398000 440000
card 2 temperature 58 58 59
card 3 memory_used 23622320128 24051816858 24696061952
card 3 utilization 70 85 77 66 91 80 76
card 3 power 409000 428000 395000 437000
card 3 temperature 57 57 58
process 0 compute {one} 60129542144
process 2 compute {other} 22548578304
process 3 compute {other} 22548578304
share 0 {one} 97
share 2 {other} 76
share 3 {other} 75
error nvmlDeviceGetUtilizationRates 15 5
"""


async def take(app: TuitrainApp, columns: int, rows: int) -> None:
    """The GPU screen, and the detail of its first card."""
    async with app.run_test(size=(columns, rows)) as pilot:
        camera = Camera(app, pilot, columns)
        await camera.shoot("gpus", "g", "left_square_bracket")
        await camera.shoot("gpu", "enter")


def main() -> None:
    """Take them at every size."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        runs = Path(folder) / "runs"
        with processes(Path(folder)) as pids, session_and_sampler(runs) as (session, sampler):
            Path(os.environ["TUITRAIN_NVML_SCENARIO"]).write_text(scenario(*pids))
            time.sleep(HISTORY_SECONDS)
            for columns, rows in SIZES:
                asyncio.run(take(TuitrainApp(session, sampler, load_recipe("seed-cnn"), runs), columns, rows))


if __name__ == "__main__":
    main()
