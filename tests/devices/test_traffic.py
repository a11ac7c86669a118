"""Counters of a card and the rates between two samples."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nvml_stub.fixture import write

from tuitrain.devices import cards, traffic
from tuitrain.devices.card import Card
from tuitrain.devices.cards import CardReader
from tuitrain.devices.questions import Questions
from tuitrain.devices.traffic import GLANCE_SECONDS, Meter, Traffic, TrafficReader, _value

Load = Callable[[str], dict[str, str]]


def test_a_rate_is_what_came_in_between() -> None:
    meter = Meter()
    assert meter.rate(1000, 10.0) is None
    assert meter.rate(3000, 12.0) == 1000
    assert meter.rate(3000, 13.0) == 0


@pytest.mark.parametrize("counts", [[5000, 10], [5000, None, 6000]])
def test_a_counter_that_went_back_or_was_missing_gives_no_rate_until_the_next_two(counts: list[int | None]) -> None:
    meter = Meter()
    rates = [meter.rate(count, float(at)) for at, count in enumerate(counts)]
    assert rates == [None] * len(counts)
    assert meter.rate(7000, float(len(counts))) is not None


def test_two_readings_at_one_moment_give_no_rate() -> None:
    meter = Meter()
    meter.rate(1, 1.0)
    assert meter.rate(2, 1.0) is None


class BusyLink:
    """A card with counters of 32 bits, and the clock on which they go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sent: float, received: float) -> None:
        """The rates are bytes a second."""
        self.now = 5000.0
        self.rates = {197: sent, 198: received}
        self.counts = {197: 4e9, 198: 1e9}
        monkeypatch.setattr(traffic.time, "monotonic", lambda: self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.counts = {field: count + self.rates[field] * seconds for field, count in self.counts.items()}

    def read(self, reader: TrafficReader) -> Traffic:
        """A glance and a reading, as in each round."""
        if reader.glance(cast(Questions, self.ask)):
            self.wait(GLANCE_SECONDS)
        return reader.read(cast(Questions, self.ask))

    def ask(self, function: str, *arguments: Any) -> Any:
        if function != "nvmlDeviceGetFieldValues":
            return None
        counts = [int(self.counts.get(field, 0)) % 2**32 for field in arguments[0]]
        return [SimpleNamespace(nvmlReturn=0, valueType=1, value=SimpleNamespace(uiVal=count)) for count in counts]


@pytest.mark.parametrize(("sent", "received"), [(0, 1e6), (2.2e9, 4.4e9), (26e9, 55e9)])
def test_a_link_that_takes_its_counters_round_many_times_a_second_has_its_true_rate(
    monkeypatch: pytest.MonkeyPatch, sent: float, received: float
) -> None:
    link, reader = BusyLink(monkeypatch, sent, received), TrafficReader()
    assert link.read(reader).pcie_sent is None
    for _ in range(5):
        link.wait(0.98)
        rates = link.read(reader)
        assert (rates.pcie_sent, rates.pcie_received) == (pytest.approx(sent, abs=2), pytest.approx(received, abs=2))


def test_what_a_link_did_since_the_last_reading_counts_also_where_it_rests_now(monkeypatch: pytest.MonkeyPatch) -> None:
    link, reader = BusyLink(monkeypatch, 3e9, 0), TrafficReader()
    link.read(reader)
    link.wait(0.98)
    link.rates[197] = 0
    assert link.read(reader).pcie_sent == pytest.approx(0.98 * 3e9, abs=2)


def test_a_burst_in_the_moment_of_a_reading_is_not_taken_for_the_whole_second(monkeypatch: pytest.MonkeyPatch) -> None:
    link, reader = BusyLink(monkeypatch, 0.5e9, 0), TrafficReader()
    link.read(reader)
    link.wait(0.98)
    link.read(reader)
    link.wait(0.88)
    link.rates[197] = 12e9
    link.wait(0.1)
    assert link.read(reader).pcie_sent == pytest.approx(0.88 * 0.5e9 + 0.12 * 12e9, abs=2)


def test_traffic_of_pcie_and_of_all_nvlinks(nvml_here: Load, monkeypatch: pytest.MonkeyPatch, reader: CardReader) -> None:
    now = 1000.0
    monkeypatch.setattr(cards.time, "monotonic", lambda: now)
    counted = "card 0 pcie_sent {}\ncard 0 pcie_received {}\ncard 0 nvlink_sent {}\ncard 0 nvlink_received {}\n"
    environment = nvml_here("count 1\n" + counted.format(1000, 2000, 10, 20))
    reader.sample()
    write(environment, "count 1\n" + counted.format(5000, 10000, 14, 28))
    now = 1002.0
    (card,) = reader.sample().devices
    assert (card.pcie.sent, card.pcie.received) == (2000, 4000)
    # NVML counts these in KiB.
    assert (card.nvlink.sent, card.nvlink.received) == (2 * 1024, 4 * 1024)


@pytest.mark.parametrize(("field", "silent"), [(197, "pcie.sent"), (198, "pcie.received"), (138, "nvlink.sent"), (139, "nvlink.received")])
def test_one_counter_that_a_driver_lacks_is_none_alone(nvml_here: Load, reader: CardReader, field: int, silent: str) -> None:
    nvml_here(f"count 1\nerror field-{field} 3\n")
    reader.sample()
    (card,) = reader.sample().devices
    rates = {f"{name}.{way}": getattr(getattr(card, name), way) for name in ("pcie", "nvlink") for way in ("sent", "received")}
    assert {name for name, rate in rates.items() if rate is None} == {silent}


@pytest.mark.parametrize(("kind", "value"), [(-1, None), (0, 5), (6, 8), (7, None)])
def test_a_counter_of_a_type_that_is_not_known_is_none(kind: int, value: int | None) -> None:
    union = SimpleNamespace(dVal=5.0, usVal=8)
    assert _value(SimpleNamespace(nvmlReturn=0, valueType=kind, value=union)) == value


def test_energy_has_a_call_of_its_own_on_drivers_without_the_field(nvml_here: Load, reader: CardReader) -> None:
    nvml_here("count 1\nerror field-83 3\ncard 0 energy 2500\n")
    (card,) = reader.sample().devices
    assert card.energy == 2.5


def test_all_cards_are_looked_at_and_counted_before_any_says_the_rest(
    nvml_here: Load, monkeypatch: pytest.MonkeyPatch, reader: CardReader
) -> None:
    """Each would have to be waited for alone else, and the last be counted long after the glance at it."""
    nvml_here("count 3\n")
    assert reader.glance() == 0.0, "no card is open"
    reader.sample()
    done: list[str] = []
    for name in ("glance", "count", "read"):
        plain = getattr(Card, name)

        def noted(card: Card, *arguments: Any, name: str = name, plain: Callable[..., Any] = plain) -> Any:
            done.append(f"{name} {card.handle.index}")
            return plain(card, *arguments)

        monkeypatch.setattr(Card, name, noted)
    assert reader.glance() == GLANCE_SECONDS
    reader.sample()
    assert done == [f"{name} {index}" for name in ("glance", "count", "read") for index in range(3)]


def test_where_nothing_counts_fast_there_is_nothing_to_wait_for(nvml_here: Load, reader: CardReader) -> None:
    nvml_here("count 1\nerror field-197 3\nerror field-198 3\n")
    reader.sample()
    assert reader.glance() == 0.0


def test_a_glance_that_fails_is_told_by_the_round_after_it(nvml_here: Load, monkeypatch: pytest.MonkeyPatch, reader: CardReader) -> None:
    nvml_here("count 1\n")
    reader.sample()

    def fail(card: Card) -> bool:
        raise OSError("no more")

    monkeypatch.setattr(Card, "glance", fail)
    assert reader.glance() == 0.0
    assert [card.status for card in reader.sample().devices] == ["ok"]
