"""The CPU and the memory of the machine, or what a container or a batch job has of them."""

from __future__ import annotations

import os
import platform
import re
import time

import msgspec

from tuitrain.allowance import Allowance, Memory
from tuitrain.devices.samples import HostSample
from tuitrain.text import clean

_MODEL = re.compile(rb"^(?:model name|Hardware|Model)\s*:\s*(\S.*)$", re.MULTILINE)


class HostReader:
    """Reads the host; `read` belongs to one thread, because CPU percent is counted from its last call."""

    def __init__(self, allowance: Allowance | None = None) -> None:
        self._allowance = allowance or Allowance()
        total = _ram_total()
        most = None if total is None else self._allowance.memory(Memory(0, total)).total
        cores, quota = self._allowance.processors(), self._allowance.quota
        self._fixed = HostSample(name=_cpu_name(), cores=cores, cpu_percent=None, ram_used=None, ram_total=most, quota=quota)
        self._counting = False
        self._busy: tuple[float, float] | None = None

    def at_once(self) -> HostSample:
        """What takes no time to learn: name, cores and size of the memory."""
        return self._fixed

    def read(self) -> HostSample:
        """One sample; `cpu_percent` is since the last one, and `None` in the first."""
        # psutil takes longer to import than the first frame may wait for it.
        import psutil

        memory = self._allowance.memory_now()
        percent = psutil.cpu_percent(None) if self._allowance.quota is None else self._percent_of_quota(self._allowance.quota)
        known, self._counting = self._counting, True
        return msgspec.structs.replace(self._fixed, cpu_percent=percent if known else None, ram_used=memory.used, ram_total=memory.total)

    def _percent_of_quota(self, quota: float) -> float | None:
        busy, before = self._allowance.busy_seconds(), self._busy
        if busy is None:
            return None
        self._busy = now = (busy, time.monotonic())
        if before is None or now[1] <= before[1]:
            return None
        return max(0.0, min(100.0, 100 * (now[0] - before[0]) / (quota * (now[1] - before[1]))))


def _cpu_name() -> str:
    try:
        # Unbuffered and only its start: the kernel makes the text while it is read, and with hundreds of cores that takes a while.
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            match = _MODEL.search(file.read(4096))
    except OSError:
        match = None
    name = match[1].decode(errors="replace") if match else platform.machine()
    return clean(" ".join(name.split())) or "CPU"


def _ram_total() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
