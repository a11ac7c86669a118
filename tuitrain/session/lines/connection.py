"""One connection to a control socket, as the server has it: what came, what goes out, and bounds on both."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import msgspec

from tuitrain.session.lines import WORDS, Answer, Order, Word

LONGEST_ORDER = 1024
"""Bytes of one message from a client."""
BEHIND_BYTES = 256 * 1024
"""A viewer with more than this still to read gets no more step events until it has caught up."""
CUT_OFF_BYTES = 1024 * 1024
"""One with more than this is cut off."""

_PIECE = 1 << 16


class Gone(Exception):
    """The connection is over."""


class Connection:
    """Reads and writes without ever waiting."""

    def __init__(self, line: socket.socket) -> None:
        line.setblocking(False)
        self.line = line
        self.watching = False
        self._came = bytearray()
        self._going = bytearray()
        self._last = False

    @property
    def pending(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._going)

    @property
    def behind(self) -> bool:
        """Whether the other side reads more slowly than the run speaks."""
        return len(self._going) > BEHIND_BYTES

    def receive(self) -> Iterator[Word]:
        """The commands that came. Everything else that came is answered.

        Raises:
            Gone: the other side has closed the connection.
        """
        try:
            piece = self.line.recv(_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            raise Gone from None
        if not piece:
            raise Gone
        if self._last:
            return
        self._came += piece
        while not self._last and (end := self._came.find(b"\n")) >= 0:
            order = bytes(self._came[:end])
            del self._came[: end + 1]
            if order.strip():
                yield from self._order(order)
        if len(self._came) > LONGEST_ORDER:
            self._too_long()

    def answer(self, answer: Answer) -> None:
        """Reply to a command."""
        self.send(msgspec.json.encode(answer) + b"\n")

    def refuse(self, sentence: str) -> None:
        """Say why, and hear nothing more.

        Raises:
            Gone: it is said.
        """
        self.answer(Answer(error=sentence))
        self._last = True
        self.flush()

    def send(self, content: bytes) -> None:
        """Send what can be sent now and keep the rest.

        Raises:
            Gone: the other side has closed the connection, or does not read at all.
        """
        self._going += content
        self.flush()
        if len(self._going) > CUT_OFF_BYTES:
            raise Gone

    def flush(self) -> None:
        """Send more of what is kept.

        Raises:
            Gone: the other side has closed the connection, or has been told all that it was to be told.
        """
        try:
            while self._going:
                del self._going[: self.line.send(self._going[:_PIECE])]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            raise Gone from None
        if self._last:
            raise Gone

    def _order(self, order: bytes) -> Iterator[Word]:
        if len(order) > LONGEST_ORDER:
            self._too_long()
            return
        try:
            yield msgspec.json.decode(order, type=Order).command
        except (msgspec.MsgspecError, UnicodeDecodeError):
            known = ", ".join(WORDS)
            self.answer(Answer(error=f'The message is not understood; it must be {{"command": NAME}}, with one of {known}.'))

    def _too_long(self) -> None:
        self._came.clear()
        self.refuse(f"The message is longer than {LONGEST_ORDER} bytes.")
