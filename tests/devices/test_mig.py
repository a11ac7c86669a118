"""MIG: instances as rows under their card, and which of them CUDA gives to a process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nvml_stub.fixture import write

from tuitrain.devices import DeviceSample, cards
from tuitrain.devices.cards import CardReader
from tuitrain.devices.visible import with_cuda_indexes

GIB = 2**30
Load = Callable[[str], dict[str, str]]
PCI_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

PARTED = """
count 2
card 0 mig 1
instance 0 0 memory_total 10737418240
instance 0 0 name NVIDIA H100 80GB HBM3 MIG 1g.10gb
instance 0 3 memory_used 2147483648
process 0.3 compute 4194305 1073741824
process 0 compute 4194305 1073741824
"""


def test_instances_are_rows_after_their_card(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(PARTED)
    card, first, second, other = reader.sample().devices
    assert [(row.nvml_index, row.instance) for row in (card, first, second, other)] == [(0, None), (0, 0), (0, 3), (1, None)]
    assert (card.mig, card.parent, card.processes, card.temperature) == (True, None, None, 35)
    assert (first.parent, second.parent) == (card.uuid, card.uuid)
    assert first.uuid == "MIG-00000000-0000-2222-3333-444444444444"
    assert first.name == "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert (first.memory_total, second.memory_used) == (10 * GIB, 2 * GIB)
    assert (first.utilization, card.utilization, other.utilization) == (None, None, 7)
    assert [process.pid for process in second.processes or ()] == [4194305]
    assert (first.processes, other.mig) == ((), False)


def test_a_card_that_does_not_say_how_many_instances_it_may_have_is_one_row(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(PARTED + "error nvmlDeviceGetMaxMigDeviceCount 3\n")
    sample = reader.sample()
    assert ([(row.nvml_index, row.instance) for row in sample.devices], sample.error) == ([(0, None), (1, None)], None)


def test_a_process_gets_the_first_instance_and_nothing_else(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(PARTED)
    rows = reader.sample().devices
    assert [(row.cuda_index, row.status) for row in rows] == [(None, "hidden"), (0, "ok"), (None, "hidden"), (None, "hidden")]
    assert [row.reason for row in rows] == [
        "in MIG mode: choose one of its instances",
        None,
        f"a process sees one MIG instance only; for this one set CUDA_VISIBLE_DEVICES={rows[2].uuid}",
        f"CUDA offers no whole card beside a MIG instance; for this one set CUDA_VISIBLE_DEVICES={rows[3].uuid}",
    ]


@pytest.mark.parametrize(
    ("value", "offered"),
    [
        ("MIG-00000000-0003-2222-3333-444444444444", (0, 3)),
        ("MIG-00000000-0003", (0, 3)),
        ("MIG-00000000-0003,MIG-00000000-0000", (0, 3)),
        ("MIG-00000000", None),
        ("MIG-ffffffff,MIG-00000000-0000", None),
        ("1", (1, None)),
        ("GPU-00000001", (1, None)),
        ("0", (0, 0)),
        ("1,0", (0, 0)),
        ("", None),
    ],
)
def test_visible_devices_choose_among_instances(
    nvml_here: Load, monkeypatch: pytest.MonkeyPatch, reader: CardReader, value: str, offered: tuple[int, int | None] | None
) -> None:
    nvml_here(PARTED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    rows = reader.sample().devices
    assert {(row.nvml_index, row.instance): row.cuda_index for row in rows if row.cuda_index is not None} == (
        {offered: 0} if offered else {}
    )
    assert all(row.reason for row in rows if row.cuda_index is None)


def test_an_entry_that_names_no_instance_is_shown(nvml_here: Load, monkeypatch: pytest.MonkeyPatch, reader: CardReader) -> None:
    nvml_here(PARTED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-\x1bx")
    reasons = {row.reason for row in reader.sample().devices}
    assert reasons == {'CUDA_VISIBLE_DEVICES="MIG-·x": CUDA stops reading at "MIG-·x", which names no MIG instance'}


def test_a_card_in_mig_mode_without_instances_is_skipped(nvml_here: Load, reader: CardReader) -> None:
    nvml_here("count 2\ncard 0 mig 1\n")
    parted, whole = reader.sample().devices
    assert (parted.cuda_index, whole.cuda_index, whole.status) == (None, 0, "ok")
    assert "close tuitrain, then: sudo nvidia-smi -i 0 -mig 0" in str(parted.reason)


def test_an_instance_that_is_taken_away_leaves_at_the_next_look_and_others_come(
    nvml_here: Load, monkeypatch: pytest.MonkeyPatch, reader: CardReader
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(cards.time, "monotonic", lambda: clock[0])
    environment = nvml_here(PARTED)
    reader.sample()
    write(environment, "count 2\ncard 0 mig 1\ninstance 0 1 memory_used 1\n")
    clock[0] += 1
    reader.sample()
    clock[0] += 1
    assert [row.instance for row in reader.sample().devices] == [None, 1, None]


def test_a_lost_card_takes_its_instances_with_it_and_brings_them_back(nvml_here: Load, reader: CardReader) -> None:
    environment = nvml_here(PARTED)
    before = reader.sample().devices
    asked = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", "nvmlDeviceGetHandleByIndex_v2")  # older bindings have no first one
    write(environment, PARTED + "".join(f"error {function} 15 0\n" for function in asked))
    for _ in range(2):
        rows = reader.sample().devices
        assert [row.key for row in rows] == [row.key for row in before]
        assert [row.status for row in rows[:3]] == ["lost", "lost", "lost"]
        assert rows[1].memory_used is None
    write(environment, PARTED)
    assert reader.sample().devices == before


def test_memory_of_an_instance_is_never_the_systems(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(PARTED + "instance 0 0 memory_total -\n")
    first = reader.sample().devices[1]
    assert (first.unified, first.memory_total, first.status) == (False, None, "ok")


def test_rows_without_a_uuid_do_not_share_a_key() -> None:
    rows = [DeviceSample(nvml_index=0), DeviceSample(nvml_index=0, instance=0), DeviceSample(nvml_index=0, instance=1)]
    assert len({row.key for row in rows}) == 3
    assert [row.cuda_index for row in with_cuda_indexes(rows, PCI_ORDER)] == [None, 0, None]
