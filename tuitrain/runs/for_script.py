"""What the script of a run that is kept is written from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuitrain.config import RunConfig
from tuitrain.events import RunStarted
from tuitrain.runs.made_with import config_of, environment_of
from tuitrain.runs.status import read_status


def for_script(folder: Path) -> tuple[RunConfig, RunStarted | None, dict[str, Any]]:
    """The run's configuration, its first event where it has begun, and its environment.

    Raises:
        RunError: its state cannot be read.
        ConfigError: its run.toml cannot be read.
    """
    # First: of a run that has gone it is the state that says so.
    started = read_status(folder).as_started()
    return config_of(folder), started, environment_of(folder)
