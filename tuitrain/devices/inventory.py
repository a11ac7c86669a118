"""The machine's devices as a list to choose from, and the words that a row says beside its numbers."""

from __future__ import annotations

import os

import msgspec

from tuitrain.devices.fields import PROHIBITED, default_mode, is_exclusive
from tuitrain.devices.samples import DeviceSample, DeviceSnapshot, ProcessSample
from tuitrain.events import GpuSample
from tuitrain.words import roughly

CPU = "cpu"

_WITH_A_CONTEXT = 256 * 2**20
"""What the driver may have taken beside a context of ours without counting it as our process's."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the picker.

    `name` is what `--device` takes ("cuda:0", "cpu"), or "gpu N" (NVML's number) or "mig N.K" (instance K of that card) for one that cannot
    be chosen; `reason` then says why. `device` is the card or instance, `None` for the cpu. `well` says that nothing is wrong with it, also
    where it cannot be chosen.
    """

    name: str
    title: str
    selectable: bool
    well: bool
    reason: str | None = None
    device: DeviceSample | None = None


def choices(snapshot: DeviceSnapshot, barred: str = "") -> tuple[Choice, ...]:
    """Every card with its MIG instances under it, those of CUDA in CUDA's order first, then the others; the cpu last.

    Args:
        snapshot: what the devices say.
        barred: why no run can take any card, where that is so.
    """
    # A card or one of its instances, never both.
    offered = {row.nvml_index: row.cuda_index for row in snapshot.devices if row.cuda_index is not None}

    def order(row: DeviceSample) -> tuple[bool, int, int, int]:
        ordinal = offered.get(row.nvml_index)
        return ordinal is None, ordinal or 0, row.nvml_index, -1 if row.instance is None else row.instance

    cpu = Choice(name=CPU, title=snapshot.host.name, selectable=True, well=True)
    return (*(_card_choice(row, barred) for row in sorted(snapshot.devices, key=order)), cpu)


def device_name(card: DeviceSample) -> str:
    """How lists call a card or instance: "cuda:0", else "gpu 0", else "mig 0.1"."""
    if card.cuda_index is not None:
        return f"cuda:{card.cuda_index}"
    return f"gpu {card.nvml_index}" if card.instance is None else f"mig {card.nvml_index}.{card.instance}"


def _card_choice(card: DeviceSample, barred: str) -> Choice:
    well = card.cuda_index is not None and _computes(card)
    why = f"its compute mode lets nobody compute ({default_mode(str(card.nvml_index))})" if card.status == "ok" else card.status
    reason = (barred or None) if well else card.reason or why
    return Choice(name=device_name(card), title=card.name, selectable=reason is None, well=well, reason=reason, device=card)


def _computes(card: DeviceSample) -> bool:
    """Whether the card is healthy and lets processes compute."""
    return card.status == "ok" and card.compute_mode != PROHIBITED


def free_cuda_devices(snapshot: DeviceSnapshot, *, training: bool = False) -> list[int]:
    """CUDA ordinals of the healthy cards that let processes compute, most free memory first.

    A card that does not say how much is free comes after those, and then one that somebody has for himself, by its compute mode.

    Args:
        snapshot: the cards.
        training: whether a run of this process is on one of them. Else what this process holds is free for its next run: the contexts of
            earlier ones, without which each run would go to another card and leave one more there.
    """
    healthy = [
        (_is_taken(card), 1 if card.memory_free is None else -card.memory_free - (0 if training else _ours(card)), card.cuda_index)
        for card in snapshot.devices
        if card.cuda_index is not None and _computes(card)
    ]
    return [ordinal for *_, ordinal in sorted(healthy)]


def _ours(card: DeviceSample) -> int:
    """Bytes that are held there for this process; 0 where the driver does not list it, as in a container."""
    ours = [process for process in card.processes or () if process.ours]
    return sum(process.memory or 0 for process in ours) + (_WITH_A_CONTEXT if ours else 0)


def _is_taken(card: DeviceSample) -> bool:
    """Whether another process keeps ours from the card."""
    return is_exclusive(card.compute_mode) and any(one.foreign or one.pid != os.getpid() for one in computing_alone(card))


def computing_alone(card: DeviceSample) -> list[ProcessSample]:
    """The processes that compute on the card by themselves. Where it is for one process at a time they keep all others away; through MPS,
    which is then that one, many compute."""
    return [process for process in card.processes or () if process.kind in ("C", "C+G") and process.wants_the_card]


def busy_words(device: DeviceSample, host: int | None = None) -> str | None:
    """Who else wants the card, the largest first ("busy: alice python 18 GiB, 2 more"); `None` when nobody is seen who does.

    Args:
        device: the card.
        host: the process that trains the run which is looked at, and is in nobody's way there, nor are its ranks.
    """
    wanting = [process for process in device.processes or () if process.wants_the_card]
    others = [process for process in wanting if not process.ours and not process.belongs_to(host)]
    if not others:
        return None
    largest = max(others, key=lambda process: process.memory or 0)
    more = f", {len(others) - 1} more" if len(others) > 1 else ""
    return f"busy: {_process_words(largest)}{more}"


def _process_words(process: ProcessSample) -> str:
    who = " ".join(word for word in (process.user, process.name) if word) or f"pid {process.pid} (not visible here)"
    return who if process.memory is None else f"{who} {roughly(process.memory)}"


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
