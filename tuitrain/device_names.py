"""Names of several devices in few characters: "cuda:0-7"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_RANGE = re.compile(r"cuda:(0|[1-9][0-9]{0,3})-([1-9][0-9]{0,3})")


def expanded(name: str) -> list[str] | None:
    """The devices of a range, "cuda:0" to "cuda:7" of "cuda:0-7"; `None` for what is none."""
    found = _RANGE.fullmatch(name)
    if found is None or int(found[1]) > int(found[2]):
        return None
    return [f"cuda:{ordinal}" for ordinal in range(int(found[1]), int(found[2]) + 1)]


def in_words(names: Sequence[str], shortest_range: int = 3) -> str:
    """Devices as people read them: "cuda:0, cuda:1", "cuda:0-3, cuda:6", and "cpu ×2" for two replicas on one.

    Args:
        names: one for each replica.
        shortest_range: how many that follow each other become a range.
    """
    times = Counter(names)
    runs: list[list[str]] = []
    for name, count in times.items():
        if runs and count == 1 and times[runs[-1][-1]] == 1 and _next_ordinal(runs[-1][-1]) == name:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(
        _range(run) if len(run) >= shortest_range else ", ".join(name if times[name] == 1 else f"{name} ×{times[name]}" for name in run)
        for run in runs
    )


def short(spec: str) -> str:
    """A `device` value with ranges: "cuda:0-3,cuda:6". One in which a device has several replicas stays as it is."""
    names = spec.split(",")
    return in_words(names).replace(", ", ",") if len(set(names)) == len(names) else spec


def _range(names: Sequence[str]) -> str:
    return f"{names[0]}-{names[-1].rpartition(':')[2]}"


def _next_ordinal(name: str) -> str | None:
    """ "cuda:1" of "cuda:0", `None` of "cpu"."""
    kind, _, ordinal = name.rpartition(":")
    return f"{kind}:{int(ordinal) + 1}" if ordinal.isdecimal() else None
