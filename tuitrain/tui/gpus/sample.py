"""What a sample says wherever it is shown: how full and how hot is worth a mark, how old it is, and what is wrong as a whole."""

from __future__ import annotations

import time

from tuitrain.devices import DeviceSample, DeviceSnapshot, HostSample

FULL = 0.92
"""The share of a memory from which on it is marked."""
HOT = 85
"""°C from which on a card is marked."""
STALE_SECONDS = 3.0
"""Cards that have not answered for so long have old values."""


def memory_share(card: DeviceSample) -> float | None:
    """The part of its memory that is in use, 0..1."""
    return None if card.memory_used is None or not card.memory_total else card.memory_used / card.memory_total


def ram_share(host: HostSample) -> float | None:
    """The part of the machine's memory that is in use, 0..1."""
    return None if host.ram_used is None or not host.ram_total else host.ram_used / host.ram_total


def is_full(share: float | None) -> bool:
    """Whether so much of a memory is worth a mark."""
    return share is not None and share > FULL


def is_hot(card: DeviceSample) -> bool:
    """Whether the card is so warm that it is marked."""
    return card.temperature is not None and card.temperature >= HOT


def age_of(snapshot: DeviceSnapshot) -> float | None:
    """Seconds since the cards last answered, `None` while that is not long."""
    if snapshot.taken is None or not snapshot.devices:
        return None
    age = time.monotonic() - snapshot.taken
    return age if age >= STALE_SECONDS else None


def problem_of(snapshot: DeviceSnapshot) -> str | None:
    """One sentence on why cards are missing or old; of a call that hangs the sampler's own says so."""
    return snapshot.error or ("looking for GPUs…" if snapshot.taken is None else None)
