"""A viewer's end of a run's control socket."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tuitrain.events import PUBLIC, Command, Event
from tuitrain.paths import control_sockets
from tuitrain.runs.errors import RunError
from tuitrain.session.lines import Answer, Order, place
from tuitrain.text import clean

ANSWER_SECONDS = 5.0
_PIECE = 1 << 16
_LONGEST_LINE = 1 << 20


class Unanswered(RunError):
    """No process answers for a run; a moment later one may."""


class RunLine:
    """A line to a live run of this user on this machine; any thread may use it."""

    def __init__(self, path: Path, line: socket.socket) -> None:
        self._path = path
        self._line = line
        self._closed = False

    @staticmethod
    def connect(run_folder: Path) -> RunLine | None:
        """The line to the run in `run_folder`; `None` where no process of this user answers for it on this machine."""
        for path in control_sockets(run_folder):
            if (line := _open(path)) is not None:
                return RunLine(path, line)
        return None

    def ask(self, command: Command) -> None:
        """Give a command. The run has then taken it, and obeys at its next step.

        Raises:
            RunError: the run refuses it.
            Unanswered: its process does not answer within `ANSWER_SECONDS`.
        """
        # A connection of its own: an answer does not have to be looked for among events that another thread reads.
        line = _open(self._path)
        if line is None:
            raise Unanswered("The run does not answer: it has ended, or gone on in another process.")
        with line:
            try:
                line.sendall(msgspec.json.encode(Order(command)) + b"\n")
                answer = msgspec.json.decode(next(_lines(line), b""), type=Answer)
            except (OSError, msgspec.MsgspecError):
                raise Unanswered("The run's process does not answer.") from None
        if answer.error is not None:
            raise RunError(clean(answer.error))

    def watch(self) -> Iterator[Event]:
        """What the run says, its start and its state first, until it has ended, goes on in another process, or `close` is called.

        While it waits, `close` from another thread ends it.
        """
        with suppress(OSError):
            self._line.sendall(msgspec.json.encode(Order("watch")) + b"\n")
            self._line.settimeout(None)
            for line in _lines(self._line):
                if (event := decode(line)) is not None:
                    yield event

    def wait_for_end(self, timeout: float) -> bool:
        """Wait until the run's process has let go of the run; whether it has."""
        self._line.settimeout(timeout)
        try:
            return not self._line.recv(1)
        except TimeoutError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Hang up; the second time does nothing."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()

    def __enter__(self) -> RunLine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def decode(line: bytes) -> Event | None:
    """The public event in one line of JSON; `None` where it is another thing, such as an answer or a newer version's event."""
    decoder = _decoder()
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # Rare, and twice the work: JSON has no number for a loss that is none.
        return _with_lost_numbers(line, decoder)


def _with_lost_numbers(line: bytes, decoder: msgspec.json.Decoder[Event]) -> Event | None:
    try:
        document = msgspec.json.decode(line)
        if isinstance(document, dict) and document.get("event") in ("step", "eval"):
            document |= {field: math.nan for field in ("loss", "loss_sum", "accuracy") if document.get(field, 0) is None}
        event: Event = msgspec.convert(document, decoder.type)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return event


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    union: Any = PUBLIC[0]
    for kind in PUBLIC[1:]:
        union |= kind
    return msgspec.json.Decoder(union)


def _open(path: Path) -> socket.socket | None:
    if not place.own_folder(path.parent):
        return None
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(ANSWER_SECONDS)
    try:
        line.connect(str(path))
        if place.is_own(line):
            return line
    except OSError:
        pass
    line.close()
    return None


def _lines(line: socket.socket) -> Iterator[bytes]:
    """Whole lines as they come, until the end of the connection.

    Raises:
        OSError: nothing came in time, or what came is no line.
    """
    rest = bytearray()
    while piece := line.recv(_PIECE):
        rest += piece
        *whole, rest = rest.split(b"\n")
        for one in whole:
            yield bytes(one)
        if len(rest) > _LONGEST_LINE:
            raise OSError("a line without an end")
