"""The last launch, kept for the next start of the app."""

from __future__ import annotations

import time

import msgspec
from rich.cells import cell_len

from tuitrain import paths, words
from tuitrain.config import FIELDS, ConfigError, RunConfig, written
from tuitrain.files import write_atomically
from tuitrain.recipes import load_recipe, recipe_of, to_toml
from tuitrain.tui.strips import end_of

_BARE = ("data", "device", "precision", "strategy")
"""Fields whose value says by itself what it is."""
_UNTOLD = ("recipe", "name", "note")
_LEAST_DATA = 12
"""Cells of a path's end that still say which one it is."""


class LastLaunch(msgspec.Struct, frozen=True):
    """What was asked for, and when (Unix seconds)."""

    config: RunConfig
    time: float


def keep(config: RunConfig) -> None:
    """Remember `config` as the last launch.

    Raises:
        OSError: it cannot be written; what was kept before is as it was.
    """
    path = paths.last_launch()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, to_toml(config).encode())


def read() -> LastLaunch | None:
    """The last launch; `None` where there is none or its file is damaged."""
    try:
        path = paths.last_launch()
        return LastLaunch(load_recipe(str(path)), path.stat().st_mtime)
    except (ConfigError, OSError):
        return None


def describe(last: LastLaunch, width: int) -> str:
    """The launch in `width` cells where its title leaves room: what it is called, its data, what is not as in its recipe, its age."""
    config = last.config
    base = recipe_of(config.recipe)
    changed = [field for field in FIELDS if getattr(config, field) != getattr(base, field) and field not in (*_UNTOLD, "data")]
    age = words.ago(time.time() - last.time)

    def told(data: str, left_out: int) -> str:
        pieces = [_piece(config, field) for field in changed[: len(changed) - left_out]]
        return " · ".join([config.title(), data, *pieces, *([f"{left_out} more"] if left_out else []), age])

    for left_out in range(len(changed) + 1):
        if cell_len(told(config.data, left_out)) <= width:
            return told(config.data, left_out)
    over = cell_len(told(config.data, len(changed))) - width
    return told(end_of(config.data, max(cell_len(config.data) - over, _LEAST_DATA)), len(changed))


def _piece(config: RunConfig, field: str) -> str:
    value = written(getattr(config, field))
    return value if field in _BARE else f"{field.replace('_', ' ')} {value}"
