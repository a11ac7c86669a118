"""Recipes, one TOML file each: the built-in ones and a person's own, read as a `RunConfig` and written back.

The first comment of a built-in file is its line in `tuitrain recipes`.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from tuitrain.config import DATA, DEFAULTS, FIELDS, NONE, RECIPES, ConfigError, RunConfig, allowed, with_changes, written
from tuitrain.device_names import short
from tuitrain.import_strings import data_named, is_import_string, network_named, of_file
from tuitrain.text import clean, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SHOWN_OF_A_LINE = 80


def recipe_summary(text: str) -> str:
    """The line that describes a recipe: the first comment of its TOML text."""
    first = text.lstrip().split("\n", 1)[0]
    return clean(first.removeprefix("#").strip()) if first.startswith("#") else ""


def recipe_text(name: str) -> str:
    """The TOML text of a built-in recipe."""
    return (resources.files("tuitrain.recipes") / f"{name}.toml").read_text(encoding="utf-8")


def load_recipe(name: str) -> RunConfig:
    """A built-in recipe by name, or a TOML file by its path (it ends in .toml or holds a /).

    Raises:
        ConfigError: there is no such recipe or file, or it holds a wrong field.
    """
    if name in RECIPES:
        return _built_in(name)
    if is_import_string(network := of_file(name, "NAME")) and name.endswith(".py"):
        way = f"A network that it defines is given by --set model={network}"
        raise ConfigError(f"recipe: {name!r} is Python code; it must be {allowed('recipe')}. {way}.")
    if name.endswith(".toml") or "/" in name:
        return _load_file(Path(name))
    network, data = network_named(name), name if name in DATA else data_named(name)
    if network:
        hint = f" A network is given by --set model={network}."
    else:
        hint = f" Data is given by --data {data}." if data else nearest(name, RECIPES)
    raise ConfigError(f"recipe: {clean(name)!r} is not known; it must be {allowed('recipe')}.{hint}")


def recipe_for(model: str) -> RunConfig:
    """What a run of a network starts from that no recipe is for: the defaults, and it is called by the name of what makes the network."""
    return msgspec.structs.replace(DEFAULTS, name=clean(model.rpartition(":")[2]))


@cache
def _built_in(name: str) -> RunConfig:
    return _from_table(DEFAULTS, _parse(recipe_text(name), name), where=name)


TRAINED_BEFORE = "trained_before"
"""The name there of what else a run had trained with until it went on as it ended: "single on cpu up to step 30"."""


def load_environment(path: Path) -> dict[str, Any]:
    """The table `environment` of a run.toml: what is for the reader, not for the next run.

    Raises:
        ConfigError: the file cannot be read, or holds something else of that name.
    """
    return _take_environment(_parse(_read(path), str(path)), path.name)


def _take_environment(table: dict[str, Any], where: str) -> dict[str, Any]:
    environment = table.pop("environment", {})
    if not isinstance(environment, dict):
        raise ConfigError(
            f"{clean(where)}: environment: {clean(str(environment))!r} is not allowed; "
            "it must be a table, [environment], and tells people alone where a run was made."
        )
    return environment


def _read(path: Path) -> str:
    try:
        # Some editors begin a file with a byte order mark.
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        hint = nearest(str(path), [*RECIPES, *_neighbours(path)]) if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"recipe: {clean(str(path))} cannot be read: {reason}.{hint}") from None


def _neighbours(path: Path) -> list[str]:
    """The recipes beside where one was looked for."""
    return [clean(str(other)) for other in path.parent.glob("*.toml")]


def _load_file(path: Path) -> RunConfig:
    table = _parse(_read(path), str(path))
    _take_environment(table, path.name)
    base = table.pop("recipe", "custom")
    if base not in ("custom", *RECIPES):
        raise ConfigError(
            f"{clean(path.name)}: recipe: {clean(str(base))!r} is not allowed in a file; "
            f"it must be one of {', '.join(RECIPES)}.{nearest(str(base), RECIPES)}"
        )
    start = DEFAULTS if base == "custom" else load_recipe(base)
    # It is called by its file, and not by what it starts from, unless it says another name.
    return _from_table(msgspec.structs.replace(start, name=clean(path.stem)), table, where=path.name)


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        return dict(_table(text))
    except (ValueError, RecursionError) as error:
        # Of a number with thousands of digits and of lists in lists in lists, Python itself has enough.
        raise ConfigError(f"{clean(where)}: this is not valid TOML: {_toml_mistake(text, str(error))}.") from None


def _toml_mistake(text: str, mistake: str) -> str:
    """What the parser says, with the line that it is about, which it only counts."""
    words = mistake.replace("Cannot overwrite a value", "a field is set twice")
    found = re.search(r"at line (\d+)", mistake)
    line = text.split("\n")[int(found[1]) - 1].strip() if found else ""
    return clean(f"{words}: {line[:_SHOWN_OF_A_LINE]}" if line else words)


@lru_cache(8)
def _table(text: str) -> Mapping[str, Any]:
    """The content of a TOML text; configuration and environment of a run are read of the same one."""
    return tomllib.loads(text)


def _from_table(base: RunConfig, table: Mapping[str, Any], *, where: str) -> RunConfig:
    for field, value in table.items():
        if isinstance(value, dict):
            sentence = f"[{clean(field)}] is a table, and a recipe has none; each field is a line of its own, like lr = 0.01."
            raise ConfigError(f"{clean(where)}: {sentence}")
    try:
        return with_changes(base, table)
    except ConfigError as error:
        raise ConfigError(f"{clean(where)}: {error}") from None


def recipe_of(name: str) -> RunConfig:
    """What a configuration whose `recipe` is `name` started from: the built-in recipe, or the defaults where it has one of its own."""
    return load_recipe(name) if name in RECIPES else DEFAULTS


def to_toml(config: RunConfig, environment: Mapping[str, Any] | None = None) -> str:
    """The whole configuration as TOML; fields that are `None` are left out where they are that in the recipe it started from too.

    `environment` becomes a table of that name.
    """
    base = recipe_of(config.recipe)
    said = [field for field in FIELDS if getattr(config, field) is not None or getattr(base, field) is not None]
    table = {field: NONE if (value := getattr(config, field)) is None else value for field in said}
    if environment:
        table["environment"] = dict(environment)
    return tomli_w.dumps(table)


# -- the equal command line -------------------------------------------------------------------------------------------

OPTIONS = ("data", "device", "strategy", "epochs", "max_steps", "batch_size", "lr", "seed", "precision", "name")


def command_line(config: RunConfig) -> str:
    """The `tuitrain run …` line that starts the same run; a recipe of one's own is written without one where it has a network of one's own,
    and else as changes of the first built-in one."""
    alone = config.recipe not in RECIPES and is_import_string(config.model)
    base = recipe_for(config.model) if alone else load_recipe(config.recipe if config.recipe in RECIPES else RECIPES[0])
    words = ["tuitrain", "run", *([] if alone else [base.recipe])]
    for field in FIELDS:
        value = getattr(config, field)
        if field == "recipe" or value == getattr(base, field):
            continue
        text = short(value) if field == "device" else written(value)
        words += [f"--{field.replace('_', '-')}", text] if field in OPTIONS else ["--set", f"{field}={text}"]
    return shlex.join(words)
