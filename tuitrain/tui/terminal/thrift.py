"""Fewer bytes to the terminal: only cells that differ from what it shows are sent, and colours only where they change.

Textual's own updates start every changed line at the left edge of its widget, give each piece its full style, and paint a screen
several times while it opens; over a slow link that is ten times as much as what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import TypeVar

from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

from tuitrain.tui.widgets.strips import PLAIN, Cell, cells, differing_runs

Result = TypeVar("Result")
Piece = tuple[int, int, Strip]
"""Column and row of the first cell, and the cells."""
Run = tuple[int, int, list[Cell]]
"""The same, of cells that the terminal does not show yet."""

_PROBE = "x"
_RESET = "\x1b[0m"
_UNKNOWN: Cell = ("\0", None)
# Of more cells than these most lie side by side, and moving the cursor from one to the next of a colour costs more than changing colours.
_FEW_CELLS = 400
_MOST_BACKSPACES = 3


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


class _Output:
    """Terminal output under construction; it knows the style and the place that the terminal's cursor has."""

    def __init__(self, console: Console, style: Style | None) -> None:
        self._system = COLOR_SYSTEMS.get(console.color_system or "")
        self._width = console.width
        self.style = style
        self._place = (-1, -1)
        self._parts: list[str] = []

    def write(self, runs: Iterable[Run]) -> str:
        """All of them, in this order."""
        for run in runs:
            self._add(*run)
        return "".join(self._parts)

    def by_style(self, runs: Iterable[Run]) -> Iterator[Run]:
        """The runs cut where the style changes, and those of one style together, so that each style is set once."""
        groups: dict[Style, list[Run]] = {}
        for x, y, run in runs:
            for style, piece in groupby(run, lambda cell: cell[1] or PLAIN):
                cut = list(piece)
                groups.setdefault(style, []).append((x, y, cut))
                x += len(cut)
        style = self.style
        while groups:
            style = min(groups, key=lambda next_one: len(_change(style, next_one, self._system)))
            yield from groups.pop(style)

    def _add(self, x: int, y: int, run: list[Cell]) -> None:
        self._go_to(x, y)
        for text, style in run:
            style = style or PLAIN
            if style != self.style:
                self._parts.append(_change(self.style, style, self._system))
                self.style = style
            self._parts.append(text)
        # Behind the last column terminals differ in where the cursor is.
        self._place = (-1, -1) if x + len(run) >= self._width else (x + len(run), y)

    def _go_to(self, x: int, y: int) -> None:
        here, row = self._place
        if row == y - 1 >= 0 and 0 <= here - x <= _MOST_BACKSPACES:
            self._parts.append("\x1b[B" + "\b" * (here - x))
        elif row != y or x < here:
            self._parts.append(f"\x1b[{y + 1};{x + 1}H")
        elif x > here:
            self._parts.append(f"\x1b[{x - here}C" if x - here > 1 else "\x1b[C")


class ThriftyUpdate(CompositorUpdate):
    """An update that sends what the terminal does not show yet."""

    def __init__(self, shadow: Shadow, pieces: Iterable[Piece]) -> None:
        self._shadow = shadow
        self._pieces = pieces

    def render_segments(self, console: Console) -> str:
        """The update as terminal output; the shadow then holds it."""
        runs = list(self._runs())
        out = _Output(console, self._shadow.style)
        text = out.write(runs)
        if sum(len(run) for _, _, run in runs) <= _FEW_CELLS:
            grouped = _Output(console, self._shadow.style)
            shorter = grouped.write(grouped.by_style(runs))
            if len(shorter) < len(text):
                out, text = grouped, shorter
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

    def thrifty(self, renderable: RenderableType | CompositorUpdate | None) -> RenderableType | CompositorUpdate | None:
        """A thrifty update in place of one of Textual's."""
        if isinstance(renderable, LayoutUpdate):
            self.shadow.resize(renderable.region.size)
            return ThriftyUpdate(self.shadow, _lines(renderable))
        if isinstance(renderable, ChopsUpdate):
            return ThriftyUpdate(self.shadow, _spans(renderable))
        return renderable

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        super()._display(screen, self.thrifty(renderable))  # type: ignore[arg-type]

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
            self._driver.write(_RESET)

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


@lru_cache(4096)
def _change(old: Style | None, new: Style, system: ColorSystem | None) -> str:
    """What turns the terminal from style `old` into `new`."""
    if system is None:
        return ""
    if old is None:
        return _RESET + new.render(_PROBE, color_system=system).partition(_PROBE)[0]
    if _besides_bold(old) != _besides_bold(new) or (old.color and not new.color) or (old.bgcolor and not new.bgcolor):
        return _RESET + new.render(_PROBE, color_system=system).partition(_PROBE)[0]
    codes: list[str] = []
    if bool(old.bold) != bool(new.bold):
        codes.append("1" if new.bold else "22")
    for before, after, foreground in ((old.color, new.color, True), (old.bgcolor, new.bgcolor, False)):
        if after is not None and after != before:
            codes += _codes(after, system, foreground)
    return f"\x1b[{';'.join(codes)}m" if codes else ""


def _codes(colour: Color, system: ColorSystem, foreground: bool) -> tuple[str, ...]:
    return colour.downgrade(system).get_ansi_codes(foreground=foreground)


def _besides_bold(style: Style) -> tuple[bool, ...]:
    """The attributes that no code takes away alone; what ends bold ends dim too."""
    flags = (style.dim, style.italic, style.underline, style.blink, style.reverse, style.strike, style.conceal, style.overline)
    return (*map(bool, flags), bool(style.dim and style.bold))
