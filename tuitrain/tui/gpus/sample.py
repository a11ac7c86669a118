"""What the numbers of a sample mean wherever they are shown: how full and how hot is worth a mark."""

from __future__ import annotations

from tuitrain.devices import DeviceSample, HostSample

FULL = 0.92
"""The share of a memory from which on it is marked."""
HOT = 85
"""°C from which on a card is marked."""


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
