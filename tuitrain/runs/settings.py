"""The settings of many runs, to look for some of them: the lines of `run.toml` as they stand. As configurations, thousands take seconds."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from tuitrain.config import FIELDS
from tuitrain.files import read_in
from tuitrain.paths import CONFIG

Settings = Mapping[str, str]
"""What each field of a run is set to, as `--set` takes it; a field that is `None` is left out."""

_IN_WORDS = ("model", "data", "loss", "optimizer", "precision", "lr_schedule", "averaging", "augment")
"""The fields whose values say by themselves what they are of."""
_SAY_NOTHING = ("none", "auto")


def read_settings(folder: Path) -> Settings:
    """The settings of the run in `folder`; none where they cannot be read."""
    try:
        text = read_in(folder, CONFIG).decode()
    except (OSError, UnicodeDecodeError):
        return {}
    # What decided the run's numbers else stands in a table below.
    lines = (line.partition("=") for line in text.partition("\n[")[0].splitlines())
    return {field.strip(): value.strip().strip("\"'") for field, equals, value in lines if equals}


def has_setting(settings: Settings, wanted: str) -> bool:
    """Whether `wanted`, written as `--set` takes it, is among them: the same number, or a part of the text."""
    name, _, sought = wanted.partition("=")
    field = name.replace("-", "_")
    if not settings or field not in FIELDS:
        return False
    value = settings.get(field, "none").casefold()
    with contextlib.suppress(ValueError):
        return float(value) == float(sought)
    return sought.casefold() in value


def holds_word(settings: Settings, word: str) -> bool:
    """Whether a casefolded `word` is part of what some field is set to that says by itself what it is of, such as "adam" or "resnet18"."""
    values = (settings.get(field, "").casefold() for field in _IN_WORDS)
    return any(word in value for value in values if value not in _SAY_NOTHING)
