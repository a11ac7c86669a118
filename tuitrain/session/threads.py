"""How training shares the processors and Python's lock with the screen, and the processors with other people's work."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import MutableMapping

from tuitrain.scheduling import SPIN_CHOICES, waits_are_told

# Idle OpenMP threads spin before they sleep. With GNU's default they spin so long that one other busy process makes training
# collapse. The engine mends that where Linux tells how long threads wait (`engine/spinning.py`); elsewhere a short spin does, at the
# price of some percent on a quiet machine.
SPIN_COUNT = "2000"

# A step below everything interactive, well above nothing: a screen that needs a millisecond gets it at once.
CPU_NICENESS = 10


# A thread that wants Python's lock while another computes waits this long, and a training step wants it some sixty times. With
# Python's own 5 ms, training all but stands still while the screen is drawn.
SWITCH_SECONDS = 0.001


def share_the_lock() -> None:
    """Let threads of Python take turns more often, so that training goes on while the screen is drawn."""
    sys.setswitchinterval(SWITCH_SECONDS)


def limit_openmp_spin(environment: MutableMapping[str, str] = os.environ) -> None:
    """Make idle OpenMP threads sleep soon, unless the person has chosen, or the engine can tell when they should. It works only before
    torch is loaded."""
    if not any(name in environment for name in SPIN_CHOICES) and not waits_are_told():
        environment["GOMP_SPINCOUNT"] = SPIN_COUNT


def yield_to_the_screen() -> None:
    """Lower the priority of the calling thread, and so of the OpenMP threads that it makes later. Linux only; elsewhere nothing happens."""
    if sys.platform == "linux":
        current = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(current, CPU_NICENESS))
