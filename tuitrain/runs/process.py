"""Which process has a run, and whether it is still there: here, on another host, or in another container."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
# Elsewhere than on Linux the start time is computed from the clock, which may be set a little between two readings.
_START_TOLERANCE = 2.0


class Process(msgspec.Struct, frozen=True):
    """What names a process among all of all machines."""

    host: str
    pid: int
    pid_started: float | None
    """When it started: a later process may get the same pid. Seconds after the machine did, which no clock that is set changes; Unix
    seconds where the system is not Linux."""
    boot_id: str | None
    pid_namespace: int | None = None
    """Within which `pid` says which process: a container that has the host's name has its own processes."""


def host_name() -> str:
    """What this machine calls itself."""
    import socket  # a list of runs that have all ended does without

    return socket.gethostname()


def this_process() -> Process:
    """Host, pid and so on of the calling process."""
    return process_of(os.getpid())


def process_of(pid: int) -> Process:
    """The same of another process of this machine."""
    return Process(host_name(), pid, start_time(pid), _boot_id(), _pid_namespace())


def runs_here(process: Process) -> bool:
    """Whether a process that is in sight still runs; its pid may be another one's by now."""
    return is_same(process.pid, process.pid_started)


def is_same(pid: int, started: float | None) -> bool:
    """Whether process `pid` of this machine runs and is the one that had `started`, as `start_time` said; `None`: whoever has the pid."""
    start = start_time(pid)
    return start is not None and (started is None or abs(start - started) <= _START_TOLERANCE)


def is_of_earlier_boot(process: Process, heard: float) -> bool:
    """Whether a process of another boot of a machine of this name was last heard of before this machine started. One that was heard of
    later is of another machine."""
    return process.host == host_name() and process.boot_id != _boot_id() and heard < _booted()


def is_of_this_boot(process: Process) -> bool:
    """Whether it is, or was, a process of this machine since it started, of whichever container."""
    return process.boot_id is not None and process.boot_id == _boot_id()


def uptime() -> float:
    """How many seconds ago this machine started."""
    return time.time() - _booted()


def is_out_of_sight(process: Process) -> bool:
    """Whether its pid says nothing here: it is of another host, of another boot or machine of this one's name, or of another container."""
    if process.host != host_name():
        return True
    if process.boot_id is None:
        return False
    return process.boot_id != _boot_id() or process.pid_namespace not in (None, _pid_namespace())


def start_time(pid: int) -> float | None:
    """When process `pid` started, as `Process.pid_started` says; `None` when there is none that runs."""
    if sys.platform != "linux":
        return _start_on_other_systems(pid)
    try:
        # The name in parentheses may hold anything; the state is the first field after it, the start the twentieth.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _start_on_other_systems(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except (psutil.Error, ValueError):
        return None


def _boot_id() -> str | None:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _booted() -> float:
    """When this machine started (Unix seconds); long ago where the system does not say."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else 0.0


def _pid_namespace() -> int | None:
    try:
        return _PID_NAMESPACE.stat().st_ino
    except OSError:
        return None
