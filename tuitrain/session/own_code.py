"""A person's own model and data, before the seconds that torch takes: whether there is a module of that name at all."""

from __future__ import annotations

from tuitrain.config import DATA, ConfigError, RunConfig, is_import_string
from tuitrain.paths import data_folder
from tuitrain.python import may_import, no_module


def check_own_code(config: RunConfig) -> None:
    """Look for the packages that the configuration's import strings name; nothing of them is imported.

    Raises:
        ConfigError: one is neither in the working directory nor installed; or `data` names nothing.
    """
    own = {"model": config.model}
    if config.data not in DATA and data_folder(config.data) is None:
        own["data"] = config.data
    for field, value in own.items():
        package = value.partition(":")[0].partition(".")[0]
        if is_import_string(value) and not may_import(package):
            raise ConfigError(f"{field}: {value!r}: {no_module(package)}.")
