"""The download of CIFAR-10 beside everything else that the app does: a thread of its own that can be cancelled and joined."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Literal

from tuitrain.events import Progress
from tuitrain.text import first_line

Download = Callable[[Callable[[], bool]], Iterator[Progress]]
"""Downloads while it is iterated; it asks its argument now and then whether to end, and then raises."""

FetchState = Literal["idle", "running", "cancelling", "arrived", "failed", "cancelled"]


class Fetch:
    """One download at a time.

    Args:
        download: what to run, `None` where the app can fetch nothing.
    """

    def __init__(self, download: Download | None) -> None:
        self.state: FetchState = "idle"
        self.progress: Progress | None = None
        self.error = ""
        """Why the last one failed, in one sentence."""
        self._download = download
        self._changed: Callable[[], None] = lambda: None
        self._ending = threading.Event()
        # A download may end while it is asked to.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def possible(self) -> bool:
        """Whether there is something to run."""
        return self._download is not None

    @property
    def active(self) -> bool:
        """Whether a download is under way."""
        return self.state in ("running", "cancelling")

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the state or the phase is another one, from the thread; it must not block."""
        self._changed = changed

    def start(self) -> None:
        """Begin; nothing happens while one is under way."""
        if self._download is None or self.active:
            return
        self.state, self.progress, self.error = "running", None, ""
        self._ending = threading.Event()
        # No daemon: it may be inside an import of torch, and a daemon there aborts the interpreter's exit.
        self._thread = threading.Thread(target=self._run, args=(self._download, self._ending), name="tuitrain-fetch")
        self._thread.start()

    def cancel(self) -> None:
        """Ask it to end."""
        with self._lock:
            if self.state == "running":
                self.state = "cancelling"
        self._ending.set()

    def join(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the thread to end; whether it has."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def _run(self, download: Download, ending: threading.Event) -> None:
        state: FetchState = "arrived"
        try:
            for progress in download(ending.is_set):
                new_phase = self.progress is None or self.progress.phase != progress.phase
                self.progress = progress
                if new_phase:
                    self._changed()
        except Exception as error:  # the app lives on, whatever a download runs into
            state = "cancelled" if ending.is_set() else "failed"
            self.error = f"{first_line(error).removeprefix('data: ')}."
        with self._lock:
            self.state = state
        self._changed()
