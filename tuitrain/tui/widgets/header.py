"""The top line: the machine, the run, its state and how long it has been running."""

from __future__ import annotations

import socket

from textual.strip import Strip

from tuitrain import words
from tuitrain.text import clean
from tuitrain.tui.look import state_look
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.strips import Row, spread
from tuitrain.tui.widgets.lines import Lines


class Header(Lines):
    """` tuitrain · host … ● run-id  running 00:03:12`."""

    def __init__(self, view: RunLike) -> None:
        super().__init__(id="header")
        self._view = view
        self._host = clean(socket.gethostname())

    def content(self, width: int, height: int) -> list[Strip]:
        """One line."""
        palette = self.palette
        left = Row(" tuitrain", palette.title_focus).add(f" · {self._host}", palette.dim)
        record, state = self._view.record, self._view.state
        glyph, style = state_look(state, palette)
        right = Row()
        if record is not None:
            right.add(f"{glyph} ", style)
            if record.run:
                right.add(f"{record.run}  ", palette.text)
            # A clock that stands at zero for as long as images are decoded looks like a program that hangs.
            clock = "" if state == "preparing" and not record.running_seconds else f" {words.clock(record.running_seconds)}"
            right.add(state, style).add(f"{clock} ", palette.dim)
        return [spread(left, right, width)]
