"""One examination: the facts gathered side by side within a bound, and the report on them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from tuitrain.devices.doctor.bounded import within
from tuitrain.devices.doctor.diagnosis import diagnose
from tuitrain.devices.doctor.facts import Facts, SystemFacts
from tuitrain.devices.doctor.model import Report
from tuitrain.devices.doctor.surroundings import read_logout, read_storage, read_terminal, read_versions, user_name
from tuitrain.devices.doctor.system import read_system
from tuitrain.devices.doctor.torch_probe import probe
from tuitrain.devices.samples import DeviceSnapshot

SYSTEM_SECONDS = 2.0
"""/proc and /sys answer at once, unless a driver hangs."""

T = TypeVar("T")


def examine(
    snapshot: DeviceSnapshot,
    runs_dir: Path,
    *,
    say: Callable[[str], None],
    root: Path = Path("/"),
    environ: Mapping[str, str] = os.environ,
    stop: threading.Event | None = None,
) -> Report:
    """Look at everything, at most for 12 s.

    Args:
        snapshot: what NVML says.
        runs_dir: where the runs are kept; a small file is written there and removed again.
        say: gets the name of what is being looked at.
        root: where /proc, /sys, /dev and /etc are.
        environ: the environment that a training run would have.
        stop: when it is set, torch is no longer waited for.
    """
    # Torch takes seconds and everything else a moment: it is asked beside the rest.
    say("torch, in a process of its own")
    torch = _beside(lambda: probe(environ, stop=stop))
    say("the disk of the runs")
    storage = read_storage(runs_dir, root)
    say("the terminal, and what a logout does")
    terminal = read_terminal(environ)
    logout, versions = read_logout(root, user_name()), read_versions(environ)
    say("what torch answers")
    answer = torch.result()
    # CUDA's start makes device files that are missing until then, so these are looked at after it.
    say("the PCI bus, the driver and the device files")
    system = within(SYSTEM_SECONDS, lambda: read_system(root, environ), SystemFacts())
    return diagnose(
        Facts(
            snapshot=snapshot,
            environ=environ,
            system=system,
            torch=answer,
            terminal=terminal,
            storage=storage,
            logout=logout,
            versions=versions,
        )
    )


def _beside(work: Callable[[], T]) -> Future[T]:
    """The result of `work`, done on a daemon thread."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="doctor-torch", daemon=True).start()
    return future
