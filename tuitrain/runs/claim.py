"""Who may write to a run's folder: one process at a time, whichever host it is on.

The holder's name is in the file `claim-N.json`; the greatest N counts. Taking a run makes N + 1, which only one of several can; releasing
renames the file to `claim-N.released`. As N never goes back, nobody who looked a moment too early can take what another one has by now.
A holder that is out of sight is watched before its claim is taken over, see `silence`.
"""

from __future__ import annotations

import errno
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tuitrain.files import sync_folder, write_durably
from tuitrain.paths import STATE
from tuitrain.runs.errors import RunError
from tuitrain.runs.process import Process, is_of_earlier_boot, is_out_of_sight, runs_here, this_process, uptime
from tuitrain.runs.silence import Wait, age, is_silent, let_pass
from tuitrain.runs.status import HEARTBEAT_SECONDS, read_status
from tuitrain.text import clean

_NAME = re.compile(r"claim-(\d{1,12})\.(json|released)")
_ATTEMPTS = 50
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class Holder(Process, frozen=True, kw_only=True):
    """The content of a claim: a process, and when it took the run (Unix seconds)."""

    taken: float

    @property
    def named(self) -> str:
        """The process, for a sentence."""
        return f"pid {self.pid} on {clean(self.host)}"


@dataclass(frozen=True)
class Claim:
    """A run that is this process's own until `release`, by the file `path`, which has this number."""

    path: Path
    number: int

    def taken_over_by(self) -> str | None:
        """Who has the run by now, where this process was silent for so long that another one took it, as a machine that was suspended."""
        try:
            number, path = _newest(self.path.parent)
            if number <= self.number:
                return None
            return "another process" if path is None else msgspec.json.decode(path.read_bytes(), type=Holder).named
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None  # the next look says more

    def release(self) -> None:
        """Let others take the run; a claim that somebody took over is left alone."""
        with suppress(OSError):
            self.path.rename(self.path.with_suffix(".released"))


def take(folder: Path, *, heir_of: int | None = None, wait: Wait = let_pass) -> Claim:
    """Make the run in `folder` this process's own; a claim whose process is gone is taken over.

    Args:
        folder: the run folder.
        heir_of: the pid on this host that hands the run over; its claim is no obstacle.
        wait: called while a holder that is out of sight is watched.

    Raises:
        RunError: another process has it, the folder cannot be written, or `wait` gave up.
    """
    content = msgspec.json.encode(Holder(**msgspec.structs.asdict(this_process()), taken=time.time()))
    try:
        for _ in range(_ATTEMPTS):
            number, path = _newest(folder)
            if path is not None:
                _check_free(folder, path, heir_of, wait)
            mine = folder / f"claim-{number + 1}.json"
            if not _make(mine, content):
                continue
            # Another one may have taken and released this number, or more of them, since it was looked.
            if _newest(folder) == (number + 1, mine):
                _forget_before(folder, number + 1)
                return Claim(mine, number + 1)
            mine.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"RUN: {clean(folder.name)} cannot be taken: its folder cannot be written: {error.strerror or error}.") from None
    raise RunError(f"RUN: {clean(folder.name)} cannot be taken: too many processes want it at once; try again.")


def check_free(folder: Path, *, wait: Wait = let_pass) -> str:
    """Look whether any process has the run in `folder`; the name of the claim that counts for nothing, empty where there is none.

    Args:
        wait: as for `take`.

    Raises:
        RunError: one has it, or `wait` gave up.
    """
    path = None
    with suppress(OSError):  # of what cannot be looked into, as a link that leads nowhere, nobody knows of any
        path = _newest(folder)[1]
    if path is None:
        return ""
    _check_free(folder, path, None, wait)
    return path.name


def is_claimed(folder: Path, *, but_by: str) -> bool:
    """Whether there is a claim on the run in `folder` that is not the one named `but_by`."""
    with suppress(OSError):
        path = _newest(folder)[1]
        return path is not None and path.name != but_by
    return False


def _newest(folder: Path) -> tuple[int, Path | None]:
    """The greatest number of a claim, and its file where it is not released."""
    found = [(int(match[1]), match[2], name) for name in os.listdir(folder) if (match := _NAME.fullmatch(name))]
    number, kind, name = max(found, default=(0, "", ""))
    return number, folder / name if kind == "json" else None


def _check_free(folder: Path, path: Path, heir_of: int | None, wait: Wait) -> None:
    """Raises: RunError: the claim in the file `path` is that of a process that lives, or `wait` gave up."""
    run = clean(folder.name)
    try:
        holder = msgspec.json.decode(path.read_bytes(), type=Holder)
    except FileNotFoundError:
        return  # released at this moment: the next look says more
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # Where there are no hard links a claim may be seen while it is written.
        if abs(age(folder, path)) < HEARTBEAT_SECONDS:
            raise RunError(f"RUN: {run} is being taken by another process; try again.") from None
        return
    handed_over = holder.pid == heir_of and not is_out_of_sight(holder)
    # One that is watched may let go.
    if not handed_over and not _is_gone(folder, path, holder, wait) and path.exists():
        raise RunError(f"RUN: {run} belongs to another process ({holder.named}); stop it first.")


def _is_gone(folder: Path, path: Path, holder: Holder, wait: Wait) -> bool:
    """Raises: RunError: `wait` gave up."""
    if not is_out_of_sight(holder):
        return not runs_here(holder)
    if is_of_earlier_boot(holder, max(holder.taken, _heartbeat(folder))) and age(folder, path, folder / STATE) > uptime():
        return True
    return is_silent(folder, path, holder.named, wait)


def _heartbeat(folder: Path) -> float:
    try:
        return read_status(folder).heartbeat
    except RunError:
        return 0.0


def _make(path: Path, content: bytes) -> bool:
    """Make the file with all of its content; `False` when there is one."""
    beside = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        write_durably(beside, content)
        try:
            os.link(beside, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return _make_in_place(path, content)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def _make_in_place(path: Path, content: bytes) -> bool:
    """For file systems without hard links."""
    try:
        write_durably(path, content, new=True)
    except FileExistsError:
        return False
    return True


def _forget_before(folder: Path, number: int) -> None:
    for name in os.listdir(folder):
        match = _NAME.fullmatch(name)
        if match and int(match[1]) < number:
            with suppress(OSError):
                (folder / name).unlink()
