"""W&B LEET, which shows what wandb has written: `python -m benchmarks.leet FOLDER` writes a run there, offline."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.awaited import NotMeasured
from benchmarks.monitor import Monitor
from benchmarks.programs import HERE, Screen

WANDB = str(Path(sys.executable).with_name("wandb"))
COMMANDS = (("leet", "run"), ("beta", "leet", "run"))
"""As it is called in newer versions and in older ones."""
START_SECONDS = 120.0
STEPS_PER_SECOND = 60
OFFLINE = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}


@contextmanager
def leet(folder: Path) -> Iterator[Monitor]:
    """LEET on a run of wandb in `folder`, which is made and goes on until the end of the block.

    Raises:
        NotMeasured: wandb is not installed, or shows nothing without a network.
    """
    if find_spec("wandb") is None or not Path(WANDB).exists():
        raise NotMeasured("wandb is not installed")
    with _told(folder) as told:
        # It draws in a process of its own.
        yield Monitor(_command(told), OFFLINE, children_stay=True)


def _command(told: Path) -> list[str]:
    """The line that shows the run in `told`.

    Raises:
        NotMeasured: none of them draws a screen of it.
    """
    for words in COMMANDS:
        command = [WANDB, *words, str(told)]
        screen = Screen(command, OFFLINE)
        try:
            screen.wait(lambda text: "loss" in text, seconds=20)
            return command
        except RuntimeError:
            continue
        finally:
            screen.close()
    raise NotMeasured("wandb leet shows nothing of an offline run")


@contextmanager
def _told(folder: Path) -> Iterator[Path]:
    """The folder of a run of wandb that goes on until the end of the block.

    Raises:
        NotMeasured: wandb does not begin one.
    """
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.leet", str(folder)], cwd=HERE.parent, env={**os.environ, **OFFLINE}, stdout=subprocess.DEVNULL
    )
    try:
        end = time.perf_counter() + START_SECONDS
        while not (found := sorted(folder.glob("wandb/offline-run-*/*.wandb"))):
            if process.poll() is not None or time.perf_counter() > end:
                raise NotMeasured("wandb begins no run offline")
            time.sleep(0.1)
        yield found[0].parent
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Tell wandb of losses that fall, until it is terminated."""
    wandb: Any = import_module("wandb")
    run = wandb.init(dir=sys.argv[1], mode="offline")
    step = 0
    while True:
        step += 1
        run.log({"loss": 0.5 + 2 / step**0.5}, step=step)
        time.sleep(1 / STEPS_PER_SECOND)


if __name__ == "__main__":
    main()
