"""A person's own model and data, before the seconds that torch takes: whether there is a module of that name at all, and which one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tuitrain.config import BUILT_IN_WORDS, DATA, ConfigError, RunConfig
from tuitrain.events import Notice
from tuitrain.import_strings import is_import_string
from tuitrain.paths import CONFIG, NoSuchFolder, data_path
from tuitrain.python import is_in, may_import, no_module
from tuitrain.text import clean, readable

STARTED_IN = "started_in"
"""Of a run with code of the person's own: the folder in which that was looked for first. Told in the environment of its run.toml."""


def check_own_code(config: RunConfig, folder: Path | None = None) -> Iterator[Notice]:
    """Look for the packages that the configuration's import strings name; nothing of them is imported.

    Args:
        config: what is to be trained.
        folder: that of the run that goes on with it.

    Raises:
        ConfigError: one is neither in the working directory nor installed; or `data` names nothing.
    """
    try:
        packages = _packages(config)
    except NoSuchFolder as error:
        if folder is None:
            raise
        raise ConfigError(f"{error} Put it back there, or write its new place into {clean(readable(folder / CONFIG))}.") from None
    there = _started_in(folder) if folder is not None and packages else ""
    moved = bool(there) and not _is_here(there)
    for field, package in packages.items():
        if not may_import(package):
            where = f"; the run was started in {clean(there)}, and goes on from there" if moved else ""
            raise ConfigError(f"{field}: {getattr(config, field)!r}: {no_module(package)}{where}.")
        if moved and is_in(package, Path.cwd()):
            text = f"The module {package} is that of {clean(readable(Path.cwd()))}; the run was started in {clean(there)}."
            yield Notice(level="warning", text=text)


def place_of_code(config: RunConfig) -> dict[str, str]:
    """What the run's environment tells of its own code; nothing where it has none, or the folder has gone since."""
    try:
        return {STARTED_IN: readable(Path.cwd())} if _packages(config) else {}
    except OSError:
        return {}


def _packages(config: RunConfig) -> dict[str, str]:
    """By field, the first name of the module that an import string names."""
    own = {field: getattr(config, field) for field in BUILT_IN_WORDS}
    if config.data not in DATA and data_path(config.data) is None:
        own["data"] = config.data
    return {field: value.partition(":")[0].partition(".")[0] for field, value in own.items() if is_import_string(value)}


def _started_in(folder: Path) -> str:
    from tuitrain.runs.made_with import environment_of

    try:
        return str(environment_of(folder).get(STARTED_IN, ""))
    except ConfigError:  # whoever needs the file will say so
        return ""


def _is_here(folder: str) -> bool:
    try:
        return os.path.samefile(folder, Path.cwd())
    except OSError:
        return False
