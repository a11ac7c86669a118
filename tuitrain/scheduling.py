"""How long the threads of this process have waited for a processor, as Linux tells it."""

from __future__ import annotations

import os

SPIN_CHOICES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Variables by which a person chooses how long idle OpenMP threads spin."""
_TASKS = "/proc/self/task"


def waited() -> dict[int, float]:
    """By a thread's id, how many seconds since its start it could have run, and something else did; nothing where the system does not tell.

    It counts whatever kept the thread waiting: other people's processes, this one's own threads, or a container's limit.
    """
    found = {}
    try:
        threads = os.listdir(_TASKS)
    except OSError:
        return {}
    for thread in threads:
        try:
            with open(f"{_TASKS}/{thread}/schedstat", "rb", buffering=0) as file:
                ran, waiting, _ = map(int, file.read(128).split())
        except (OSError, ValueError):  # one that has just ended, or a system that has no such file
            continue
        if ran:  # without the kernel's statistics all are 0
            found[int(thread)] = waiting / 1e9
    return found


def waits_are_told() -> bool:
    """Whether `waited` knows anything."""
    return bool(waited())
