"""Fewer bytes to the terminal: only cells that differ from what it shows are sent, and colours only where they change.

Textual's own updates start every changed line at the left edge of its widget, give each piece its full style, and paint a screen
several times while it opens; over a slow link that is ten times as much as what changed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen

from tuitrain.tui.strips import Cell, cells, differing_runs
from tuitrain.tui.terminal.painting import Piece, Pieces
from tuitrain.tui.terminal.sequences import RESET, Output, Run

Result = TypeVar("Result")

_UNKNOWN: Cell = ("\0", None)
_AT_ONCE = 1024
"""Bytes that reach a terminal in one piece."""


class Shadow:
    """What the terminal shows, cell by cell, as far as it is known."""

    def __init__(self) -> None:
        self._lines: list[list[Cell]] = []
        self.size = Size(0, 0)
        self.style: Style | None = None
        """What the terminal writes in; `None` when nobody knows."""

    def resize(self, size: Size) -> None:
        """The whole screen is painted at this size; at another one than before nothing is known."""
        if size != self.size:
            self.size = size
            self.forget()

    def forget(self) -> None:
        """Nothing is known any more: the next update sends all of its cells."""
        self._lines = []
        self.style = None

    def take(self, x: int, y: int, new: list[Cell]) -> list[tuple[int, int]]:
        """Note that `new` is shown from column `x` of row `y` on; the runs [start, end) of it that the terminal does not show yet."""
        while len(self._lines) <= y:
            self._lines.append([])
        line = self._lines[y]
        end = x + len(new)
        line += [_UNKNOWN] * (end - len(line))
        if x and not line[x][0]:
            # Half of a wide character is written over, and the terminal blanks its other half.
            line[x - 1] = _UNKNOWN
        runs = differing_runs(line[x:end], new)
        line[x:end] = new
        return runs


class ThriftyUpdate(CompositorUpdate):
    """An update that sends what the terminal does not show yet."""

    def __init__(self, shadow: Shadow, pieces: Iterable[Piece]) -> None:
        self._shadow = shadow
        self._pieces = pieces

    def render_segments(self, console: Console) -> str:
        """The update as terminal output; the shadow then holds it."""
        out = Output(console, self._shadow.size.width, self._shadow.style)
        text = out.text(self._runs())
        self._shadow.style = out.style
        return text

    def _runs(self) -> Iterator[Run]:
        for x, y, strip in self._pieces:
            new = cells(strip)
            for start, end in self._shadow.take(x, y, new):
                yield x + start, y, new[start:end]


class ThriftyApp(App[Result]):
    """An app that is drawn so, whatever screen is on top."""

    def __init__(self) -> None:
        super().__init__()
        self.shadow = Shadow()
        self.sent = 0
        """Bytes of all that was drawn so far."""

    def thrifty(self, renderable: RenderableType | CompositorUpdate | None) -> RenderableType | CompositorUpdate | None:
        """A thrifty update in place of one of Textual's."""
        if isinstance(renderable, LayoutUpdate):
            self.shadow.resize(renderable.region.size)
            return ThriftyUpdate(self.shadow, _lines(renderable))
        if isinstance(renderable, Pieces):
            self.shadow.resize(renderable.size)
            return ThriftyUpdate(self.shadow, renderable.pieces)
        if isinstance(renderable, ChopsUpdate):
            return ThriftyUpdate(self.shadow, _spans(renderable))
        return renderable

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        update = self.thrifty(renderable)
        if isinstance(update, ThriftyUpdate) and self._is_sent:
            self._send(update, screen)
        else:
            super()._display(screen, update)  # type: ignore[arg-type]

    @property
    def _is_sent(self) -> bool:
        """Whether what is drawn now goes to a terminal that takes any length at once."""
        driver = self._driver
        drawn = self._running and not self._closed and not self._batch_count
        return drawn and driver is not None and not (driver.is_inline or driver.is_headless) and sys.platform != "win32"

    def _send(self, update: ThriftyUpdate, screen: Screen[object]) -> None:
        """As Textual does, but with nothing around what is sent: no jump of the cursor, which nobody sees, to the upper left corner, and
        for what a terminal gets at once no word that it is to wait for the end."""
        driver, text = self._driver, update.render_segments(self.console)
        if driver is None or not text:
            return
        if hasattr(screen.focused, "insert_text_at_cursor"):
            # Where one types, an input method shows its window at the cursor.
            x, y = screen.outer_size.clamp_offset(self.cursor_position)
            text += f"\x1b[{y + 1};{x + 1}H"
        self.sent += len(text.encode())
        if len(text) < _AT_ONCE:
            driver.write(text)
        else:
            self._begin_update()
            driver.write(text)
            self._end_update()

    def on_mount(self) -> None:
        """Hand the terminal over without colours, and paint everything after it was somebody else's."""
        self.app_suspend_signal.subscribe(self, lambda _: self._plain())
        self.app_resume_signal.subscribe(self, lambda _: self.shadow.forget())

    def on_unmount(self) -> None:
        """Give the terminal back without colours."""
        self._plain()

    def _plain(self) -> None:
        self.shadow.forget()
        if self._driver is not None:
            self._driver.write(RESET)

    def on_resize(self, event: Resize) -> None:
        """A terminal that was resized and resized back shows nobody knows what, and Textual sees no reason to paint."""
        if event.size == self.shadow.size:
            self.call_after_refresh(self.action_repaint)

    def action_repaint(self) -> None:
        """Paint every cell again, for a terminal that something else has written on."""
        self.shadow.forget()
        self.screen.refresh(layout=True)


def _lines(update: LayoutUpdate) -> Iterator[Piece]:
    for y, line in enumerate(update.strips, update.region.y):
        x = update.region.x
        for strip in line:
            yield x, y, strip
            x += strip.cell_length


def _spans(update: ChopsUpdate) -> Iterator[Piece]:
    for y, left, right in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            first, last = max(x, left), min(end, right)
            if strip is not None and first < last:
                yield first, y, strip.crop(first - x, last - x)
