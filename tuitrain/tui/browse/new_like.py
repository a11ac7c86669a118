"""What the launcher is filled in with for a new run like one that is kept."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.paths import CHECKPOINTS, MODEL_TENSORS, best_name, saved_folders
from tuitrain.runs.made_with import config_of


class Proposal(msgspec.Struct, frozen=True):
    """The configuration of the new run, and what it has of the other one, as a sentence."""

    config: RunConfig
    sentence: str


def new_like(path: Path, *, weights: bool) -> Proposal:
    """A run with the settings of the one in `path`, but its note, which is about that one alone.

    Args:
        weights: it is to begin with that run's weights, the best that it has kept, else the newest.

    Raises:
        ConfigError: its run.toml cannot be read, or it has kept no weights.
    """
    config = msgspec.structs.replace(config_of(path), note="")
    settings = f"The settings are those of {path.name}"
    if not weights:
        return Proposal(config, f"{settings}.")
    kept = [folder for folder in saved_folders(path / CHECKPOINTS) if (folder / MODEL_TENSORS).is_file()]
    if not kept:
        raise ConfigError(f"{path.name} has kept no weights with which a new run could begin.")
    noted = best_name(path / CHECKPOINTS)
    folder = next((folder for folder in kept if folder.name == noted), kept[-1])
    which = "best" if folder.name == noted else "newest"
    config = msgspec.structs.replace(config, weights=str(folder / MODEL_TENSORS))
    return Proposal(config, f"{settings}, and so are the weights to begin with, the {which}: {folder.name}.")
