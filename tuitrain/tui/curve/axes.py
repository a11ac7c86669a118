"""Limits and ticks of a chart whose axes hold still while its curve grows: round numbers that change rarely.

An axis that follows the data moves every cell of the chart at every redraw; one that holds costs only the cells of the new points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from tuitrain.words import along

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
_FINE = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_FIRST_STEPS = 50
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_PARTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_FEW_SECONDS = 2
"""Axes that are shorter have parts of seconds."""
_TIMES = (1, 2, 5, 10, 15, 30, *(_MINUTE * n for n in (1, 2, 5, 10, 15, 30)), *(_HOUR * n for n in (1, 2, 3, 6, 12)), _DAY)
_FEW_EPOCHS = 2
_SUFFIXES = ((1e6, 1e3, "k"), (1e9, 1e6, "M"))
"""Numbers below each limit are written in this unit."""
_LARGEST = 1e300
"""Values above end here on an axis: between its ends and beside its marks there must be numbers left to reckon with."""
_PERCENT_LOWS = (99.9, 99.0, 95.0, 90.0, 80.0, 50.0, 0.0)


class Axis(msgspec.Struct, frozen=True):
    """Limits, and ticks as (position, label). With `log`, limits and positions are powers of ten (log10 of the value)."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def position(self, value: float) -> float:
        """Where a value stands, held inside of the limits."""
        where = math.log10(value) if self.log else value
        return min(max(where, self.low), self.high)


def cell(position: float, axis: Axis, cells: int) -> int:
    """The cell or dot of a canvas at a position, as plotext has it; outside of 0 to `cells` - 1 where the axis does not reach it."""
    return math.floor(round(0.5 + (cells - 1) * (position - axis.low) / (axis.high - axis.low), 8))


def dots_in(braille: bool) -> tuple[int, int]:
    """How many dots of a curve a cell has beside and above each other."""
    return (2, 4) if braille else (1, 1)


def dot_cell(position: float, axis: Axis, cells: int, dots: int) -> int:
    """The cell with the dot that a curve has at a position, of `dots` in each.

    It may be another than `cell` gives, which puts the ends of the axis into the middle of the outermost cells and not to their edges.
    """
    return cell(position, axis, cells * dots) // dots


def step_at(column: float, steps: Axis, columns: int) -> float:
    """The step in the middle of a canvas column."""
    return steps.low + column * (steps.high - steps.low) / max(columns - 1, 1)


def step_limit(step: int, total: int) -> int:
    """The right end of the step axis: round numbers that the curve grows through, and from half way on the planned end."""
    total = max(total, step, 1)
    limit = _FIRST_STEPS
    while limit < step:
        limit = next_round(limit)
    return total if limit * 2 > total else limit


def step_axis(step: int, total: int, width: int) -> Axis:
    """The axis of steps from 0 for a chart `width` cells wide."""
    high = step_limit(step, total)
    spacing = _whole(round_up(high / _labels(width)))
    marks = [mark for mark in _multiples(0, high, spacing) if mark == 0 or high - mark >= 0.6 * spacing] + [high]
    return Axis(0, high, tuple((mark, f"{mark:,.0f}") for mark in marks))


def span_axis(low: float, high: float, width: int) -> Axis:
    """An axis of steps from exactly `low` to `high`, marked at whole round numbers, for a chart `width` cells wide."""
    return _plain_axis(low, high, _whole(round_up((high - low) / _labels(width))))


def number_axis(low: float, high: float, width: int) -> Axis:
    """The same for what is no whole number, such as epochs: the marks may have decimals."""
    return _plain_axis(low, high, round_up((high - low) / _labels(width)))


def in_epochs(steps: Axis, each: int, width: int) -> Axis:
    """The same axis of steps with its marks at epochs of `each` steps, for a chart `width` cells wide."""
    low, high = steps.low / each, steps.high / each
    # Half an epoch is worth a mark only in a view that holds no more than one or two.
    marks = (number_axis if high - low < _FEW_EPOCHS else span_axis)(low, high, width).ticks
    return Axis(steps.low, steps.high, tuple((mark * each, label) for mark, label in marks))


def _plain_axis(low: float, high: float, spacing: float) -> Axis:
    high = high if high > low else low + 1
    decimals = _decimals(spacing)
    return Axis(low, high, tuple((mark, f"{mark:,.{decimals}f}") for mark in _multiples(low, high, spacing)))


def time_axis(low: float, high: float, width: int) -> Axis:
    """An axis of seconds from exactly `low` to `high`, marked as people say times: "0:42", "12:05", "3 h 05", "2 d 04"."""
    if not high > low:
        high = low + 1
    wanted = (high - low) / _labels(width)
    days = round_up(wanted / _DAY)
    spacings = _TIMES if high - low >= _FEW_SECONDS else _PARTS
    spacing = next((seconds for seconds in spacings if seconds >= wanted), math.ceil(days) * _DAY)
    return Axis(low, high, tuple((mark, along(mark, spacing)) for mark in _multiples(low, high, spacing)))


