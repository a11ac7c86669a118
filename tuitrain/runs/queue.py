"""The queue: the runs of this folder that have not begun, in the order in which they came, and when the turn of one has come.

A run waits until no live run of its host uses one of its devices and no run that came before it wants one of them; the CPU is a device
like any other. It is all in the runs' own `state.json`, so there is nothing that could say something else.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tuitrain.config import ConfigError, parse_device
from tuitrain.events import LIVE_STATES
from tuitrain.paths import STATE
from tuitrain.runs.catalogue import folders
from tuitrain.runs.errors import RunError
from tuitrain.runs.summary import RunSummary, summarize
from tuitrain.text import plural

LOCK = ".queue.lock"
_SOME_GPU = "cuda"
_LIVE = tuple(f'"state":"{state}"'.encode() for state in LIVE_STATES)
_QUEUED = (b'"queue":{',)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF)
"""What a file system says that knows no locks, or none on a file that is open for reading alone."""


class Standing(msgspec.Struct, frozen=True):
    """How a queued run stands: the devices that it may have now, or else the runs that it waits for, those that train first.

    `unknown` says that it takes any GPU, and that nobody knows which there are.
    """

    devices: tuple[str, ...] = ()
    behind: tuple[RunSummary, ...] = ()
    unknown: bool = False


def standing(run: RunSummary, runs: Iterable[RunSummary], gpus: Sequence[str] | None, *, patient: bool = False) -> Standing:
    """How a queued run stands.

    Args:
        run: the run.
        runs: all runs of the folder.
        gpus: the usable ones of this machine, the one that `auto` takes first before the others; `None` where nobody knows.
        patient: let runs go first that came before it and that nobody waits for.
    """
    if gpus is None:
        if takes_any(run):
            return Standing(unknown=True)
        # Of those before it that take any GPU it is only known that they do not want the CPU.
        gpus = (_SOME_GPU,)
    others = [other for other in runs if other.host == run.host and other.path != run.path]
    held = [(other, other.device) for other in others if other.live and not other.waits]
    taken = {device for _, devices in held for device in devices}
    before = [other for other in others if other.waits and _came(other) < _came(run) and (other.live or patient)]
    for other in sorted(before, key=_came):
        # Also the part that is not enough yet: those that came later leave it alone.
        devices = _wanted(other, gpus, taken)[0]
        held.append((other, devices))
        taken |= {*devices}
    devices, enough = _wanted(run, gpus, taken)
    if enough:
        return Standing(devices=devices)
    wants = {*_wants(run, gpus)}
    return Standing(behind=tuple(other for other, devices in held if wants & {*devices}))


def waits_for(run: RunSummary, found: Standing) -> str:
    """What a queued run waits for, as a sentence without its full stop."""
    if found.unknown:
        return f"waits for {devices_in_words(run.device)}: the NVIDIA driver does not answer"
    if not found.behind:
        return f"waits for {devices_in_words(run.device)}"
    first = found.behind[0]
    more = sum(other.waits == first.waits for other in found.behind) - 1
    does = "is before it" if first.waits else "is paused there" if first.state == "paused" else "trains there"
    others = f", and {more} more {plural('run', more)}" if more else ""
    return f"waits for {devices_in_words(run.device)}: {first.run} {does}{others}"


def devices_in_words(device: Sequence[str]) -> str:
    """ "cpu", "cuda:0, cuda:1", "a GPU", "2 GPUs", "all GPUs"."""
    wanted = _parsed(device)
    if isinstance(wanted, tuple):
        return ", ".join(dict.fromkeys(wanted))
    return "all GPUs" if wanted is None else "a GPU" if wanted == 1 else f"{wanted} GPUs"


def takes_any(run: RunSummary) -> bool:
    """Whether a queued run names no devices, but takes GPUs that are free."""
    return not isinstance(_parsed(run.device), tuple)


def places(runs: Iterable[RunSummary]) -> dict[Path, int]:
    """The place of each run that somebody waits for, by its folder: 1 for the one that is next on its devices."""
    queued = sorted((run for run in runs if run.waits and run.live), key=_came)
    return {
        run.path: 1 + sum(other.host == run.host and _meet(run.device, other.device) for other in queued[:index])
        for index, run in enumerate(queued)
    }


def ordinal(place: int) -> str:
    """ "1st", "2nd", "11th"."""
    return f"{place}{'th' if place % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(place % 10, 'th')}"


def place_in_words(run: RunSummary, place: int) -> str:
    """ "queued, 2nd for cpu"."""
    return f"{run.state}, {ordinal(place)} for {devices_in_words(run.device)}"


def on_devices(runs_dir: Path, devices: Sequence[str]) -> list[RunSummary]:
    """The live runs of this host that use one of these devices or wait for one, those that train first.

    Raises:
        RunError: the folder cannot be read.
    """
    return [run for run in live_here(runs_dir) if _meet(run.device, devices)]


def live_here(runs_dir: Path) -> list[RunSummary]:
    """The live runs of this host, those that train first.

    Raises:
        RunError: the folder cannot be read.
    """
    runs = [run for run in _marked(runs_dir, _LIVE) if run.live and run.here]
    return sorted(runs, key=lambda run: run.waits)


def left_behind(runs_dir: Path) -> list[RunSummary]:
    """The queued runs of this host that nobody waits for, the first one first.

    Raises:
        RunError: the folder cannot be read.
    """
    runs = _marked(runs_dir, _QUEUED)
    return sorted((run for run in runs if run.left and run.here), key=_came)


def end_of_line(runs_dir: Path) -> float:
    """What to note as the moment at which a run comes now (Unix seconds): after all that wait, also where the clock was set back since."""
    newest = -math.inf
    with suppress(RunError):
        newest = max((run.queue.since for run in _marked(runs_dir, _QUEUED) if run.queue is not None), default=newest)
    return max(time.time(), math.nextafter(newest, math.inf))


def _marked(runs_dir: Path, marks: Sequence[bytes]) -> Iterator[RunSummary]:
    """The runs whose `state.json` holds one of these marks: quick also among thousands of others."""
    now = time.time()
    for folder in folders(runs_dir):
        with suppress(OSError):
            content = Path(folder, STATE).read_bytes()
            if any(mark in content for mark in marks):
                yield summarize(Path(folder), now)


@contextmanager
def locked(runs_dir: Path) -> Iterator[bool]:
    """One process at a time decides that a turn has come; `False` while another one does. The lock ends with its process.

    Raises:
        OSError: nobody can tell: the folder is gone, or its disk refuses.
    """
    descriptor = _opened(runs_dir / LOCK)
    # Where there is no lock to have, the order of the queue alone decides.
    if descriptor is None:
        yield True
        return
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _opened(lock: Path) -> int | None:
    """The file of the lock, made where there is none; another user's is opened for reading alone, and `None` where that is forbidden."""
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        try:
            return os.open(lock, flags | os.O_CLOEXEC, 0o644)
        except PermissionError:
            pass
    return None


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _came(run: RunSummary) -> tuple[float, str]:
    assert run.queue is not None
    return run.queue.since, run.run


def _wants(run: RunSummary, gpus: Sequence[str]) -> tuple[str, ...]:
    """Every device that it could take."""
    named = _parsed(run.device)
    return named if isinstance(named, tuple) else tuple(gpus) or ("cpu",)


def _wanted(run: RunSummary, gpus: Sequence[str], taken: Set[str]) -> tuple[tuple[str, ...], bool]:
    """What it takes of its devices, one for each replica, and whether that is enough to begin."""
    named, wants = _parsed(run.device), _wants(run, gpus)
    free = tuple(device for device in wants if device not in taken)
    if isinstance(named, tuple):
        return wants, len(free) == len(wants)
    count = min(named or len(wants), len(wants))
    return free[:count], len(free) >= count


def _meet(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two runs may want the same device."""
    kinds = [_parsed(devices) for devices in (one, other)]
    named = [set(kind) for kind in kinds if isinstance(kind, tuple)]
    if len(named) == 2:
        return bool(named[0] & named[1])
    return not named or named[0] != {"cpu"}


def _parsed(device: Sequence[str]) -> tuple[str, ...] | int | None:
    """As `parse_device` says it; what a damaged file holds in the place of devices is a name like another."""
    try:
        return parse_device(",".join(device))
    except ConfigError:
        return tuple(device)
