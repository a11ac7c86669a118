"""What the machine's devices say at one moment, as frozen values. `None` always means "the driver does not say", never 0.

Bytes, percent (0..100), °C and W throughout. Every string is cleaned of control characters.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["ok", "hidden", "lost", "reset required", "no permission", "unknown error", "not responding"]


class ProcessSample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One process that holds memory on a card. `name` and `user` are `None` where the pid is not visible here (another container)."""

    pid: int
    name: str | None
    user: str | None
    memory: int | None


class DeviceSample(msgspec.Struct, frozen=True, kw_only=True):
    """One NVIDIA card at one moment.

    `nvml_index` is NVML's number; `cuda_index` is N of `cuda:N`, `None` where CUDA does not offer the card to this process.
    `reason` is a sentence wherever `status` is not "ok" or `cuda_index` is `None`.
    `unified` says that the card has no memory of its own and uses the system's.
    `processes` is `None` where the driver does not list them.
    """

    nvml_index: int
    cuda_index: int | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    name: str = "NVIDIA GPU"
    status: Status = "ok"
    reason: str | None = None
    unified: bool = False
    memory_used: int | None = None
    memory_total: int | None = None
    memory_free: int | None = None
    utilization: int | None = None
    memory_utilization: int | None = None
    temperature: int | None = None
    power: float | None = None
    power_cap: float | None = None
    processes: tuple[ProcessSample, ...] | None = None

    @property
    def key(self) -> str:
        """What identifies the card over time: its UUID, else its place on the bus, else NVML's number."""
        return self.uuid or self.pci_bus_id or f"nvml:{self.nvml_index}"


class CardsSample(msgspec.Struct, frozen=True, kw_only=True):
    """One round over all cards. `error` is a sentence where NVML as a whole does not answer; cards known before are then without values."""

    devices: tuple[DeviceSample, ...]
    driver_version: str | None
    error: str | None


class HostSample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """CPU and memory of the machine. `cores` are those this process may use; `cpu_percent` is over all of the machine's cores."""

    name: str
    cores: int
    cpu_percent: float | None
    ram_used: int | None
    ram_total: int | None


class DeviceSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known now.

    `time` is Unix seconds of this snapshot. `taken` is `time.monotonic()` of the last answer about the cards, `None` before the first one:
    then `devices` is empty because nobody knows yet. `error` is one sentence why cards are missing or not answering.
    `stalled_seconds` is how long the NVML call in progress has been hanging, 0 when none hangs.
    """

    time: float
    taken: float | None
    devices: tuple[DeviceSample, ...]
    host: HostSample
    driver_version: str | None
    error: str | None
    stalled_seconds: float


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One second of a device's past; `time` is Unix seconds. For the cpu: CPU percent and used RAM."""

    time: float
    utilization: float | None
    memory_used: int | None
    power: float | None
    temperature: int | None
