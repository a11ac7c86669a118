"""Waiting for the turn of a queued run: next to nothing is done meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tuitrain.events import Event, Notice, Request
from tuitrain.runs import queue
from tuitrain.runs.errors import RunError
from tuitrain.runs.queue import Standing
from tuitrain.runs.shelf import Shelf
from tuitrain.runs.summary import RunSummary, summarize
from tuitrain.session.control import Control
from tuitrain.session.queued import QueuedRun
from tuitrain.text import clean

LOOK_SECONDS = 1.0
"""How often the runs that it waits for are looked at."""
WHOLE_LOOK_SECONDS = 30.0
"""How often all runs are looked at."""
PATIENT_SECONDS = 15.0
"""After the machine has started anew all runs of the queue get new processes at the same moment: those that came before go first."""


def wait_for_turn(run: QueuedRun, control: Control, say: Callable[[Event], None]) -> Request | None:
    """Wait until no live run uses one of its devices and no run that came before it wants one; `run` has them then.

    A disk that cannot be read or written at the moment is waited for too.

    Returns:
        The stop or interrupt that came before that.

    Raises:
        RunError: its folder is gone.
    """
    watch, said = _Watch(run.folder.path, control), ""
    while True:
        found = watch.look()
        if found is not None and found.devices and _took(run, watch, control):
            return None
        words = said if found is None else queue.waits_for(watch.run, found)
        if words != said:
            run.wait_for(words, watch.run.device)
            say(Notice(text=f"It {words}."))
            said = words
        while True:
            if (request := control.asked_to_end(LOOK_SECONDS)) is not None:
                return request
            if watch.changed():
                break


def _took(run: QueuedRun, watch: _Watch, control: Control) -> bool:
    """Make the devices its own, where they are still free when no other process can do the same."""
    try:
        with queue.locked(run.folder.path.parent) as alone:
            found = watch.look() if alone else None
            if found is None or not (devices := found.devices):
                return False
            run.take_turn(devices)
    except OSError:
        return False
    first = [int(device.partition(":")[2]) for device in devices if device != "cpu"]
    ask = control.free_cuda_devices
    # `auto` takes the devices that were waited for.
    control.free_cuda_devices = lambda: first if first else ask()
    return True


class _Watch:
    """What is to be seen of the other runs."""

    def __init__(self, path: Path, control: Control) -> None:
        self._path = path
        self._ask = control.free_cuda_devices
        self._shelf = Shelf(path.parent)
        self._began = time.monotonic()
        self._due = 0.0
        self._seen: dict[Path, object] = {}
        self._gpus: tuple[str, ...] | None = ()

    def look(self) -> Standing | None:
        """How the run stands among all runs; `None` where nobody can tell at the moment.

        Raises:
            RunError: its folder is gone.
        """
        self._seen = {}
        try:
            runs = self._shelf.read()
        except RunError:
            return None
        mine = next((run for run in runs if run.path == self._path), None)
        if mine is not None and mine.broken:
            return None
        if mine is None or mine.queue is None:
            raise RunError(f"RUN: {clean(self._path.name)}: its folder is gone, or another program has changed it.")
        self.run = mine
        now = time.monotonic()
        patient = now - self._began < PATIENT_SECONDS
        self._due = min(now + WHOLE_LOOK_SECONDS, self._began + PATIENT_SECONDS if patient else now + WHOLE_LOOK_SECONDS)
        if any(run.waits and queue.takes_any(run) for run in runs):
            # NVML is asked only where somebody takes any GPU.
            ordinals = self._ask()
            self._gpus = None if ordinals is None else tuple(f"cuda:{ordinal}" for ordinal in ordinals)
        if self._gpus == () and queue.takes_any(mine):
            self.run = mine = msgspec.structs.replace(mine, device=("cpu",))
        found = queue.standing(mine, runs, self._gpus, patient=patient)
        self._seen = {run.path: _state(run) for run in found.behind}
        return found

    def changed(self) -> bool:
        """Whether one of the runs that it waits for does something else now, or it is time to look at all of them."""
        if time.monotonic() >= self._due or not self._seen:
            return True
        now = time.time()
        return any(_state(summarize(path, now)) != seen for path, seen in self._seen.items())


def _state(run: RunSummary) -> object:
    return run.state, run.live, run.waits, run.device, run.pid
