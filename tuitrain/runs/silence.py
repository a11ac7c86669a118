"""Whether a process that is out of sight, on another host or in another container, still says that it has a run.

It does so in the run's `state.json`, again and again. The clocks of two machines need not agree, so it is watched whether that changes, by
this machine's own; how old the file system says that it is only makes the watching shorter.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tuitrain.events import Progress
from tuitrain.paths import STATE
from tuitrain.runs.errors import RunError
from tuitrain.runs.status import HEARTBEAT_SECONDS
from tuitrain.text import clean

LOOK_SECONDS = 1.0
LEAST_SECONDS = 15.0
"""How long it is watched, however old the file system says that its last sign is: some file systems have that from the writer's clock."""

Wait = Callable[[Progress], bool]
"""Lets `LOOK_SECONDS` pass, with how far the watching is; whether nobody waits for the end of it any more."""


def let_pass(progress: Progress) -> bool:
    """A `Wait` that says nothing."""
    time.sleep(LOOK_SECONDS)
    return False


def announced(say: Callable[[str], object], wait: Wait = let_pass) -> Wait:
    """A `Wait` that says first what is waited for, and how long at most; `wait` lets the time pass."""

    def announcing(progress: Progress) -> bool:
        if not progress.done:
            say(f"Up to {progress.total} s: {progress.phase}.")
        return wait(progress)

    return announcing


def is_silent(folder: Path, claim: Path, who: str, wait: Wait) -> bool:
    """Watch the run in `folder` for as long as a process that lives would not be silent; whether it gives no sign.

    Args:
        claim: the file of its claim.
        who: names it.
        wait: called between two looks.

    Raises:
        RunError: `wait` gave up.
        OSError: a file cannot be read, so that nobody can tell.
    """
    signs = _signs(folder, claim)
    known = age(folder, claim, folder / STATE)
    # By looks and not by a clock: what holds up this process, or its file system, is no silence of the other.
    looks = math.ceil(min(max(HEARTBEAT_SECONDS - known, LEAST_SECONDS), HEARTBEAT_SECONDS) / LOOK_SECONDS)
    for done in range(looks):
        if wait(Progress(phase=f"watching whether {who} still has the run", done=done, total=looks)):
            raise RunError(f"RUN: {clean(folder.name)} is left as it is: it was not watched long enough whether {who} still has it.")
        if _signs(folder, claim) != signs:
            return False
    return True


def age(folder: Path, *paths: Path) -> float:
    """How long ago the newest of these files was written, by the clock of the file system that holds `folder`; 0 where nobody can tell.

    Negative where that clock was set back since.
    """
    written = []
    for path in paths:
        # Opened, not only looked at: a network file system then asks its server.
        with suppress(OSError), path.open("rb") as file:
            written.append(os.fstat(file.fileno()).st_mtime)
    # What is left of a name like this, by a process that was killed, goes when the run goes on.
    beside = folder / f".{STATE}.{os.urandom(4).hex()}"
    try:
        with beside.open("xb") as file:
            now = os.fstat(file.fileno()).st_mtime
    except OSError:
        return 0.0
    finally:
        with suppress(OSError):
            beside.unlink()
    return now - max(written, default=now)


def _signs(folder: Path, claim: Path) -> list[bytes | None]:
    """What changes as long as the process lives: the heartbeat is in it."""
    found: list[bytes | None] = []
    for path in (claim, folder / STATE):
        try:
            found.append(path.read_bytes())
        except FileNotFoundError:
            found.append(None)
    return found
