"""Data sets as a start loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.data import Dataset, load_data
from tuitrain.events import Event


def loaded(data: Path | str, seed: int = 0, **changes: Any) -> tuple[Dataset, list[Event]]:
    """The data set, and what was said meanwhile."""
    events: list[Event] = []
    loading = load_data(RunConfig(data=str(data), seed=seed, **changes), lambda: False)
    while True:
        try:
            events.append(next(loading))
        except StopIteration as end:
            return end.value, events


def refused(data: Path | str) -> str:
    """The sentence with which it is refused."""
    with pytest.raises(ConfigError) as caught:
        loaded(data)
    sentence = str(caught.value)
    assert sentence.startswith("data: ")
    assert sentence.isprintable()
    return sentence
