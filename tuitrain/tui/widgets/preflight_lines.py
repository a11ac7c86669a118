"""The rows of the preflight: a line of numbers with a bar, and under it what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.strip import Strip

from tuitrain.device_names import short
from tuitrain.tui.look import Palette
from tuitrain.tui.strips import Row as Line
from tuitrain.tui.strips import bar
from tuitrain.tui.wrap import wrap
from tuitrain.words import NONE, in_one_unit, percent, rate, size

if TYPE_CHECKING:
    from tuitrain.session.preflight.plans import LeftOut, Plan
    from tuitrain.session.preflight.results import Row
    from tuitrain.wire import Measured

_MARK = 2
_STRATEGY = 9
_DEVICES = (14, 32)
"""The fewest and the most cells of the column of devices."""
_RATE = 12
_STEP = 11
_MEMORY = 19
_IDEAL = 7
_LARGEST = 16
_WIDE = 100
_WIDEST_BAR = 60
_INDENT = " " * (_MARK + _STRATEGY)


def columns(width: int) -> tuple[int, int, bool]:
    """How wide the devices and the bars are, and whether there is room for the columns of memory and of the largest batch."""
    wide = width >= _WIDE
    rest = width - _MARK - _STRATEGY - _RATE - _STEP - _IDEAL - wide * (_MEMORY + _LARGEST) - 1
    devices = min(max(rest * 2 // 5, _DEVICES[0]), _DEVICES[1])
    return devices, min(max(rest - devices, 0), _WIDEST_BAR), wide


def head(width: int, palette: Palette) -> Strip:
    """The names of the columns."""
    devices, bars, wide = columns(width)
    row = Line(" " * _MARK).left("strategy", _STRATEGY, palette.dim).left("devices", devices, palette.dim).add(" " * (bars + 1))
    row.right("samples/s", _RATE, palette.dim).right("a step", _STEP, palette.dim)
    if wide:
        row.right("peak memory", _MEMORY, palette.dim).right("largest batch", _LARGEST, palette.dim)
    return row.right("ideal", _IDEAL, palette.dim).strip(width)


def row_lines(row: Row, most: float, now: Plan | None, width: int, palette: Palette, *, here: bool) -> list[Strip]:
    """The row's lines.

    Args:
        most: the samples per second of the longest bar.
        now: what is being measured.
        here: the cursor is on the row.
    """
    line = Line("▸ " if here else "  ", palette.cursor)
    devices, bars, wide = columns(width)
    strong = palette.strong if here else palette.text
    line.left(row.plan.strategy, _STRATEGY, strong).left(devices_words(row.plan.devices, devices - 1), devices, strong)
    speed = row.samples_per_second
    if row.error is not None:
        return [line.add(" ✗ failed", palette.bad).strip(width), *_under(row.error, palette, width)]
    if row.measured is None or speed is None:
        busy = row.plan == now
        return [line.add(" ○ measuring …" if busy else " · waits", palette.primary if busy else palette.dim).strip(width)]
    line.join(bar(speed / most if most else 0.0, bars, palette.good if row.best else palette.primary, palette.track)).add(" ")
    line.right(rate(speed), _RATE, strong).right(f"{(row.measured.step_seconds or 0) * 1000:,.1f} ms", _STEP, palette.text)
    if wide:
        line.right(memory_words(row.measured), _MEMORY, palette.text).right(largest_words(row.measured), _LARGEST, palette.text)
    line.right(NONE if row.efficiency is None else percent(row.efficiency * 100), _IDEAL, palette.text)
    best = ("✓ best so far" if now is not None else "✓ best") if row.best else ""
    return [line.strip(width), *_meaning(row, best, wide, palette, width)]


def _meaning(row: Row, best: str, wide: bool, palette: Palette, width: int) -> list[Strip]:
    """The words under the numbers, the best one's behind its mark, and what a narrow table has no columns for."""
    words = row.words()
    if not wide and row.measured is not None:
        memory = memory_words(row.measured)
        words += f" · peak memory {memory}" if memory != NONE else ""
        words += f" · largest batch: {row.largest_words()}" if row.measured.largest is not None else ""
    pieces = wrap(f"{best} · {words}" if best else words, max(width - len(_INDENT), 2))
    first = Line(_INDENT).add(best, palette.good).add(pieces[0].removeprefix(best), palette.dim)
    return [first.strip(width), *(Line(_INDENT).add(piece, palette.dim).strip(width) for piece in pieces[1:])]


def _under(text: str, palette: Palette, width: int) -> list[Strip]:
    return [Line(_INDENT).add(piece, palette.dim).strip(width) for piece in wrap(text, max(width - len(_INDENT), 2))]


def left_out_lines(left_out: Sequence[LeftOut], width: int, palette: Palette) -> list[Strip]:
    """The strategies that are not measured, each with its reason."""
    lines = []
    for one in left_out:
        for place, piece in enumerate(wrap(one.reason, max(width - len(_INDENT), 2))):
            lines.append(Line(" " * _MARK).left("" if place else one.strategy, _STRATEGY, palette.dim).add(piece, palette.dim).strip(width))
    return lines


def devices_words(devices: Sequence[str], width: int) -> str:
    """The devices in `width` cells: their names, or how many GPUs there are from which to which."""
    names = short(",".join(devices))
    if len(names) <= width:
        return names
    return f"{len(devices)} GPUs" if all(name.startswith("cuda") for name in devices) else f"{len(devices)} devices"


def memory_words(measured: Measured) -> str:
    """The peaks of the devices, each once: "2.1/0.9 GiB"; of more than two the smallest and the largest."""
    peaks = [peak for peak in dict(zip(measured.devices, measured.memory, strict=False)).values() if peak is not None]
    if not peaks:
        return NONE
    if max(peaks) == min(peaks):
        return size(peaks[0])
    shown, unit = in_one_unit(peaks)
    if len(peaks) > 2:
        return f"{shown[peaks.index(min(peaks))]} to {shown[peaks.index(max(peaks))]} {unit}"
    return f"{'/'.join(shown)} {unit}"


def largest_words(measured: Measured) -> str:
    """The largest batch in a column."""
    if measured.largest is None:
        return "not limited" if "cpu" in measured.devices else NONE
    mark = {"memory": "about", "data": "all"}.get(measured.largest_by or "", "≥")
    return f"{mark} {measured.largest:,}"
