"""The machine's devices as a list to choose from, and the words that a row says beside its numbers."""

from __future__ import annotations

import os

import msgspec

from tuitrain.devices.samples import DeviceSample, DeviceSnapshot, ProcessSample
from tuitrain.events import GpuSample

CPU = "cpu"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the picker.

    `name` is what `--device` takes ("cuda:0", "cpu"), or "gpu N" (NVML's number) for a card that cannot be chosen; `reason` then says why.
    `device` is the card, `None` for the cpu.
    """

    name: str
    title: str
    selectable: bool
    reason: str | None = None
    device: DeviceSample | None = None


def choices(snapshot: DeviceSnapshot) -> tuple[Choice, ...]:
    """Every card, those of CUDA in CUDA's order first, then the others; the cpu last."""
    cards = sorted(snapshot.devices, key=lambda card: (card.cuda_index is None, card.cuda_index or 0, card.nvml_index))
    cpu = Choice(name=CPU, title=snapshot.host.name, selectable=True)
    return (*(_card_choice(card) for card in cards), cpu)


def _card_choice(card: DeviceSample) -> Choice:
    name = f"gpu {card.nvml_index}" if card.cuda_index is None else f"cuda:{card.cuda_index}"
    selectable = card.cuda_index is not None and card.status == "ok"
    return Choice(name=name, title=card.name, selectable=selectable, reason=None if selectable else card.reason or card.status, device=card)


def free_cuda_devices(snapshot: DeviceSnapshot) -> list[int]:
    """CUDA ordinals of the healthy cards, most free memory first; a card that does not say how much is free comes last."""

    def free(card: DeviceSample) -> int:
        if card.memory_free is None and card.unified:
            return (snapshot.host.ram_total or 0) - (snapshot.host.ram_used or 0)
        return -1 if card.memory_free is None else card.memory_free

    healthy = [(card.cuda_index, free(card)) for card in snapshot.devices if card.cuda_index is not None and card.status == "ok"]
    return [ordinal for ordinal, _ in sorted(healthy, key=lambda pair: (-pair[1], pair[0]))]


def busy_words(device: DeviceSample) -> str | None:
    """Who else holds memory on the card, the largest first ("busy: alice python 18 GiB, 2 more"); `None` when nobody is seen."""
    others = [process for process in device.processes or () if process.pid != os.getpid()]
    if not others:
        return None
    largest = max(others, key=lambda process: process.memory or 0)
    more = f", {len(others) - 1} more" if len(others) > 1 else ""
    return f"busy: {_process_words(largest)}{more}"


def _process_words(process: ProcessSample) -> str:
    who = " ".join(word for word in (process.user, process.name) if word) or f"pid {process.pid} (not visible here)"
    return who if process.memory is None else f"{who} {_size(process.memory)}"


def _size(size: int) -> str:
    gib = size / 2**30
    return f"{gib:.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB" if gib >= 1 else f"{size / 2**20:.0f} MiB"


def device_events(snapshot: DeviceSnapshot) -> list[GpuSample]:
    """The snapshot as events for a run's store: one for each card that CUDA offers, named as `--device` names it, and one for the cpu."""
    cards = [
        GpuSample(
            time=snapshot.time,
            device=f"cuda:{card.cuda_index}",
            memory_used=card.memory_used,
            utilization=card.utilization,
            power=card.power,
            temperature=card.temperature,
        )
        for card in snapshot.devices
        if card.cuda_index is not None
    ]
    host = snapshot.host
    percent = None if host.cpu_percent is None else round(host.cpu_percent)
    cpu = GpuSample(time=snapshot.time, device=CPU, memory_used=host.ram_used, utilization=percent, power=None, temperature=None)
    return [*cards, cpu]
