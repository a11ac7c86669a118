"""Work beside everything else that the app does: one piece at a time, in a thread that can be stopped and joined."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tuitrain.session.threads import yield_to_the_screen


class Background:
    """Base of what works in a thread of its own, at the lowest priority; the processes that the thread starts have it too.

    Args:
        name: the thread's.
        changed: called from the thread when there is something new to show; it must not block.
    """

    def __init__(self, name: str, changed: Callable[[], None]) -> None:
        self.busy = False
        """Whether something is under way."""
        self._changed = changed
        self._began = 0.0
        self._name = name
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def seconds(self) -> float:
        """How long what is being done takes already."""
        return time.monotonic() - self._began

    def stop(self) -> None:
        """Ask what is under way to end, and begin nothing after it."""
        self._stop.set()

    def join(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the thread and its processes to end; whether they have."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def _begin(self, work: Callable[[threading.Event], None]) -> None:
        """Start `work`, which looks at the event for whether to end; nothing may be under way."""
        self.busy, self._began = True, time.monotonic()
        self._stop = threading.Event()
        # A daemon: what it waits for are files and processes that end with this one, no torch, and the app must be able to leave before it.
        self._thread = threading.Thread(target=self._run, args=(work, self._stop), name=self._name, daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[threading.Event], None], stop: threading.Event) -> None:
        yield_to_the_screen()
        try:
            work(stop)
        finally:
            self.busy = False
            self._changed()
