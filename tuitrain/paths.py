"""Every path: the runs folder, the cache, and what the app remembers."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

CIFAR10_FOLDER = "cifar-10-batches-py"
CIFAR10_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
"""The files that CIFAR-10 consists of, the test images last."""


def runs_dir(option: str | None = None) -> Path:
    """The folder that holds the runs: `--runs-dir`, else TUITRAIN_RUNS, else the user's data folder."""
    chosen = option or os.environ.get("TUITRAIN_RUNS")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_data_path("tuitrain") / "runs"


def cache_dir() -> Path:
    """The folder for what can be made again: downloaded and decoded data."""
    return platformdirs.user_cache_path("tuitrain")


def cifar10_dirs() -> tuple[Path, ...]:
    """Where CIFAR-10 is looked for, in this order: our cache, then `./data`, torchvision's custom."""
    return (cache_dir() / "cifar10" / CIFAR10_FOLDER, Path("data") / CIFAR10_FOLDER)


def find_cifar10() -> Path | None:
    """The `cifar-10-batches-py` folder in one of these places that holds all of its batches, or `None`."""
    return next((folder for folder in cifar10_dirs() if all((folder / batch).is_file() for batch in CIFAR10_BATCHES)), None)


def last_launch() -> Path:
    """The file that holds the configuration last started from the app."""
    return platformdirs.user_state_path("tuitrain") / "last-launch.toml"


def theme() -> Path:
    """The file that holds the name of the theme last chosen."""
    return platformdirs.user_state_path("tuitrain") / "theme"
