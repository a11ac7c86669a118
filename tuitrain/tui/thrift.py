"""Fewer bytes to the terminal: an update sends the changed cells alone, and colours only where they change.

Textual's own partial update starts every changed line at the left edge of its widget and gives each piece its full style; over a slow
link that is ten times as much as what changed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.screen import ModalScreen, Screen
from textual.strip import Strip

from tuitrain.tui.widgets.strips import PLAIN

Result = TypeVar("Result")
_PROBE = "x"
_RESET = "\x1b[0m"


class _Output:
    """Terminal output under construction; it knows the style that the terminal has."""

    def __init__(self, console: Console) -> None:
        self._system = COLOR_SYSTEMS.get(console.color_system or "")
        self._style: Style | None = None
        self._parts: list[str] = []

    def go_to(self, x: int, y: int) -> None:
        self._parts.append(f"\x1b[{y + 1};{x + 1}H")

    def add(self, strip: Strip) -> None:
        for text, style, control in strip:
            if control:
                continue
            style = style or PLAIN
            if style != self._style:
                self._parts.append(_change(self._style, style, self._system))
                self._style = style
            self._parts.append(text)

    def text(self) -> str:
        return "".join([*self._parts, _RESET])


class CellsUpdate(ChopsUpdate):
    """The spans of a partial update, cropped on both sides."""

    def render_segments(self, console: Console) -> str:
        """The update as terminal output."""
        out = _Output(console)
        for y, left, right in self.spans:
            at = -1
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                first, last = max(x, left), min(end, right)
                if strip is None or first >= last:
                    continue
                if first != at:
                    out.go_to(first, y)
                out.add(strip.crop(first - x, last - x))
                at = last
        return out.text()


class LinesUpdate(LayoutUpdate):
    """All lines."""

    def render_segments(self, console: Console) -> str:
        """The update as terminal output."""
        out = _Output(console)
        for y, line in enumerate(self.strips, self.region.y):
            out.go_to(self.region.x, y)
            for strip in line:
                out.add(strip)
        return out.text()


class CellsCompositor(Compositor):
    """A compositor with thrifty updates."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """The update, or `None` when nothing is dirty."""
        update = super().render_partial_update()
        return None if update is None else CellsUpdate(update.chops, update.spans, update.chop_ends)

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        """The whole screen."""
        update = super().render_full_update(simplify)
        return LinesUpdate(update.strips, update.region)


class ThriftyScreen(Screen[Result]):
    """A screen that is drawn so."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = CellsCompositor()


class ThriftyModal(ModalScreen[Result]):
    """A dialog that is drawn so."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = CellsCompositor()


@lru_cache(4096)
def _change(old: Style | None, new: Style, system: ColorSystem | None) -> str:
    """What turns the terminal from style `old` into `new`."""
    if system is None:
        return ""
    if old is None:
        return new.render(_PROBE, color_system=system).partition(_PROBE)[0]
    if _attributes(old) != _attributes(new) or (old.color and not new.color) or (old.bgcolor and not new.bgcolor):
        return _RESET + new.render(_PROBE, color_system=system).partition(_PROBE)[0]
    codes: list[str] = []
    for before, after, foreground in ((old.color, new.color, True), (old.bgcolor, new.bgcolor, False)):
        if after is not None and after != before:
            codes += _codes(after, system, foreground)
    return f"\x1b[{';'.join(codes)}m" if codes else ""


def _codes(colour: Color, system: ColorSystem, foreground: bool) -> tuple[str, ...]:
    return colour.downgrade(system).get_ansi_codes(foreground=foreground)


def _attributes(style: Style) -> tuple[bool | None, ...]:
    return (style.bold, style.dim, style.italic, style.underline, style.blink, style.reverse, style.strike, style.conceal, style.overline)
