"""What control groups let this process have of the machine, as a container, a batch job or a pod gives it: processors and memory.

torch, psutil and /proc tell of the whole machine there. A group that has used up its quota of processor time stands still until the next
period, the screen too: one that may use four processors of 64 must not compute with 64 threads.

Both versions of control groups are read, see cgroups(7) and the kernel's documentation of cpu.max, memory.max, cpu.cfs_quota_us and
memory.limit_in_bytes. What cannot be read limits nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import msgspec


class Memory(msgspec.Struct, frozen=True):
    """Bytes. What the system would take back for others, as files that were read, is not `used`."""

    used: int
    total: int

    @property
    def free(self) -> int:
        """What could still be taken."""
        return self.total - self.used


class Allowance:
    """The limits of the control groups that this process is in; `root` is another tree of files than the system's."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    @cached_property
    def quota(self) -> float | None:
        """How many processors' time the group may use, as 1.5; `None` where only their number limits it."""
        return self._limited[0] if self._limited is not None else None

    @cached_property
    def _limited(self) -> tuple[float, Path] | None:
        """The least quota, and the folder of the outermost group that has it."""
        found = [(quota, folder) for folder in self._levels("cpu") if (quota := _quota(folder)) is not None]
        return min(reversed(found), key=lambda each: each[0], default=None)

    def processors(self) -> int:
        """How many threads of this process can run at once and go on doing so, 1 or more."""
        mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return mine if self.quota is None else max(1, min(mine, int(self.quota)))

    def busy_seconds(self) -> float | None:
        """Processor time that all processes under the quota have had since some moment; `None` without a quota, or where it is not told."""
        if self._limited is None:
            return None
        if (used := _entry(self._limited[1] / "cpu.stat", "usage_usec")) is not None:
            return used / 1e6
        for folder in self._levels("cpuacct"):
            if (used := _number(folder / "cpuacct.usage")) is not None:
                return used / 1e9
        return None

    def memory(self, whole: Memory) -> Memory:
        """What of the machine's memory, `whole`, there is for the group: of all limits the one that leaves least."""
        limits = [limit for folder in self._levels("memory") if (limit := _memory(folder)) is not None and limit.total < whole.total]
        return min((whole, *limits), key=lambda each: each.free)

    def memory_now(self) -> Memory:
        """The same of the memory of this machine."""
        # psutil takes longer to import than a first frame or a list of runs may wait for it.
        import psutil

        machine = psutil.virtual_memory()
        return self.memory(Memory(machine.total - machine.available, machine.total))

    def _levels(self, controller: str) -> Iterator[Path]:
        """The group's folder for a controller, of either version, and those around it, the innermost first."""
        for version, controllers, inside, mounted in self._mounts:
            path = self._paths.get("" if version == "cgroup2" else controller)
            if path is None or (version == "cgroup" and controller not in controllers):
                continue
            # What is mounted may begin at a group further in than the one that /proc counts from, or not hold it at all.
            below = path[len(inside) :] if path == inside or path.startswith(inside.rstrip("/") + "/") else ""
            parts = [part for part in below.split("/") if part]
            for length in range(0 if ".." in parts else len(parts), -1, -1):
                yield mounted.joinpath(*parts[:length])

    @cached_property
    def _paths(self) -> dict[str, str]:
        """By controller, and by nothing for version 2, the path of the group."""
        found: dict[str, str] = {}
        for line in _text(self._root / "proc/self/cgroup").splitlines():
            _, _, named = line.partition(":")
            controllers, _, path = named.partition(":")
            found |= dict.fromkeys(controllers.split(","), path)
        return found

    @cached_property
    def _mounts(self) -> list[tuple[str, list[str], str, Path]]:
        """Of each tree of groups: its version, its controllers, which of its groups is mounted, and where."""
        found = []
        for line in _text(self._root / "proc/self/mountinfo").splitlines():
            here, _, there = line.partition(" - ")
            fields, kind = here.split(), there.split()
            if len(fields) > 4 and len(kind) > 2 and kind[0] in ("cgroup", "cgroup2"):
                found.append((kind[0], kind[2].split(","), fields[3], self._root / fields[4].lstrip("/")))
        return found


def free_memory() -> int:
    """Bytes that this process could still take, as far as that is known."""
    return Allowance().memory_now().free


def _quota(folder: Path) -> float | None:
    """In processors."""
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
    try:
        return int(quota) / int(period) if int(quota) > 0 else None
    except (ValueError, ZeroDivisionError):  # "max", or nothing
        return None


def _memory(folder: Path) -> Memory | None:
    for limit, use, files in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        total, used = _number(folder / limit), _number(folder / use)
        if total is not None and used is not None:
            return Memory(max(0, used - (_entry(folder / "memory.stat", files) or 0)), total)
    return None


def _entry(file: Path, name: str) -> int | None:
    """A number of a file that has one a line, behind its name."""
    for line in _text(file).splitlines():
        word, _, value = line.partition(" ")
        if word == name and value.isdigit():
            return int(value)
    return None


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
