"""The recipes of the person's own that the launcher offers: TOML files in the folder in which tuitrain was started."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

import msgspec

from tuitrain.config import FIELDS, ConfigError, RunConfig
from tuitrain.files import some_entries
from tuitrain.recipes import load_recipe
from tuitrain.runs.settings import telling
from tuitrain.text import clean
from tuitrain.tui.launch.recipe_file import RecipeFile

_MOST_FILES, _MOST_BYTES = 50, 65_536
# Other programs have TOML files too, and theirs may say a name.
_SAYS_A_FIELD = re.compile(rf"^\s*({'|'.join(telling(FIELDS))})\s*=", re.MULTILINE)
_TABLE = re.compile(r"^\s*\[", re.MULTILINE)


class OwnRecipe(msgspec.Struct, frozen=True):
    """A recipe by its file's name: its configuration, or a sentence on what is wrong with it. `file` says later whether it was edited."""

    name: str
    file: RecipeFile
    config: RunConfig | None
    problem: str = ""


def own_recipes() -> tuple[OwnRecipe, ...]:
    """Those of the working directory, by their names; none where it cannot be read. It waits for the disk."""
    try:
        names = sorted(entry.name for entry in some_entries(".") if entry.name.endswith(".toml") and _is_small_file(entry))
    except OSError:
        return ()
    # What a terminal would obey, or cannot show, is not offered.
    shown = (name for name in names if name == clean(name) and _is_recipe(Path(name)))
    return tuple(_read(name) for name in islice(shown, _MOST_FILES))


def _is_small_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file() and entry.stat().st_size <= _MOST_BYTES


def _is_recipe(path: Path) -> bool:
    """Whether a file seems to be one, be it a wrong one: it sets a field before the first table."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    table = _TABLE.search(text)
    return _SAYS_A_FIELD.search(text[: table.start() if table else None]) is not None


def _read(name: str) -> OwnRecipe:
    # Before it is read: what is written meanwhile is an edit.
    file = RecipeFile(Path(name))
    try:
        return OwnRecipe(name, file, load_recipe(name))
    except ConfigError as error:
        return OwnRecipe(name, file, None, str(error))
