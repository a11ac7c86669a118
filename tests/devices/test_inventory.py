"""The list to choose from and the words beside a card."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest

from tuitrain.devices import DeviceSample, DeviceSnapshot, HostSample, ProcessSample, busy_words, choices, device_events, free_cuda_devices
from tuitrain.events import GpuSample

GIB = 2**30
HOST = HostSample(name="Some CPU", cores=2, cpu_percent=10.0, ram_used=20 * GIB, ram_total=64 * GIB)


def snapshot(*devices: DeviceSample) -> DeviceSnapshot:
    """A snapshot with these cards."""
    return DeviceSnapshot(time=5.0, taken=1.0, devices=devices, host=HOST, driver_version="1", error=None, stalled_seconds=0.0)


def test_choices_are_in_cuda_order_then_what_cannot_be_chosen_then_the_cpu() -> None:
    listed = choices(
        snapshot(
            DeviceSample(nvml_index=0, cuda_index=1, name="B"),
            DeviceSample(nvml_index=1, status="hidden", reason="hidden by X"),
            DeviceSample(nvml_index=2, cuda_index=0, name="A"),
            DeviceSample(nvml_index=3, cuda_index=2, status="lost", reason="gone"),
        )
    )
    assert [(choice.name, choice.selectable, choice.reason) for choice in listed] == [
        ("cuda:0", True, None),
        ("cuda:1", True, None),
        ("cuda:2", False, "gone"),
        ("gpu 1", False, "hidden by X"),
        ("cpu", True, None),
    ]
    assert [choice.title for choice in listed] == ["A", "B", "NVIDIA GPU", "NVIDIA GPU", "Some CPU"]


def test_the_freest_card_comes_first_and_only_healthy_ones_count() -> None:
    seen = snapshot(
        DeviceSample(nvml_index=0, cuda_index=0, memory_free=10),
        DeviceSample(nvml_index=1, cuda_index=1, memory_free=30),
        DeviceSample(nvml_index=2, cuda_index=2, memory_free=99, status="lost"),
        DeviceSample(nvml_index=3, memory_free=99, status="hidden"),
        DeviceSample(nvml_index=4, cuda_index=3),
        DeviceSample(nvml_index=5, cuda_index=4, memory_free=30),
        DeviceSample(nvml_index=6, memory_free=30),
    )
    assert free_cuda_devices(seen) == [1, 4, 0, 3]
    assert free_cuda_devices(snapshot()) == []


def test_the_next_run_goes_where_this_process_has_a_context_already() -> None:
    ours = ProcessSample(pid=os.getpid(), name="python", user="u", memory=GIB // 2)
    foreign = msgspec.structs.replace(ours, foreign=True)
    total = 80 * GIB
    seen = snapshot(
        DeviceSample(nvml_index=0, cuda_index=0, memory_free=total - GIB, processes=(foreign,)),
        DeviceSample(nvml_index=1, cuda_index=1, memory_free=total - GIB // 2 - 2**20, processes=(ours,)),
        DeviceSample(nvml_index=2, cuda_index=2, memory_free=total, processes=()),
        DeviceSample(nvml_index=3, cuda_index=3, memory_free=total, processes=()),
    )
    assert free_cuda_devices(seen) == [1, 2, 3, 0]
    assert free_cuda_devices(seen, training=True) == [2, 3, 1, 0]


def test_a_card_that_lets_nobody_compute_is_not_offered_and_one_that_somebody_has_alone_comes_last() -> None:
    def process(pid: int, **changes: Any) -> ProcessSample:
        return ProcessSample(pid=pid, name=None, user=None, memory=None, **changes)

    def alone(number: int, *processes: ProcessSample) -> DeviceSample:
        mode = "exclusive process"
        return DeviceSample(nvml_index=number, cuda_index=number, memory_free=30, compute_mode=mode, processes=processes)

    theirs, drawing, ours = process(7), process(7, kind="G"), process(os.getpid())
    seen = snapshot(
        DeviceSample(nvml_index=0, cuda_index=0, memory_free=99, compute_mode="prohibited"),
        alone(1, theirs),
        alone(2, process(os.getpid(), foreign=True)),
        alone(3, ours),
        alone(4, drawing),
        alone(6, process(8, rank_of=os.getpid())),
        DeviceSample(nvml_index=5, cuda_index=5, memory_free=10, compute_mode="default", processes=(theirs,)),
    )
    assert free_cuda_devices(seen) == [3, 4, 5, 6, 1, 2]
    first, *others, _ = choices(seen)
    assert (first.selectable, first.reason) == (False, "its compute mode lets nobody compute (sudo nvidia-smi -i 0 -c DEFAULT)")
    assert all(choice.selectable for choice in others)


def test_instances_stand_under_their_card_wherever_cuda_counts_it() -> None:
    listed = choices(
        snapshot(
            DeviceSample(nvml_index=0, status="hidden", reason="beside an instance"),
            DeviceSample(nvml_index=1, uuid="GPU-1", status="hidden", reason="in MIG mode"),
            DeviceSample(nvml_index=1, parent="GPU-1", instance=2, status="hidden", reason="one only"),
            DeviceSample(nvml_index=1, parent="GPU-1", instance=0, cuda_index=0),
        )
    )
    assert [(choice.name, choice.selectable) for choice in listed] == [
        ("gpu 1", False),
        ("cuda:0", True),
        ("mig 1.2", False),
        ("gpu 0", False),
        ("cpu", True),
    ]


def test_busy_says_who_has_most_and_how_many_more() -> None:
    alice = ProcessSample(pid=2**22 + 1, name="python", user="alice", memory=18 * GIB)
    small = ProcessSample(pid=2**22 + 2, name="xorg", user="root", memory=int(1.5 * GIB))
    mine = ProcessSample(pid=os.getpid(), name="python", user="me", memory=30 * GIB)
    rank = ProcessSample(pid=2**22 + 4, name="python", user="me", memory=40 * GIB, rank_of=os.getpid())
    card = DeviceSample(nvml_index=0, cuda_index=0, processes=(small, alice, mine, rank))
    assert busy_words(card) == "busy: alice python 18 GiB, 1 more"
    assert busy_words(DeviceSample(nvml_index=0, processes=(small,))) == "busy: root xorg 1.5 GiB"
    assert busy_words(DeviceSample(nvml_index=0, processes=(mine, rank))) is None
    assert busy_words(DeviceSample(nvml_index=0)) is None


@pytest.mark.parametrize(
    ("kind", "name", "memory", "busy"),
    [
        ("G", "Xorg", 8 << 20, None),
        ("G", None, None, None),
        ("G", "game", 5 * GIB, "busy: u game 5.0 GiB"),
        ("C", "nvidia-cuda-mps-server", 30 << 20, None),
        ("M+C", "python", 2 * GIB, "busy: u python 2.0 GiB"),
    ],
)
def test_a_desktop_and_the_server_of_mps_are_in_nobodys_way(kind: str, name: str | None, memory: int | None, busy: str | None) -> None:
    one = ProcessSample(pid=2**22 + 1, name=name, user="u", memory=memory, kind=kind)
    card = DeviceSample(nvml_index=0, cuda_index=0, memory_free=GIB, compute_mode="exclusive process", processes=(one,))
    other = DeviceSample(nvml_index=1, cuda_index=1, memory_free=0, compute_mode="default", processes=())
    assert busy_words(card) == busy
    # The memory alone decides: none of them has the card for itself.
    assert free_cuda_devices(snapshot(card, other)) == [0, 1]


def test_the_host_of_the_run_that_is_looked_at_and_its_ranks_are_in_nobodys_way() -> None:
    host = ProcessSample(pid=2**22 + 1, name="tuitrain", user="me", memory=GIB)
    rank = ProcessSample(pid=2**22 + 2, name="tuitrain", user="me", memory=3 * GIB, rank_of=host.pid)
    card = DeviceSample(nvml_index=0, processes=(host, rank))
    assert busy_words(card) == "busy: me tuitrain 3.0 GiB, 1 more"
    assert busy_words(card, host.pid) is None
    assert busy_words(card, host.pid + 7) == busy_words(card)


def test_a_process_that_cannot_be_seen_is_named_by_its_number() -> None:
    foreign = ProcessSample(pid=2**22 + 3, name=None, user=None, memory=None)
    assert busy_words(DeviceSample(nvml_index=0, processes=(foreign,))) == f"busy: pid {2**22 + 3} (not visible here)"


def test_events_are_of_the_cards_that_cuda_offers_and_of_the_cpu() -> None:
    seen = snapshot(
        DeviceSample(nvml_index=1, cuda_index=0, memory_used=7, utilization=80, power=412.5, temperature=61),
        DeviceSample(nvml_index=0, status="hidden", utilization=1),
    )
    card, cpu = device_events(seen)
    assert card == GpuSample(time=5.0, device="cuda:0", memory_used=7, utilization=80, power=412.5, temperature=61)
    assert cpu == GpuSample(time=5.0, device="cpu", memory_used=20 * GIB, utilization=10, power=None, temperature=None)


def test_a_cpu_that_was_not_counted_yet_says_so() -> None:
    first = msgspec.structs.replace(snapshot(), host=msgspec.structs.replace(HOST, cpu_percent=None, ram_used=None))
    (cpu,) = device_events(first)
    assert (cpu.utilization, cpu.memory_used) == (None, None)
