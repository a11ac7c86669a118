"""What the configurations of several runs differ in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec

from tuitrain.config import FIELDS, RunConfig
from tuitrain.runs.settings import telling
from tuitrain.text import clean

_FEW = 24
"""Characters that have room behind a name."""


class Comparison(msgspec.Struct, frozen=True):
    """Fields of several configurations, with the words of their values: `differing` one for each run, `same` one for all."""

    differing: tuple[tuple[str, tuple[str, ...]], ...]
    same: tuple[tuple[str, str], ...]

    @property
    def equal(self) -> bool:
        """Whether nothing differs that decides how a run goes."""
        return not telling(field for field, _ in self.differing)


def compare(configs: Sequence[RunConfig]) -> Comparison:
    """What differs among the configurations, in the order of their fields."""
    if not configs:
        return Comparison((), ())
    table = [(field, tuple(getattr(config, field) for config in configs)) for field in FIELDS]
    differing = tuple((field, tuple(map(_words, values))) for field, values in table if any(value != values[0] for value in values))
    same = tuple((field, _words(values[0])) for field, values in table if all(value == values[0] for value in values))
    return Comparison(differing, same)


def told_apart(configs: Sequence[RunConfig]) -> list[str] | None:
    """What tells the configurations apart in a few words: the values of one field, or of two ("lr 0.03"); `None` where these do not."""
    differing = dict(compare(configs).differing)
    for count in (1, 2):
        for fields in combinations(telling(differing), count):
            found = [" ".join(f"{field.replace('_', ' ')} {differing[field][run]}" for field in fields) for run in range(len(configs))]
            if len(set(found)) == len(found) and max(map(len, found)) <= _FEW:
                return found
    return None


def _words(value: object) -> str:
    if value is None or value == "":
        return "none"
    return str(value).lower() if isinstance(value, bool) else clean(f"{value:g}" if isinstance(value, float) else str(value))
