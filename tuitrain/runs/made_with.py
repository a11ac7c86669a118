"""What a run was made with, as its `run.toml` and `state.json` say; the name and note are those of its label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuitrain.config import RunConfig
from tuitrain.paths import CONFIG
from tuitrain.recipes import load_environment, load_recipe
from tuitrain.runs.label import read_label


def config_of(folder: Path) -> RunConfig:
    """The resolved configuration of the run in `folder`.

    Raises:
        ConfigError: its run.toml cannot be read.
    """
    return read_label(folder).over(load_recipe(str(folder / CONFIG)))


def environment_of(folder: Path) -> dict[str, Any]:
    """What else decided the run's numbers: versions, the number of torch threads, and the like; empty where run.toml does not say.

    Raises:
        ConfigError: its run.toml cannot be read.
    """
    return load_environment(folder / CONFIG)
