"""What a session offers to other terminals: the control socket of its run, and how many screens show that run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tuitrain.events import Command, Event

if TYPE_CHECKING:
    from pathlib import Path

    from tuitrain.runs.record import RunRecord
    from tuitrain.session.lines.server import ControlServer


class Endpoint:
    """Belongs to one session; a run at a time.

    Args:
        obey: takes the commands that come over the socket; it must not block.
    """

    def __init__(self, obey: Callable[[Command], None]) -> None:
        self._obey = obey
        self._server: ControlServer | None = None
        self._record: RunRecord | None = None
        self._screen = False
        self._viewers = 0
        # A signal handler may say that the screen has gone while its thread is in here.
        self._lock = threading.RLock()

    @property
    def screen(self) -> bool:
        """Whether the session's own process shows the run to somebody."""
        return self._screen

    @screen.setter
    def screen(self, shown: bool) -> None:
        with self._lock:
            self._screen = shown
            self._count()

    def open(self, folder: Path, record: RunRecord) -> None:
        """Listen for the run in `folder`.

        Raises:
            OSError: there is no place for the socket.
        """
        # Not at the top: the first frame needs none of it.
        from tuitrain.session.lines.server import ControlServer

        with self._lock:
            self._record, self._viewers = record, 0
            self._count()
        self._server = ControlServer(folder, self._obey, partial(self._watched, record))

    def tell(self, batch: Sequence[Event]) -> None:
        """Hand events on to the viewers; with an empty batch, hang up when they have read what they were told. Never waits."""
        if self._server is None:
            return
        if batch:
            self._server.tell(batch)
        else:
            self._server.finish()

    def join(self, timeout: float) -> bool:
        """Wait until nobody is connected any more and the socket is gone; whether it is so."""
        return self._server is None or self._server.join(timeout)

    def _watched(self, record: RunRecord, viewers: int) -> None:
        with self._lock:
            # The server of the run before may still let its viewers read the end.
            if record is self._record:
                self._viewers = viewers
                self._count()

    def _count(self) -> None:
        if self._record is not None:
            self._record.attached = self._viewers + self._screen
