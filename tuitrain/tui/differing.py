"""What the configurations of several runs differ in, and one from its recipe."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tuitrain.config import DATA, FIELDS, RunConfig
from tuitrain.recipes import recipe_of
from tuitrain.text import clean

UNTELLING = ("name", "note")
"""Fields that decide nothing."""
_TOLD_ELSEWHERE = ("data", "device", "output_device", "strategy", "epochs", "max_steps")
"""What columns of the list of runs say more or less, and what is long."""


class Comparison(msgspec.Struct, frozen=True):
    """Fields of several configurations, with the words of their values: `differing` one for each run, `same` one for all."""

    differing: tuple[tuple[str, tuple[str, ...]], ...]
    same: tuple[tuple[str, str], ...]

    @property
    def equal(self) -> bool:
        """Whether nothing differs that decides how a run goes."""
        return all(field in UNTELLING for field, _ in self.differing)


def compare(configs: Sequence[RunConfig]) -> Comparison:
    """What differs among the configurations, in the order of their fields."""
    if not configs:
        return Comparison((), ())
    table = [(field, tuple(getattr(config, field) for config in configs)) for field in FIELDS]
    differing = tuple((field, tuple(map(_words, values))) for field, values in table if any(value != values[0] for value in values))
    same = tuple((field, _words(values[0])) for field, values in table if all(value == values[0] for value in values))
    return Comparison(differing, same)


def changed_fields(config: RunConfig) -> list[str]:
    """The fields in which a run differs from its recipe, but those that the recipe leaves open."""
    return _differing(config, left_open=False)


def open_fields(config: RunConfig) -> list[str]:
    """The fields that its recipe leaves open ("auto") and the run does not: it was told, or has found, what to take."""
    return _differing(config, left_open=True)


def _differing(config: RunConfig, *, left_open: bool) -> list[str]:
    base = recipe_of(config)
    differing = (field for field in FIELDS if field != "recipe" and getattr(base, field) != getattr(config, field))
    return [field for field in differing if _is_open(base, config, field) == left_open]


def _is_open(base: RunConfig, config: RunConfig, field: str) -> bool:
    """Whether the recipe leaves a field open, and its value is one that "auto" may have stood for: that is no folder and no function."""
    own_data = field == "data" and config.data not in DATA
    return str(getattr(base, field)).startswith("auto") and not own_data


def changes_in_words(config: RunConfig) -> str:
    """The same for a line, of which the end may be cut: "lr 0.03 · batch size 128 · epochs 2"."""
    changed = sorted((field for field in changed_fields(config) if field not in UNTELLING), key=lambda field: field in _TOLD_ELSEWHERE)
    return " · ".join(f"{field.replace('_', ' ')} {_words(getattr(config, field))}" for field in changed)


def _words(value: object) -> str:
    if value is None or value == "":
        return "none"
    return str(value).lower() if isinstance(value, bool) else clean(f"{value:g}" if isinstance(value, float) else str(value))
