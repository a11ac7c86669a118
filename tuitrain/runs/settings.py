"""The settings of many runs, to look for some of them and to tell them apart: the lines of `run.toml` as they stand. As configurations,
thousands take seconds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from tuitrain.config import DATA, FIELDS, NONE, RunConfig
from tuitrain.files import read_in
from tuitrain.paths import CONFIG
from tuitrain.recipes import recipe_of, to_toml
from tuitrain.text import clean

Settings = Mapping[str, str]
"""What each field of a run is set to, as `--set` takes it; a field that is `None` there and in its recipe is left out."""

_UNTELLING = ("name", "note")
"""Fields that decide nothing."""

_IN_WORDS = ("model", "data", "loss", "optimizer", "precision", "lr_schedule", "averaging", "augment")
"""The fields whose values say by themselves what they are of."""
_SAY_NOTHING = (NONE, "auto")
_TOLD_ELSEWHERE = ("data", "device", "output_device", "strategy", "epochs", "max_steps", "weights")
"""What columns of the list of runs say more or less, and what is long: a path may leave no room for what comes after it."""


def read_settings(folder: Path) -> Settings:
    """The settings of the run in `folder`; none where they cannot be read."""
    try:
        text = read_in(folder, CONFIG).decode()
    except (OSError, UnicodeDecodeError):
        return {}
    return _settings_in(text)


def settings_of(config: RunConfig) -> Settings:
    """The settings of a run with this configuration."""
    return _settings_in(to_toml(config))


@cache
def _of_recipe(name: str) -> Settings:
    """Those of a built-in recipe, or the defaults, with which a recipe of one's own begins."""
    return settings_of(recipe_of(name))


def _settings_in(text: str) -> Settings:
    # What decided the run's numbers else stands in a table below.
    lines = (line.partition("=") for line in text.partition("\n[")[0].splitlines())
    return {field.strip(): value.strip().strip("\"'") for field, equals, value in lines if equals}


def changed(settings: Settings) -> list[str]:
    """The fields in which a run differs from its recipe, but those that the recipe leaves open."""
    return _differing(settings, left_open=False)


def left_open(settings: Settings) -> list[str]:
    """The fields that its recipe leaves open ("auto") and the run does not: it was told, or has found, what to take."""
    return _differing(settings, left_open=True)


def changes(settings: Settings) -> Settings:
    """What was changed, the most telling first: a line may have no room for the rest."""
    return {field: clean(settings[field]) for field in telling(changed(settings))}


def telling(fields: Iterable[str]) -> list[str]:
    """Those that decide something, the most telling first."""
    order = {field: place for place, field in enumerate(_TOLD_ELSEWHERE, 1)}
    return sorted((field for field in fields if field not in _UNTELLING), key=lambda field: order.get(field, 0))


def _differing(settings: Settings, *, left_open: bool) -> list[str]:
    base = _of_recipe(settings.get("recipe", ""))
    # An earlier version may have written fewer fields.
    known = (field for field in FIELDS if field != "recipe" and field in settings)
    differing = (field for field in known if settings[field] != base.get(field, NONE))
    return [field for field in differing if _is_open(base, settings, field) == left_open]


def _is_open(base: Settings, settings: Settings, field: str) -> bool:
    """Whether the recipe leaves a field open, and its value is one that "auto" may have stood for: that is no folder and no function."""
    own_data = field == "data" and settings[field] not in DATA
    return base.get(field, NONE).startswith("auto") and not own_data


def has_setting(settings: Settings, wanted: str) -> bool:
    """Whether `wanted`, written as `--set` takes it, is among them: the same number, or a part of the text."""
    name, _, sought = wanted.partition("=")
    field = name.replace("-", "_")
    if not settings or field not in FIELDS:
        return False
    value = settings.get(field, NONE).casefold()
    with contextlib.suppress(ValueError):
        return float(value) == float(sought)
    return sought.casefold() in value


def holds_word(settings: Settings, word: str) -> bool:
    """Whether a casefolded `word` is part of what some field is set to that says by itself what it is of, such as "adam" or "resnet18"."""
    values = (settings.get(field, "").casefold() for field in _IN_WORDS)
    return any(word in value for value in values if value not in _SAY_NOTHING)
