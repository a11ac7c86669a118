"""Ending a process of one's own: asked with SIGTERM first, and killed when it does not go.

A process is the one that was sampled only while its number and its start time are the same: systems give old numbers to new processes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tuitrain.devices.samples import ProcessSample

if TYPE_CHECKING:
    import psutil

PATIENCE_SECONDS = 5.0
"""How long a process has to end by itself."""
_SAME_START_SECONDS = 0.5


class Refused(Exception):
    """The process is not ended; the text is one sentence that says why."""


def check(process: ProcessSample) -> None:
    """Raise `Refused` where the process is not one that this person may end."""
    with _held(process):
        pass


def ask_to_end(process: ProcessSample) -> None:
    """Send SIGTERM; raises `Refused`."""
    _send(process, signal.SIGTERM)


def kill(process: ProcessSample) -> None:
    """Send SIGKILL; raises `Refused`."""
    _send(process, signal.SIGKILL)


def alive(process: ProcessSample) -> bool:
    """Whether that very process still runs; one that has ended and only waits for its parent does not."""
    import psutil

    try:
        now = psutil.Process(process.pid)
        return _same(now, process) and now.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _send(process: ProcessSample, what: signal.Signals) -> None:
    with _held(process) as handle:
        try:
            if handle is None:
                os.kill(process.pid, what)
            else:
                signal.pidfd_send_signal(handle, what)
        except ProcessLookupError:
            raise _gone(process) from None
        except OSError as error:
            raise Refused(f"Process {process.pid} could not be signalled: {error.strerror}.") from None


@contextmanager
def _held(process: ProcessSample) -> Iterator[int | None]:
    """A handle on the process, taken before it is checked, so that its number cannot become another's in between; `None` where the
    system has no such handles."""
    if process.pid == os.getpid():
        raise Refused("This is tuitrain itself: q leaves it.")
    if process.foreign:
        raise Refused(f"Process {process.pid} is another container's or the host's: it can only be ended there.")
    if os.name != "posix":
        raise Refused("Processes can be ended from here on Linux and macOS only.")
    handle = _open(process)
    try:
        _check_owner(process)
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def _open(process: ProcessSample) -> int | None:
    if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
        return None
    try:
        return os.pidfd_open(process.pid)
    except ProcessLookupError:
        raise _gone(process) from None
    except OSError:
        return None


def _check_owner(process: ProcessSample) -> None:
    import psutil

    try:
        now = psutil.Process(process.pid)
        owner, same = now.uids().real, _same(now, process)
    except psutil.NoSuchProcess:
        raise _gone(process) from None
    except psutil.Error:
        raise Refused(f"Whose process {process.pid} is cannot be seen, so it is left alone.") from None
    if not same:
        raise Refused(f"Process {process.pid} is not the one that was seen on the card, so it is left alone.")
    if owner != os.getuid():
        raise Refused(f"Process {process.pid} is {process.user or 'somebody else'}'s: only {process.user or 'they'} can end it.")


def _gone(process: ProcessSample) -> Refused:
    if process.started is None:
        return Refused(f"Process {process.pid} was never seen from here, as where /proc shows only one's own: it is left alone.")
    return Refused(f"Process {process.pid} has ended already.")


def _same(now: psutil.Process, process: ProcessSample) -> bool:
    return process.started is not None and abs(now.create_time() - process.started) < _SAME_START_SECONDS


class Endings:
    """The processes that were asked to end, and what became of it."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, float | None], tuple[float, ProcessSample]] = {}
        self._killed: set[tuple[int, float | None]] = set()

    def asked(self, process: ProcessSample) -> None:
        """It got SIGTERM now."""
        self._asked[_key(process)] = (time.monotonic(), process)

    def killed(self, process: ProcessSample) -> None:
        """It got SIGKILL now."""
        self.asked(process)
        self._killed.add(_key(process))

    def words(self, process: ProcessSample) -> str | None:
        """What the process's row says; `None` for one that nobody asked to end."""
        asked = self._asked.get(_key(process))
        if asked is None:
            return None
        if _key(process) in self._killed:
            return "killed"
        return "stays: x kills it" if self.stubborn(process) else "asked to end"

    def stubborn(self, process: ProcessSample) -> bool:
        """Whether it was asked to end, and had the time to."""
        asked = self._asked.get(_key(process))
        return asked is not None and time.monotonic() - asked[0] >= PATIENCE_SECONDS

    def gone(self) -> list[ProcessSample]:
        """Those that have ended since the last look; they are forgotten."""
        ended = [process for _, process in self._asked.values() if not alive(process)]
        for process in ended:
            del self._asked[_key(process)]
            self._killed.discard(_key(process))
        return ended


def _key(process: ProcessSample) -> tuple[int, float | None]:
    return process.pid, process.started
