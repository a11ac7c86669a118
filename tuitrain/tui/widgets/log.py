"""The log: notices, changes of state, and what libraries print."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip

from tuitrain.runs.logtail import LogLine, LogTail
from tuitrain.text import plural
from tuitrain.tui.log_text import LogText, Search, cut
from tuitrain.tui.look import Palette
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.scrolling import WHEEL_ROWS
from tuitrain.tui.wrap import wrap

EMPTY = "Nothing yet: notices, and what libraries print, come here."
_MARKS = {"info": "·", "warning": "!", "error": "✗", "output": " "}
_INDENT = 11
_FOUND = Style(reverse=True)


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
            pieces = wrap(line.text, _text_width(width))
            new = [_begin(line, self.palette, first=not part).add(piece, _style(line, self.palette)) for part, piece in enumerate(pieces)]
            rows = [*(row.strip(width) for row in new), *rows]
            if len(rows) >= height:
                break
        return rows[-height:] or self.empty(width)

    def empty(self, width: int) -> list[Strip]:
        """What stands where nothing has been logged."""
        return [Row(line, self.palette.dim).strip(width) for line in wrap(EMPTY, width)]


class LogView(LogPane, can_focus=True):
    """The whole log: follows the newest line until one scrolls back, and shows what is looked for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_by(1)", "Scroll", show=True, key_display="↑↓"),
        Binding("down", "scroll_by(-1)", show=False),
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
        self.search = Search()
        self._text = LogText()
        self._could = (False, False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """One scrolls what is longer than the view, and follows what one does not follow yet."""
        scrolls, follows = self._can()
        return {"scroll_by": scrolls, "scroll_page": scrolls, "follow": follows}.get(action, True)

    def _can(self) -> tuple[bool, bool]:
        return len(self._text) > self.body_height(), self.back > 0

    @property
    def _farthest(self) -> int:
        """How many rows one can scroll back."""
        return max(len(self._text) - self.body_height(), 0)

    def action_scroll_by(self, rows: int) -> None:
        """Scroll back (positive) or forth."""
        self.back = min(max(self.back + rows, 0), self._farthest)
        self.redraw()

    def action_scroll_page(self, pages: int) -> None:
        """Scroll by what one sees."""
        self.action_scroll_by(pages * max(self.body_height() - 1, 1))

    def action_follow(self) -> None:
        """Back to the newest line."""
        self.back = 0
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel goes back."""
        event.stop()
        self.action_scroll_by(WHEEL_ROWS)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """And forth."""
        event.stop()
        self.action_scroll_by(-WHEEL_ROWS)

    @property
    def newest(self) -> int | None:
        """How many of the log's newest lines these are, where it has older ones."""
        return len(self._text.lines) if self._log().cut else None

    @property
    def _lowest(self) -> int:
        """The number of the last line in view; 0 where there is none."""
        end = len(self._text) - self.back
        return self._text.row(end - 1)[0] if end > 0 else 0

    def find(self, text: str) -> None:
        """Look for another text, from what one sees backwards; without a text, for nothing."""
        self.search.find(text, self._text, self._lowest)
        self._show_match()

    def move_match(self, by: int) -> None:
        """Go to the next (positive) or previous line that has the text."""
        self.search.move(by)
        self._show_match()

    def _show_match(self) -> None:
        self._scroll_to_match()
        self.redraw()

    def _scroll_to_match(self) -> None:
        """Scroll so that the match is in view, to its middle where it was not."""
        if self.search.at is not None:
            start, end = self._text.rows_of(self.search.at)
            bottom, height = len(self._text) - self.back, self.body_height()
            if not bottom - height <= start < end <= bottom:
                self.back = min(max(len(self._text) - start - height // 2, 0), self._farthest)

    def content(self, width: int, height: int) -> list[Strip]:
        """Take in the new lines first: while scrolled back, what is in view stays there, and the heading says so."""
        log, text_width = self._log(), _text_width(width - 4)
        if log is self._text.log:
            self._follow_on(log, text_width)
        else:
            self.back = 0
            self._text.update(log, text_width)
            self.search.find(self.search.text, self._text, self._lowest)
        if self._could != (could := self._can()):
            self._could = could
            self.call_later(self.refresh_bindings)
        return super().content(width, height)

    def _follow_on(self, log: LogTail, width: int) -> None:
        match, lowest, rewrapped = self.search.at, self._lowest, width != self._text.width
        added = self._text.update(log, width)
        self.search.update(self._text)
        if not self.back:
            return
        if rewrapped:
            added = len(self._text) - self._text.rows_of(max(lowest, self._text.first))[1] - self.back
        self.back = min(self.back + added, self._farthest)
        if match is not None and match < self._text.first and self.back == self._farthest:
            # The match went with the oldest lines, and its place is taken by the next one.
            self._scroll_to_match()

    def heading(self) -> tuple[Row, Row]:
        """The title, and where one is."""
        place = f"{self.back:,} {plural('row', self.back)} back · End follows" if self.back else "following"
        if self.newest is not None and 0 < self.back == self._farthest:
            place = f"older lines are only in the file · {place}"
        return Row("Log", self.title_style()), Row(place, self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The rows in view."""
        end = len(self._text) - self.back
        return [self._row(index).strip(width) for index in range(max(end - height, 0), end)] or self.empty(width)

    def _row(self, index: int) -> Row:
        number, piece, start, first = self._text.row(index)
        line, palette = self._text.line(number), self.palette
        row, style = _begin(line, palette, first=first, here=number == self.search.at), _style(line, palette)
        for part, found in cut(piece, start, self.search.spans(line.text)):
            row.add(part, style + _FOUND if found else style)
        return row


def _text_width(width: int) -> int:
    return max(width - _INDENT, 10)


def _style(line: LogLine, palette: Palette) -> Style:
    return {"info": palette.text, "warning": palette.warn, "error": palette.bad, "output": palette.dim}[line.level]


def _begin(line: LogLine, palette: Palette, *, first: bool, here: bool = False) -> Row:
    """What stands before a piece of a line; `here` marks the match that one looks at."""
    if not first:
        return Row(" " * _INDENT)
    stamp = time.strftime("%H:%M:%S", time.gmtime(line.time))
    return Row(stamp, palette.dim).add("▸" if here else " ", palette.cursor).add(f"{_MARKS[line.level]} ", _style(line, palette))
