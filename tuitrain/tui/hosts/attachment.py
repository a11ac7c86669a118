"""The line to the process that trains an opened run, held for as long as the run is open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tuitrain.events import Notice, RunEnded, RunStarted, State
from tuitrain.tui.hosts.outside import Line, Outside

_AWAITED = (RunStarted, State, Notice, RunEnded)
"""Events that a person may be waiting for, as after a key."""


class Attachment:
    """Watches a run in a thread of its own, so that the run knows of a screen and the screen of what the run does.

    Args:
        path: the run's folder.
        outside: other processes.
        told: called from the thread when something changed that a person may wait for: the run's state, or whether there is a line.
    """

    def __init__(self, path: Path, outside: Outside, told: Callable[[], object]) -> None:
        self._path = path
        self._outside = outside
        self._told = told
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._line: Line | None = None
        self._closed = False
        self.missed = False
        """The last try found nobody."""
        self.stirred = True
        """The run has said something since whoever looks set this to `False`."""

    @property
    def attached(self) -> bool:
        """Whether the line is open."""
        return self._line is not None

    def keep(self) -> None:
        """Connect where there is no line; never waits. To be called now and then while the run is live."""
        if not self._closed and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._follow, name="tuitrain-attach", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Hang up; the thread ends."""
        with self._lock:
            self._closed = True
            line = self._line
        if line is not None:
            line.close()

    def _follow(self) -> None:
        line = self._outside.connect(self._path)
        missed_before, self.missed = self.missed, line is None
        if line is None:
            if not missed_before:
                self._told()
            return
        with self._lock:
            self._line = None if self._closed else line
        if self._line is None:
            line.close()
            return
        self._told()
        try:
            for event in line.watch():
                self.stirred = True
                # For all else the folder of a run that says something is read often enough.
                if isinstance(event, _AWAITED):
                    self._told()
        finally:
            line.close()
            with self._lock:
                self._line = None
            self._told()
