"""The stand-in NVML for the tests of this room, and a reader over it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from nvml_stub.fixture import nvml, nvml_here

from tuitrain.devices import cards
from tuitrain.devices.cards import CardReader
from tuitrain.devices.nvml import Nvml

__all__ = ["nvml", "nvml_here"]


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[CardReader]:
    """A reader that tries again at once."""
    monkeypatch.setattr(cards, "FIRST_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(cards, "LAST_RETRY_SECONDS", 0.0)
    made = CardReader(Nvml())
    yield made
    made.close()
