"""From cells to what a terminal is sent: moves of the cursor, changes of style, text; in the order that takes few bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby, islice

from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style

from tuitrain.tui.widgets.strips import PLAIN, Cell

Run = tuple[int, int, list[Cell]]
"""Column and row of the first cell, and the cells, which lie side by side."""

RESET = "\x1b[0m"
_PROBE = "x"
_MOST_BACKSPACES = 3
_NEAR = 24
"""Among so many pieces, in the order of their rows, the nearest one is sought: more of them take longer than they save."""


class Output:
    """Terminal output under construction; it knows the style and the place that the terminal's cursor has.

    Args:
        console: says which colours the terminal has.
        width: columns of the terminal.
        style: what the terminal writes in; `None` when nobody knows.
    """

    def __init__(self, console: Console, width: int, style: Style | None) -> None:
        self._system = COLOR_SYSTEMS.get(console.color_system or "")
        self._width = width
        self.style = style
        self._place: tuple[int, int] | None = None
        self._parts: list[str] = []

    def in_order(self, runs: Iterable[Run]) -> str:
        """All runs, one after the other."""
        for run in runs:
            self._add(*run)
        return "".join(self._parts)

    def by_style(self, runs: Iterable[Run]) -> str:
        """The cells of one style together, so that each style is set once, and from each piece to the nearest one: few cells lie far
        apart, and in columns of numbers those under each other change together."""
        groups: dict[Style, list[Run]] = {}
        for run in _cut(runs):
            groups.setdefault(run[2][0][1] or PLAIN, []).append(run)
        while groups:
            style = min(groups, key=lambda one: len(_change(self.style, one, self._system)) + self._distance(groups[one]))
            pieces = groups.pop(style)
            while pieces:
                self._add(*pieces.pop(self._nearest(pieces)))
        return "".join(self._parts)

    def _distance(self, pieces: list[Run]) -> int:
        """Bytes of the move to the nearest of them."""
        x, y, _ = pieces[self._nearest(pieces)]
        return len(self._move(x, y))

    def _nearest(self, pieces: list[Run]) -> int:
        """The index of the piece to which the move is the shortest, the first one of equals."""
        costs = [len(self._move(x, y)) for x, y, _ in islice(pieces, _NEAR)]
        return costs.index(min(costs))

    def _add(self, x: int, y: int, run: list[Cell]) -> None:
        self._parts.append(self._move(x, y))
        last: object = self
        wide = False
        for text, style in run:
            # Most cells have the very style of the one before; comparing every two takes longer than writing them.
            if style is not last:
                last, style = style, style or PLAIN
                if style != self.style:
                    self._parts.append(_change(self.style, style, self._system))
                    self.style = style
            self._parts.append(text)
            wide = wide or not text
        # Behind the last column terminals differ in where the cursor is, and they differ in how wide some characters are.
        self._place = None if wide or x + len(run) >= self._width else (x + len(run), y)

    def _move(self, x: int, y: int) -> str:
        """What brings the cursor to column `x` of row `y`."""
        to = f"\x1b[{y + 1};{x + 1}H"
        if self._place is None:
            return to
        here, row = self._place
        # After a move up or down, so that whoever reads the output knows it from one that came with a text.
        back = row != y and 0 < here - x <= _MOST_BACKSPACES
        near = _steps(y - row, "B", "A") + ("\b" * (here - x) if back else _steps(x - here, "C", "D"))
        return near if len(near) < len(to) else to


def _cut(runs: Iterable[Run]) -> Iterator[Run]:
    """The runs in pieces of one style."""
    for x, y, run in runs:
        for _, cells in groupby(run, lambda cell: cell[1] or PLAIN):
            piece = list(cells)
            yield x, y, piece
            x += len(piece)


def _steps(by: int, forth: str, back: str) -> str:
    """A move by so many cells in one direction; `forth` and `back` are its two letters."""
    if not by:
        return ""
    return f"\x1b[{abs(by) if abs(by) > 1 else ''}{forth if by > 0 else back}"


@lru_cache(4096)
def _change(old: Style | None, new: Style, system: ColorSystem | None) -> str:
    """What turns the terminal from style `old` into `new`."""
    if system is None or old == new:
        return ""
    if old is None or _besides_bold(old) != _besides_bold(new) or (old.color and not new.color) or (old.bgcolor and not new.bgcolor):
        return RESET + new.render(_PROBE, color_system=system).partition(_PROBE)[0]
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
