"""How long threads that compute on the CPU wait awake for each other.

A thread of OpenMP's that has done its part of an operation spins for some milliseconds before it sleeps, because the next one follows soon:
a step of the transformer takes 39 ms on two cores so, and 53 where the threads sleep at once. Beside one busy process it is the other way
round, 140 and 63: what a thread waits for does not come while others, which only spin, have the processors.

GNU's OpenMP, which torch brings, has an answer to that: while it manages more threads than there are processors, they sleep at once (see
GOMP_SPINCOUNT in the manual of libgomp). So where threads have to wait for a processor, this module adds some that do nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import torch

from tuitrain.scheduling import SPIN_CHOICES, waited, waits_are_told

CHECK_SECONDS = 0.5
CROWDED, ROOMY = 0.25, 0.15
"""The part of their time for which threads that compute wait for a processor: from when on they sleep at once, and below which they spin
again. Two on two cores wait for 0.01 of it alone; beside a process that is busy for a third of the time 0.15, and there steps take 15 %
longer where they sleep; for half of it 0.2 to 0.25, where it is 5 %; for all of it 0.26 to 0.37, where they take about half as long."""
_MOST_TEAMS = 8
_PARALLEL_NUMBERS = 1 << 17
"""So many that torch shares them out."""


@contextmanager
def sleeping_where_crowded() -> Iterator[None]:
    """Inside, OpenMP's threads sleep at once while this process has to wait for processors, and spin while it has not.

    Where the person has chosen how they wait, or the system tells nothing, nothing happens.
    """
    if any(name in os.environ for name in SPIN_CHOICES) or not waits_are_told():
        yield
        return
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(over,), name="tuitrain-spin", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


def _watch(over: threading.Event) -> None:
    with ExitStack() as idle:
        crowded, before, at = False, waited(), time.monotonic()
        while not over.wait(CHECK_SECONDS):
            now, moment = waited(), time.monotonic()
            share = _waited_since(before, now) / (torch.get_num_threads() * (moment - at))
            was, crowded = crowded, share > (ROOMY if crowded else CROWDED)
            before, at = now, moment
            if crowded and not was:
                idle.enter_context(idle_teams())
            elif was and not crowded:
                idle.close()


def _waited_since(before: dict[int, float], now: dict[int, float]) -> float:
    return sum(seconds - before.get(thread, 0.0) for thread, seconds in now.items())


@contextmanager
def idle_teams() -> Iterator[None]:
    """Inside, OpenMP manages more threads than this process has processors, where it does not so already."""
    over = threading.Event()
    teams = [threading.Thread(target=_hold_a_team, args=(over,), name="tuitrain-idle", daemon=True) for _ in range(_missing_teams())]
    begun = []
    for team in teams:
        with suppress(RuntimeError):  # the system lets nobody have more threads
            team.start()
            begun.append(team)
    try:
        yield
    finally:
        over.set()
        for team in begun:
            team.join()


def _missing_teams() -> int:
    """How many threads with a team of their own it takes; each team counts once less, because its first member is no thread of OpenMP's."""
    threads, processors = torch.get_num_threads(), len(os.sched_getaffinity(0))
    if threads == 1:  # nobody waits
        return 0
    teams = (processors - threads) // (threads - 1) + 1
    return teams if teams <= _MOST_TEAMS else 0


def _hold_a_team(over: threading.Event) -> None:
    torch.zeros(_PARALLEL_NUMBERS, device="cpu").add_(1.0)
    over.wait()
