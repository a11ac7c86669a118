"""Whatever NVML answers, and whatever it lacks: a sample comes, and every card has one of the known words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nvml_stub.fixture import SOURCE, write

from tuitrain.devices import Status, cards, choices
from tuitrain.devices.cards import CardReader
from tuitrain.devices.nvml import Nvml
from tuitrain.devices.samples import DeviceSnapshot, HostSample

Load = Callable[[str], dict[str, str]]

FUNCTIONS = sorted(set(re.findall(r"\bnvml[A-Z]\w+", SOURCE.read_text())) - {"nvmlErrorString"})
CODES = [1, 2, 3, 4, 6, 7, 9, 10, 13, 15, 16, 17, 18, 25, 28, 77, 999]
HOST = HostSample(name="CPU", cores=1, cpu_percent=None, ram_used=None, ram_total=None)
CARDS = "count 3\nprocess 0 compute 4194305 1\ncard 2 mig 1\ninstance 2 0 memory_used 1\nprocess 2.0 compute 4194306 1\n"
QUESTIONS_PER_CARD = 150
"""More in one round would be a loop: there are 40 functions, and one of them is asked for 36 links."""

errors = st.lists(
    st.tuples(st.sampled_from(FUNCTIONS), st.sampled_from(CODES), st.sampled_from(["", "0", "1", "2", "2.0"])),
    max_size=25,
)
values = st.lists(
    st.tuples(
        st.sampled_from(
            "memory_total memory_used utilization temperature power fan performance_state throttle ecc mig compute_mode".split()
        ),
        st.sampled_from([0, 1, 2, 99, 2**31, 2**32 - 1, 2**63, 2**64 - 1]),
    ),
    max_size=5,
)


class Lacking:
    """The library without some of its functions."""

    def __init__(self, library: Any, missing: frozenset[str]) -> None:
        self._library = library
        self._missing = missing

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(name)
        return getattr(self._library, name)


def test_the_stand_in_has_all_that_is_asked() -> None:
    assert len(FUNCTIONS) > 40


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=errors, later=errors, odd=values, missing=st.frozensets(st.sampled_from(FUNCTIONS), max_size=6))
def test_nothing_raises_and_nothing_loops(
    nvml_here: Load,
    monkeypatch: pytest.MonkeyPatch,
    stand_in: dict[str, str],
    first: list[tuple[str, int, str]],
    later: list[tuple[str, int, str]],
    odd: list[tuple[str, int]],
    missing: frozenset[str],
) -> None:
    import pynvml

    asked = 0

    def ask(function: str, *arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return Nvml.ask(connection, function, *arguments)

    connection = Nvml()
    reader = CardReader(connection)
    library = pynvml.CDLL("")
    with monkeypatch.context() as patch:
        patch.setattr(cards, "FIRST_RETRY_SECONDS", 0.0)
        patch.setattr(pynvml, "nvmlLib", Lacking(library, missing))
        patch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        patch.setattr(connection, "ask", ask)
        for mixture in (first, later, later):
            lines = [f"error {function} {code} {place}\n" for function, code, place in mixture]
            write(stand_in, CARDS + "".join(f"card * {field} {value}\n" for field, value in odd) + "".join(lines))
            asked = 0
            sample = reader.sample()
            check(sample)
            assert asked < 4 * QUESTIONS_PER_CARD
        reader.close()


def check(sample: cards.CardsSample) -> None:
    """What holds for every sample."""
    assert {card.status for card in sample.devices} <= set(get_args(Status))
    assert all(card.reason for card in sample.devices if card.status != "ok" or card.cuda_index is None)
    assert sample.devices or sample.error
    numbers = [card.cuda_index for card in sample.devices if card.cuda_index is not None]
    assert len(set(numbers)) == len(numbers)
    for card in sample.devices:
        assert card.utilization is None or 0 <= card.utilization <= 100
        assert card.temperature is None or card.temperature < 1000
        assert card.fan is None or card.fan < 1000
    snapshot = DeviceSnapshot(
        time=0.0, taken=0.0, devices=sample.devices, host=HOST, driver_version=None, error=sample.error, stalled_seconds=0.0
    )
    assert len(choices(snapshot)) == len(sample.devices) + 1


@pytest.fixture
def stand_in(nvml_here: Load) -> dict[str, str]:
    """The stand-in in this process, its scenario to be written."""
    return nvml_here(CARDS)
