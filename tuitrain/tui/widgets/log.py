"""The log: notices, changes of state, and what libraries print."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.strip import Strip

from tuitrain.runs.logtail import LogLine, LogTail
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row
from tuitrain.tui.widgets.wrap import wrap

_MARKS = {"info": "·", "warning": "!", "error": "✗", "output": " "}
_INDENT = 11


class LogPane(Pane):
    """The newest lines that fit."""

    def __init__(self, log: Callable[[], LogTail], *, id: str = "log") -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self._log = log

    def heading(self) -> tuple[Row, Row]:
        """The title, and the key to more."""
        return Row("Log", self.title_style()), Row("o ", self.palette.key).add("all of it", self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The last lines, wrapped, the newest at the bottom; the oldest at the top while there is room."""
        rows: list[Strip] = []
        for line in reversed(self._log().tail(height)):
            rows = [*self.wrapped(line, width), *rows]
            if len(rows) >= height:
                break
        if not rows:
            return [Row("notices and library output", self.palette.dim).strip(width)]
        return rows[-height:]

    def wrapped(self, line: LogLine, width: int) -> list[Strip]:
        """One entry as lines."""
        palette = self.palette
        style = {"info": palette.text, "warning": palette.warn, "error": palette.bad, "output": palette.dim}[line.level]
        stamp = time.strftime("%H:%M:%S", time.gmtime(line.time))
        pieces = wrap(line.text, max(width - _INDENT, 10))
        first = Row(f"{stamp} ", palette.dim).add(f"{_MARKS[line.level]} ", style).add(pieces[0], style)
        return [first.strip(width), *(Row(" " * _INDENT).add(piece, style).strip(width) for piece in pieces[1:])]


class LogView(LogPane, can_focus=True):
    """The whole log: follows the newest line until one scrolls back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_by(1)", "Back", show=True, key_display="↑"),
        Binding("down", "scroll_by(-1)", "Forth", show=True, key_display="↓"),
        Binding("pageup", "scroll_page(1)", show=False),
        Binding("pagedown", "scroll_page(-1)", show=False),
        Binding("home", "scroll_by(1000000)", "Start", show=True),
        Binding("end", "follow", "Follow", show=True),
    ]

    def __init__(self, log: Callable[[], LogTail]) -> None:
        super().__init__(log, id="log-view")
        self.first = self.last = True
        self.back = 0
        """How many rows the view has been scrolled back; 0 follows."""
        self._rows: list[Strip] = []
        self._key: object = None

    def action_scroll_by(self, rows: int) -> None:
        """Scroll back (positive) or forth."""
        self.back = min(max(self.back + rows, 0), max(len(self._rows) - self.body_height(), 0))
        self.redraw()

    def action_scroll_page(self, pages: int) -> None:
        """Scroll by what one sees."""
        self.action_scroll_by(pages * max(self.body_height() - 1, 1))

    def action_follow(self) -> None:
        """Back to the newest line."""
        self.back = 0
        self.redraw()

    def heading(self) -> tuple[Row, Row]:
        """The title, and where one is."""
        place = f"{self.back:,} rows back · end follows" if self.back else "following"
        return Row("Log", self.title_style()), Row(place, self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The rows in view; while scrolled back they stay where they are when lines are added."""
        log = self._log()
        key = (id(log), log.total, width, self.app.theme)
        if key != self._key:
            self._key = key
            before = len(self._rows)
            self._rows = [row for line in log.tail(log.total) for row in self.wrapped(line, width)]
            if self.back:
                self.back = min(self.back + max(len(self._rows) - before, 0), max(len(self._rows) - height, 0))
        end = len(self._rows) - self.back
        return self._rows[max(end - height, 0) : end] or super().body(width, height)
