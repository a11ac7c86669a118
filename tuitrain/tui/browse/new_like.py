"""What the launcher is filled in with for a new run like one that is kept."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tuitrain.config import ConfigError, RunConfig, with_changes
from tuitrain.paths import CHECKPOINTS, MODEL_TENSORS
from tuitrain.runs.checkpoints import checkpoints
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
    kept = checkpoints(path)
    if not kept:
        raise ConfigError(f"{path.name} has kept no weights with which a new run could begin.")
    best = next((one for one in kept if one["kind"] == "best"), None)
    folder = path / CHECKPOINTS / Path((best or kept[-1])["path"]).name
    config = with_changes(config, {"weights": str(folder / MODEL_TENSORS)})
    return Proposal(config, f"{settings}, and so are the weights to begin with, the {'best' if best else 'newest'}: {folder.name}.")
