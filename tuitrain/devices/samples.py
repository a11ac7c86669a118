"""What the machine's devices say at one moment, as frozen values. `None` always means "the driver does not say", never 0.

Bytes, percent (0..100), °C and W throughout. Every string is cleaned of control characters.
"""

from __future__ import annotations

import os
from typing import Literal

import msgspec

UNNAMED = "NVIDIA GPU"
"""A card that does not say its name."""

Status = Literal["ok", "hidden", "lost", "reset required", "no permission", "unknown error", "not responding"]
MPS_PROGRAMS = "nvidia-cuda-mps"
"""What the names of MPS's daemon and server begin with; the system may cut a name there, after 15 characters."""

_OF_A_DESKTOP = 2**30
"""Bytes on a card up to which drawing is no more than a desktop."""


class ProcessSample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One process on a card.

    `kind` is "C" (computes), "G" (draws), "C+G", or "M+C" (computes through MPS). `name` and `user` are `None` where this machine, or this
    container, does not see the process; `foreign` says that the number is another container's or the host's and means nothing here.
    `memory` is bytes on the card, `utilization` how much of its time the process took of late (0..100), `host_memory` bytes of RAM,
    `cpu_percent` of one core, `started` Unix seconds. `rank_of` is the number of the process that hosts the run of which it is a rank.
    """

    pid: int
    name: str | None
    user: str | None
    memory: int | None
    utilization: float | None = None
    kind: str = "C"
    command: str | None = None
    foreign: bool = False
    cpu_percent: float | None = None
    host_memory: int | None = None
    started: float | None = None
    rank_of: int | None = None

    def belongs_to(self, host: int | None) -> bool:
        """Whether it is that process, or a rank of its run; the number of a foreign one is another's by accident."""
        return host is not None and not self.foreign and host in (self.pid, self.rank_of)

    @property
    def ours(self) -> bool:
        """Whether it is this process, or a rank of its run."""
        return self.belongs_to(os.getpid())

    @property
    def wants_the_card(self) -> bool:
        """Whether it may be in the way of training: neither a desktop, which takes a little memory to draw, nor the server of MPS, through
        which others compute."""
        if self.kind == "G":
            return (self.memory or 0) > _OF_A_DESKTOP
        return not self.serves_mps

    @property
    def serves_mps(self) -> bool:
        """Whether it is MPS's server or daemon."""
        return (self.name or "").startswith(MPS_PROGRAMS)

    @property
    def short_command(self) -> str | None:
        """`command` without the folder of its program: a virtual environment's path would leave a list no room for the script."""
        if self.command is None:
            return None
        program, space, arguments = self.command.partition(" ")
        return (program.rpartition("/")[2] or program) + space + arguments


class Clocks(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """MHz now, and at most."""

    graphics: int | None = None
    sm: int | None = None
    memory: int | None = None
    graphics_max: int | None = None
    memory_max: int | None = None


class Link(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Traffic of a card in bytes a second. `generation` and `width` are PCIe's; `lanes` counts NVLinks that are up."""

    sent: int | None = None
    received: int | None = None
    generation: int | None = None
    generation_max: int | None = None
    width: int | None = None
    width_max: int | None = None
    lanes: int | None = None


class DeviceSample(msgspec.Struct, frozen=True, kw_only=True):
    """One NVIDIA card, or one MIG instance of a card, at one moment.

    `nvml_index` is NVML's number (an instance has its card's); `cuda_index` is N of `cuda:N`, `None` where CUDA does not offer the card to
    this process. `parent` is the UUID of the card that an instance is part of, `instance` NVML's number of it there; both are `None` for a
    card.
    `reason` is a sentence wherever `status` is not "ok" or `cuda_index` is `None`.
    `unified` says that the card has no memory of its own and uses the system's: the memory is then the system's.
    `memory_used` is without the driver's `memory_reserved` where the driver tells them apart.
    `fan` is percent; `energy` is J since the driver was loaded; `ecc_errors` counts uncorrected errors since then, while `ecc` is on.
    `throttle` says in words why the clocks are held down, and is empty where nothing holds them.
    `processes` is `None` where the driver does not list them, and for a card with MIG instances, which have them.
    """

    nvml_index: int
    cuda_index: int | None = None
    uuid: str | None = None
    parent: str | None = None
    instance: int | None = None
    pci_bus_id: str | None = None
    name: str = UNNAMED
    status: Status = "ok"
    reason: str | None = None
    unified: bool = False
    memory_used: int | None = None
    memory_total: int | None = None
    memory_free: int | None = None
    memory_reserved: int | None = None
    utilization: int | None = None
    memory_utilization: int | None = None
    temperature: int | None = None
    power: float | None = None
    power_cap: float | None = None
    energy: float | None = None
    fan: int | None = None
    performance_state: str | None = None
    persistence: bool | None = None
    display: bool | None = None
    compute_mode: str | None = None
    ecc: bool | None = None
    ecc_errors: int | None = None
    mig: bool | None = None
    clocks: Clocks = Clocks()
    throttle: tuple[str, ...] | None = None
    pcie: Link = Link()
    nvlink: Link = Link()
    processes: tuple[ProcessSample, ...] | None = None

    @property
    def key(self) -> str:
        """What identifies the card over time: its UUID, else its place on the bus, else NVML's number."""
        if self.uuid:
            return self.uuid
        card = self.pci_bus_id or f"nvml:{self.nvml_index}"
        return card if self.instance is None else f"{card}/{self.instance}"


class CardsSample(msgspec.Struct, frozen=True, kw_only=True):
    """One round over all cards. `error` is a sentence where NVML as a whole does not answer; cards known before are then without values."""

    devices: tuple[DeviceSample, ...]
    driver_version: str | None
    error: str | None
    cuda_version: str | None = None


class HostSample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """CPU and memory of the machine, or of the container or job, where one limits them.

    `cores` are those this process may use at once; `cpu_percent` is of all of the machine's cores, or of the quota.
    """

    name: str
    cores: int
    cpu_percent: float | None
    ram_used: int | None
    ram_total: int | None
    quota: float | None = None
    """How many cores' time the container or job may use, where that is limited."""


class DeviceSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known now.

    `time` is Unix seconds of this snapshot. `taken` is `time.monotonic()` of the last answer about the cards, `None` before the first one:
    then `devices` is empty because nobody knows yet. `error` is one sentence why cards are missing or not answering.
    `cuda_version` is the newest CUDA that the driver speaks ("12.8").
    `stalled_seconds` is how long the NVML call in progress has been hanging, 0 when none hangs.
    """

    time: float
    taken: float | None
    devices: tuple[DeviceSample, ...]
    host: HostSample
    driver_version: str | None
    error: str | None
    stalled_seconds: float
    cuda_version: str | None = None

    @property
    def silent(self) -> bool:
        """NVML has not answered, now or at all: which cards there are, nobody knows."""
        return self.taken is None or self.stalled_seconds > 0


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One second of a device's past; `time` is Unix seconds. For the cpu: CPU percent and used RAM."""

    time: float
    utilization: float | None
    memory_used: int | None
    power: float | None
    temperature: int | None
