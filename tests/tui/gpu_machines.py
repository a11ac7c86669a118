"""Machines with many cards, processes and a past, for the GPU screen's tests and pictures."""

from __future__ import annotations

import functools
import math
import os
import time

from fakes import GIB, FakeSampler, card

from tuitrain.devices import DeviceSample, HistoryPoint, ProcessSample
from tuitrain.devices.samples import Clocks, Link

USERS = ("alice", "bob", "carol", "dan")
COMMANDS = (
    "python train.py --config configs/llama-70b.yaml --fsdp --batch-size 16",
    "/opt/conda/bin/python -m vllm.entrypoints.openai.api_server --model mistral",
    "python -m ipykernel_launcher -f /run/user/1000/jupyter/kernel-1.json",
)


def process(number: int, **changes: object) -> ProcessSample:
    """Somebody's process; number 0 is this app's own."""
    fields: dict[str, object] = {
        "pid": os.getpid() if number == 0 else 4_000_000 + number,
        "name": "python",
        "user": USERS[number % len(USERS)],
        "memory": (3 + number % 17) * GIB,
        "utilization": float(11 * number % 100),
        "kind": "C" if number % 5 else "C+G",
        "command": COMMANDS[number % len(COMMANDS)],
        "cpu_percent": 100.0 + 7 * number,
        "host_memory": (2 + number % 9) * GIB,
        "started": time.time() - 3700 * (number + 1),
    }
    return ProcessSample(**{**fields, **changes})  # type: ignore[arg-type]


def full_card(index: int, **changes: object) -> DeviceSample:
    """A card that says everything; every fourth is free."""
    free = index % 4 == 3
    processes = () if free else (process(2 * index), process(2 * index + 1))
    used = GIB // 4 if free else sum(one.memory or 0 for one in processes)
    fields: dict[str, object] = {
        "pci_bus_id": f"00000000:{0x18 + 8 * index:02X}:00.0",
        "uuid": f"GPU-5d8a7a2c-6a2f-4bd8-9d5c-0a8e1c1f{index:04d}",
        "memory_used": used,
        "memory_free": 80 * GIB - used,
        "memory_reserved": GIB // 2,
        "utilization": 0 if free else 60 + 5 * index % 40,
        "memory_utilization": 0 if free else 31,
        "temperature": 34 if free else 61 + index,
        "power": 71.0 if free else 412.0 + 30 * index,
        "energy": 3.2e9,
        "fan": 40,
        "performance_state": "P8" if free else "P0",
        "persistence": True,
        "display": False,
        "compute_mode": "default",
        "ecc": True,
        "ecc_errors": 0,
        "mig": False,
        "clocks": Clocks(graphics=1980, sm=1980, memory=2619, graphics_max=1980, memory_max=2619),
        "throttle": ("power cap",) if index == 1 else (),
        "pcie": Link(sent=1_200_000_000, received=310_000_000, generation=5, generation_max=5, width=16, width_max=16),
        "nvlink": Link(sent=21_000_000_000, received=20_500_000_000, lanes=18),
        "processes": processes,
    }
    return card(index, **{**fields, **changes})


def past_of(one: DeviceSample, seconds: int = 3600) -> list[HistoryPoint]:
    """A point a second up to now; with waves, so that graphs have something to show."""
    now, busy, memory, power, temperature = time.time(), one.utilization or 0, one.memory_used or 0, one.power or 0, one.temperature or 0
    return [
        HistoryPoint(
            time=now - ago,
            utilization=max(busy - less_busy, 0),
            memory_used=int(memory * in_use),
            power=power * loaded,
            temperature=round(temperature - cooler),
        )
        for ago, less_busy, in_use, loaded, cooler in _waves(seconds)
    ]


@functools.cache
def _waves(seconds: int) -> list[tuple[int, float, float, float, float]]:
    return [
        (
            ago,
            20 * (0.5 + math.sin(ago / 13) / 2),
            0.4 if ago % 900 > 600 else 1.0,
            0.9 + 0.1 * math.sin(ago / 17),
            4 * math.sin(ago / 200) ** 2,
        )
        for ago in range(seconds, -1, -1)
    ]


def new_machine(*cards: DeviceSample) -> FakeSampler:
    """A sampler of these cards, for what does not look at their past."""
    sampler = FakeSampler(*cards)
    sampler.driver, sampler.cuda = "570.86.15", "12.8"
    return sampler


def machine(*cards: DeviceSample) -> FakeSampler:
    """A sampler of these cards, with their past."""
    sampler = new_machine(*cards)
    sampler.past = {one.key: past_of(one) for one in cards}
    return sampler


def with_cards(count: int) -> FakeSampler:
    """A machine with so many cards."""
    return machine(*(full_card(index) for index in range(count)))
