"""The CPU and the memory of the machine."""

from __future__ import annotations

import os
import platform
import re

import msgspec

from tuitrain.devices.samples import HostSample
from tuitrain.text import clean

_MODEL = re.compile(rb"^(?:model name|Hardware|Model)\s*:\s*(\S.*)$", re.MULTILINE)


class HostReader:
    """Reads the host; `read` belongs to one thread, because CPU percent is counted from its last call."""

    def __init__(self) -> None:
        self._fixed = HostSample(name=_cpu_name(), cores=_cores(), cpu_percent=None, ram_used=None, ram_total=_ram_total())
        self._counting = False

    def at_once(self) -> HostSample:
        """What takes no time to learn: name, cores and size of the memory."""
        return self._fixed

    def read(self) -> HostSample:
        """One sample; `cpu_percent` is since the last one, and `None` in the first."""
        # psutil takes longer to import than the first frame may wait for it.
        import psutil

        memory = psutil.virtual_memory()
        percent = psutil.cpu_percent(None)
        known, self._counting = self._counting, True
        return msgspec.structs.replace(
            self._fixed,
            cpu_percent=percent if known else None,
            ram_used=memory.total - memory.available,
            ram_total=memory.total,
        )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
