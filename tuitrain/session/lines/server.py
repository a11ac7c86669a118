"""The run's end of its control socket: one thread that never waits for anybody."""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tuitrain.events import PUBLIC, Command, Event, Replicas, RunStarted, State, encode
from tuitrain.paths import control_sockets
from tuitrain.session.lines import FREQUENT, Answer, Word, place
from tuitrain.session.lines.connection import Connection, Gone

MOST_CONNECTIONS = 64
CHECK_SECONDS = 5.0
"""How often the socket's file is looked for: it goes with the folder of a login that has ended."""
FLUSH_SECONDS = 1.0
"""How long viewers have to read the run's last events."""
_CROWDED_SECONDS = 0.1

_FIRST = (RunStarted, State, Replicas)
"""What a viewer hears first, in this order."""


class ControlServer:
    """Listens for a run from when it is made until `finish`.

    Args:
        run_folder: the run's.
        obey: called with each command, from the server's thread; it must not block.
        watched: called with the number of viewers when it changes, from the server's thread.

    Raises:
        OSError: there is no place for the socket.
    """

    def __init__(self, run_folder: Path, obey: Callable[[Command], None], watched: Callable[[int], None]) -> None:
        self._obey = obey
        self._watched = watched
        self._places = control_sockets(run_folder)
        self._connections: list[Connection] = []
        self._batches: list[Sequence[Event]] = []
        self._newest: dict[type, Event] = {}
        self._lock = threading.Lock()
        self._finishing = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._path, self._listener = self._listen()
        self._file = self._path.lstat().st_ino
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="tuitrain-lines", daemon=True)
        self._thread.start()

    def tell(self, batch: Sequence[Event]) -> None:
        """Hand events on to the viewers; never waits."""
        with self._lock:
            self._newest |= {type(event): event for event in batch if isinstance(event, _FIRST)}
            if not any(connection.watching for connection in self._connections):
                return
            self._batches.append(batch)
        self._rouse()

    def finish(self) -> None:
        """Let the viewers read what they were told, close, and remove the socket; never waits."""
        self._finishing.set()
        self._rouse()

    def join(self, timeout: float) -> bool:
        """Wait for the server's end; whether it has come."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _rouse(self) -> None:
        with suppress(OSError):  # full: it is awake already; closed: it has ended
            self._wake.send(b".")

    def _listen(self) -> tuple[Path, socket.socket]:
        problem: OSError = FileNotFoundError("no folder for sockets")
        for path in self._places:
            try:
                return path, place.listen(path)
            except OSError as error:
                problem = error
        raise problem

    def _run(self) -> None:
        try:
            while not self._finishing.is_set():
                self._turn(CHECK_SECONDS)
            end = time.monotonic() + FLUSH_SECONDS
            while any(connection.pending for connection in self._connections) and (left := end - time.monotonic()) > 0:
                self._turn(left)
        finally:
            self._close()

    def _turn(self, wait: float) -> None:
        for key, mask in self._selector.select(wait):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._woken:
                with suppress(OSError):
                    self._woken.recv(4096)
            else:
                self._serve(key.data, mask)
        self._deliver()
        if not os.path.lexists(self._path) and not self._finishing.is_set():
            self._listen_again()

    def _accept(self) -> None:
        try:
            line, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # no file descriptors left: without a pause this would spin
            time.sleep(_CROWDED_SECONDS)
            return
        connection = Connection(line)
        self._connections.append(connection)
        self._selector.register(line, selectors.EVENT_READ, connection)
        try:
            if not place.is_own(line):
                connection.refuse("This run belongs to another user.")
            elif len(self._connections) > MOST_CONNECTIONS:
                connection.refuse(f"This run has {MOST_CONNECTIONS} connections already.")
        except Gone:
            self._forget(connection)

    def _serve(self, connection: Connection, mask: int) -> None:
        if connection not in self._connections:
            return  # it was cut off a moment ago
        try:
            if mask & selectors.EVENT_READ:
                for command in connection.receive():
                    self._do(connection, command)
            connection.flush()
        except Gone:
            self._forget(connection)
        else:
            self._wait_for(connection)

    def _do(self, connection: Connection, command: Word) -> None:
        if command != "watch":
            self._obey(command)
            connection.answer(Answer(ok=True))
            return
        self._deliver()  # what was said before is not for the one that comes
        with self._lock:
            first = [self._newest[kind] for kind in _FIRST if kind in self._newest]
            already, connection.watching = connection.watching, True
        connection.answer(Answer(ok=True))
        connection.send(_as_lines(first))
        if not already:
            self._count()

    def _deliver(self) -> None:
        with self._lock:
            batches, self._batches = self._batches, []
        if not batches:
            return
        every = [event for batch in batches for event in batch if isinstance(event, PUBLIC)]
        rare = _as_lines([event for event in every if not isinstance(event, FREQUENT)])
        whole = _as_lines(every)
        for connection in [one for one in self._connections if one.watching]:
            try:
                connection.send(rare if connection.behind else whole)
            except Gone:
                self._forget(connection)
            else:
                self._wait_for(connection)

    def _wait_for(self, connection: Connection) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.pending else 0)
        self._selector.modify(connection.line, events, connection)

    def _forget(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        self._selector.unregister(connection.line)
        connection.line.close()
        with self._lock:
            self._connections.remove(connection)
        if connection.watching:
            self._count()

    def _count(self) -> None:
        self._watched(sum(connection.watching for connection in self._connections))

    def _listen_again(self) -> None:
        try:
            path, listener = self._listen()
        except OSError:
            return  # the next look may find a place
        self._selector.unregister(self._listener)
        self._listener.close()
        self._path, self._listener = path, listener
        self._file = path.lstat().st_ino
        self._selector.register(listener, selectors.EVENT_READ)

    def _close(self) -> None:
        # The name may be another process's by now, which has taken the run over.
        with suppress(OSError):
            if self._path.lstat().st_ino == self._file:
                self._path.unlink()
        for connection in list(self._connections):
            self._forget(connection)
        for end in (self._listener, self._woken, self._wake):
            end.close()
        self._selector.close()


def _as_lines(batch: Sequence[Event]) -> bytes:
    return "".join(f"{encode(event)}\n" for event in batch).encode()