def percent_axis(values: Sequence[float], height: int, *, held: Axis | None = None) -> Axis:
    """An axis that ends at 100 and begins at 0, or nearer to 100 where all of `values` lie up there; `held` is kept while it suits them."""
    least = min(values, default=0.0)
    low = next((edge for edge in _PERCENT_LOWS if edge <= least), 0.0)
    if held is not None and not held.log and held.high == 100 and held.low == low:
        return held
    spacing = round_up((100 - low) / min(max(height // 2, 2), 10))
    *marks, _ = _multiples(low, 100, spacing)
    # The last one is always written as "100": with decimals it would be the widest label of all.
    return Axis(low, 100, (*((mark, f"{mark:.{_decimals(spacing)}f}") for mark in marks), (100.0, "100")))


def value_axis(values: Sequence[float], height: int, *, log: bool, held: Axis | None = None) -> Axis:
    """An axis on which all of `values` lie (above 0 with `log`); `held` is kept as long as it still suits them.

    It suits while every value fits and they fill at least a third of it.
    """
    shown = [value for value in values if value > 0] if log else values
    low, high = 0.0, 1.0
    if shown:
        ends = (min(max(end, -_LARGEST), _LARGEST) for end in (min(shown), max(shown)))
        low, high = map(math.log10, ends) if log else ends
    if held is not None and held.log == log and held.low <= low and high <= held.high and (high - held.low) * 3 >= held.high - held.low:
        return held
    rows = max(height // 2, 2)
    return _log_axis(low, high, rows) if log else _linear_axis(low, high, rows)


def _linear_axis(low: float, high: float, rows: int) -> Axis:
    """From 0 where the values come near to it, with a little room above so that the next spike moves nothing."""
    if low >= 0 and low < high * 0.45:
        low = 0.0
    # A range of a few percent would magnify noise, and change with every value of a run that has just begun.
    least = max(abs(low), abs(high)) * 0.2 or 1.0
    if high - low < least:
        low, high = low - (least - (high - low)) / 2, high + (least - (high - low)) / 2
    spacing = round_up((high - low) * 1.02 / min(rows, 8))
    low, high = math.floor(low / spacing) * spacing, math.ceil(high * (1 + 1e-9) / spacing) * spacing
    label = _label_format(max(abs(low), abs(high)), spacing)
    return Axis(low, high, tuple((mark, label(mark)) for mark in _multiples(low, high, spacing)))


def _label_format(top: float, spacing: float) -> Callable[[float], str]:
    """How to write numbers up to `top` so that those `spacing` apart differ: "0.25", "120k", "1.5e+12"."""
    decimals = _decimals(spacing)
    if top < 1e5 and decimals <= 4:
        return lambda value: f"{value:.{decimals}f}"
    for limit, unit, suffix in _SUFFIXES:
        if 1e5 <= top < limit:
            digits = _decimals(spacing / unit)
            return lambda value: f"{value / unit:.{digits}f}{suffix}" if value else "0"
    power = 10.0 ** math.floor(math.log10(top))
    return lambda value: f"{value:.{max(_decimals(spacing / power), 1)}e}"


def _log_axis(low: float, high: float, rows: int) -> Axis:
    """Between marks at 1, 2 and 5 times powers of ten, closer ones in a narrow range; whole powers only where many lie between."""
    digits = _FINE if high - low < 0.7 else (1.0, 2.0, 5.0)
    marks = [decade + math.log10(digit) for decade in range(math.floor(low) - 1, math.ceil(high) + 2) for digit in digits]
    bottom = max(mark for mark in marks if mark <= low + 1e-9)
    top = min((mark for mark in marks if mark >= high - 1e-9 and mark > bottom), default=bottom + 1)
    inside = [mark for mark in marks if bottom <= mark <= top]
    if len(inside) > rows + 1:
        inside = [mark for mark in inside if abs(mark - round(mark)) < 1e-9]
    inside = inside[:: max(math.ceil(len(inside) / (rows + 1)), 1)]
    return Axis(bottom, top, tuple((mark, _log_label(mark)) for mark in inside), log=True)


def _log_label(mark: float) -> str:
    value = 10**mark
    return f"{value:.1e}" if mark < -3.5 or mark >= 5 else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def next_round(value: int) -> int:
    """What follows in 1, 2, 5, 10, 20, 50 and so on."""
    return value * 5 // 2 if str(value)[0] == "2" else value * 2


def round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in _ROUND if factor * power >= value * (1 - 1e-9))


def _labels(width: int) -> int:
    """How many labels of the horizontal axis have room."""
    return max(min(width // 14, 8), 1)


def _whole(spacing: float) -> float:
    """A spacing at which every multiple is a whole number."""
    return 5.0 if spacing == 2.5 else max(spacing, 1.0)


def _decimals(spacing: float) -> int:
    """Digits after the point that tell multiples of a round `spacing` apart."""
    return max(0, -math.floor(math.log10(spacing) + 1e-9) + (1 if f"{spacing:e}"[:3] == "2.5" else 0))


def _multiples(low: float, high: float, spacing: float) -> list[float]:
    first = math.ceil(low / spacing - 1e-9)
    last = math.floor(high / spacing + 1e-9)
    return [index * spacing for index in range(first, last + 1)]
