"""What torch's allocator holds on the devices of a run. Reading that asks torch's own books, never the device."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tuitrain.events import TensorMemory

STATS_SECONDS = 1.0
"""How often the statistics of replicas are told, and this with them."""


@dataclass(frozen=True)
class Memory:
    """What torch's allocator holds for a run.

    Attributes:
        peaks: for each replica, the most bytes of tensors that there were on its device; `None` on the CPU.
        held: each CUDA device as it is now.
    """

    peaks: tuple[int | None, ...]
    held: tuple[TensorMemory, ...]


def memory_of(devices: Sequence[str]) -> Memory:
    """What this process's allocator holds on its replicas' `devices`."""
    peaks = tuple(torch.cuda.max_memory_allocated(device) if device.startswith("cuda") else None for device in devices)
    return Memory(peaks, tensor_memory(devices))


def tensor_memory(devices: Sequence[str]) -> tuple[TensorMemory, ...]:
    """One event for each CUDA device among `devices`, as it is now; none for a run on the CPU."""
    now = time.time()
    events = []
    for device in dict.fromkeys(devices):
        if device.startswith("cuda"):
            uuid, allocated, reserved = read(device)
            events.append(TensorMemory(time=now, device=device, uuid=uuid, allocated=allocated, reserved=reserved))
    return tuple(events)


def free_on(card: torch.device) -> int:
    """Bytes that tensors can still have there: those that the driver says, and those that torch has kept of tensors that are gone."""
    return torch.cuda.mem_get_info(card)[0] + torch.cuda.memory_reserved(card) - torch.cuda.memory_allocated(card)


def read(device: str) -> tuple[str | None, int, int]:
    """The card's UUID (`None` where this torch does not know it), bytes of tensors, and bytes taken from the driver for tensors."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return None if uuid is None else f"GPU-{uuid}", torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
