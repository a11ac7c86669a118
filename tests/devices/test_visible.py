"""CUDA_VISIBLE_DEVICES by torch's rules, and which card is which `cuda:N`."""

from __future__ import annotations

import pytest

from tuitrain.devices.samples import DeviceSample
from tuitrain.devices.visible import resolve, with_cuda_indexes

UUIDS = ["GPU-aaaa-1", "GPU-abbb-2", "GPU-cccc-3"]
PCI_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def card(index: int, pci: str | None = None, **fields: object) -> DeviceSample:
    """A card whose place on the bus is `pci`, its NVML number unless told."""
    return DeviceSample(nvml_index=index, uuid=UUIDS[index], pci_bus_id=pci or f"00000000:{index:02X}:00.0", **fields)


@pytest.mark.parametrize(
    ("value", "places"),
    [
        (None, (0, 1, 2)),
        ("0,2,-1,1", (0, 2)),
        ("2,0", (2, 0)),
        (" 1 , 0 ", (1, 0)),
        ("0,0", ()),
        ("0,9,0", ()),
        ("0,9,1", (0,)),
        ("0,3,1", (0,)),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("all", ()),
        ("0;1", (0,)),
        ("1gpu2,2ampere", (1, 2)),
        ("+1,0", (1, 0)),
        ("+", ()),
        ("0,GPU-cccc", (0,)),
        ("GPU-cccc,1", (2,)),
        ("GPU-cccc-3,GPU-aa", (2, 0)),
        ("GPU-a", ()),
        ("GPU-aaaa,GPU-a", (0,)),
        ("GPU-aaaa,GPU-aaaa", ()),
        ("GPU-aaaa,GPU-aaaa-1", ()),
        ("GPU-dddd,GPU-aaaa", ()),
        ("MIG-aaaa", ()),
    ],
)
def test_visible_devices_are_read_as_torch_reads_them(value: str | None, places: tuple[int, ...]) -> None:
    assert resolve(value, UUIDS).places == places


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("1", 'hidden by CUDA_VISIBLE_DEVICES="1"'),
        ("", 'hidden by CUDA_VISIBLE_DEVICES=""'),
        ("0,9,1", 'hidden by CUDA_VISIBLE_DEVICES="0,9,1"; CUDA stops reading at "9", which names no card'),
        ("0,0", 'CUDA_VISIBLE_DEVICES="0,0" names a card twice, and that hides every card'),
        ("0\x1b[2J", 'hidden by CUDA_VISIBLE_DEVICES="0·[2J"'),
    ],
)
def test_the_reason_names_the_value_and_the_slip(value: str, reason: str) -> None:
    assert resolve(value, UUIDS).why_hidden == reason


def test_numbers_count_in_pci_order_and_not_in_nvml_order() -> None:
    cards = [card(0, "00000000:C1:00.0"), card(1, "00000000:0A:00.0"), card(2, "00000001:00:00.0")]
    assert [card.cuda_index for card in with_cuda_indexes(cards, PCI_ORDER)] == [1, 0, 2]
    chosen = with_cuda_indexes(cards, PCI_ORDER | {"CUDA_VISIBLE_DEVICES": "1"})
    assert [card.cuda_index for card in chosen] == [0, None, None]
    assert [card.status for card in chosen] == ["ok", "hidden", "hidden"]


def test_uuids_name_cards_wherever_they_sit() -> None:
    cards = [card(0, "00000000:C1:00.0"), card(1, "00000000:0A:00.0"), card(2, "00000000:0B:00.0")]
    named = with_cuda_indexes(cards, {"CUDA_VISIBLE_DEVICES": "GPU-cccc,GPU-aaaa"})
    assert [card.cuda_index for card in named] == [1, None, 0]


def test_a_card_that_may_not_be_opened_takes_no_number_and_keeps_its_status() -> None:
    cards = [card(0, status="no permission", reason="not yours"), card(1), card(2)]
    seen = with_cuda_indexes(cards, PCI_ORDER)
    assert [card.cuda_index for card in seen] == [None, 0, 1]
    assert (seen[0].status, seen[0].reason) == ("no permission", "not yours")


def test_a_lost_card_keeps_its_number_and_loses_it_when_hidden() -> None:
    cards = [card(0, status="lost", cuda_index=0), card(1)]
    assert [card.cuda_index for card in with_cuda_indexes(cards, PCI_ORDER)] == [0, 1]
    assert [card.cuda_index for card in with_cuda_indexes(cards, PCI_ORDER | {"CUDA_VISIBLE_DEVICES": "1"})] == [None, 0]


def test_without_pci_order_different_cards_have_no_known_number() -> None:
    unlike = [card(0, name="A"), card(1, name="B")]
    for environment in ({}, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, {"CUDA_VISIBLE_DEVICES": "0,1"}):
        seen = with_cuda_indexes(unlike, environment)
        assert [card.cuda_index for card in seen] == [None, None]
        assert "CUDA_DEVICE_ORDER" in str(seen[0].reason)
    assert [card.cuda_index for card in with_cuda_indexes(unlike, PCI_ORDER)] == [0, 1]
    lost = with_cuda_indexes([card(0, name="A", status="lost", reason="it fell"), card(1, name="B")], {})
    assert lost[0].reason == "it fell"
    alike = [card(0, name="A"), card(1, name="A")]
    assert [card.cuda_index for card in with_cuda_indexes(alike, {})] == [0, 1]
    by_uuid = with_cuda_indexes(unlike, {"CUDA_VISIBLE_DEVICES": "GPU-abbb"})
    assert [card.cuda_index for card in by_uuid] == [None, 0]
