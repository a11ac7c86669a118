"""From cells to what a terminal is sent: moves of the cursor, changes of style, text; in an order that takes few bytes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style

from tuitrain.tui.strips import PLAIN, Cell

Run = tuple[int, int, list[Cell]]
"""Column and row of the first cell, and the cells, which lie side by side."""
_Piece = tuple[int, int, list[str]]
"""Column and row, and the texts of cells of one style."""

RESET = "\x1b[0m"
_PROBE = "x"
_MOST_BACKSPACES = 3
_NEAR = 8
"""Among so many pieces, in the order of their rows, the nearest one is sought: more of them take longer and save nothing."""
_MANY_STYLES, _FEW_STYLES = 64, 4
"""Of many styles, as pictures have, the cheapest of the next few is taken: to compare each with all others takes seconds."""


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

    def text(self, runs: Iterable[Run]) -> str:
        """The cells of one style together, so that each style is set once, and from each piece to the nearest one.

        Where few cells change they lie far apart, and in columns of numbers those under each other change together; where all of a screen
        changes its styles alternate in each row, and setting one takes more than going to the next row.
        """
        groups = _by_style(runs)
        while groups:
            offered = islice(groups, len(groups) if len(groups) <= _MANY_STYLES else _FEW_STYLES)
            style = min(offered, key=lambda one: len(_change(self.style, one, self._system)) + self._nearest(groups[one])[1])
            self._parts.append(_change(self.style, style, self._system))
            self.style = style
            pieces = groups.pop(style)
            while pieces:
                self._add(*pieces.pop(self._nearest(pieces)[0]))
        return "".join(self._parts)

    def _nearest(self, pieces: list[_Piece]) -> tuple[int, int]:
        """The index of the piece to which the move is the shortest, the first one of equals, and the bytes of that move."""
        costs = [self._distance(x, y) for x, y, _ in pieces[:_NEAR]]
        least = min(costs)
        return costs.index(least), least

    def _distance(self, x: int, y: int) -> int:
        """How many bytes `_move` takes."""
        to = 4 + _digits(y + 1) + _digits(x + 1)
        if self._place is None:
            return to
        here, row = self._place
        across = here - x if row != y and 0 < here - x <= _MOST_BACKSPACES else _steps_length(x - here)
        return min(to, _steps_length(y - row) + across)

    def _add(self, x: int, y: int, texts: list[str]) -> None:
        self._parts.append(self._move(x, y))
        self._parts += texts
        # Behind the last column terminals differ in where the cursor is, and they differ in how wide some characters are.
        self._place = None if "" in texts or x + len(texts) >= self._width else (x + len(texts), y)

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


def _by_style(runs: Iterable[Run]) -> dict[Style, list[_Piece]]:
    """The runs in pieces of one style."""
    groups: dict[Style, list[_Piece]] = {}
    for x, y, run in runs:
        last: object = run
        for place, (text, style) in enumerate(run, x):
            # Most cells have the very style of the one before; comparing every two takes longer than the rest.
            if style is not last:
                last = style
                texts: list[str] = []
                groups.setdefault(style or PLAIN, []).append((place, y, texts))
            texts.append(text)
    return groups


def _steps(by: int, forth: str, back: str) -> str:
    """A move by so many cells in one direction; `forth` and `back` are its two letters."""
    if not by:
        return ""
    return f"\x1b[{abs(by) if abs(by) > 1 else ''}{forth if by > 0 else back}"


def _steps_length(by: int) -> int:
    """The length of `_steps`."""
    far = abs(by)
    return 3 + _digits(far) if far > 1 else 3 * far


def _digits(number: int) -> int:
    return 1 if number < 10 else 2 if number < 100 else len(str(number))


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
