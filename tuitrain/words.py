"""Numbers for people: right-aligned by whoever places them, with their units, and of a width that does not jump."""

from __future__ import annotations

import math
from collections.abc import Sequence

NONE = "n/a"
DATA_NAMES = {
    "cifar10": "CIFAR-10",
    "imagefolder": "image folder",
    "synthetic": "built-in synthetic data",
    "random": "random data",
    "custom": "custom data",
}

_AGES = ((60, "now"), (3600, "min"), (86400, "h"), (14 * 86400, "d"), (700 * 86400, "w"), (math.inf, "y"))
_NUMBER_CELLS = 6
_DECIMALS = ((0.1, 4), (10, 3), (100, 2), (9_999.95, 1), (99_999.5, 0))
"""How many decimals fill these cells, for numbers below each limit."""
_SECONDS = {"min": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}


def gib(size: float | None) -> str:
    """Bytes as GiB without the unit: "7.0", "80", "0.4"."""
    if size is None:
        return NONE
    value = size / 2**30
    return f"{value:.0f}" if value >= 99.5 or (value == int(value) and value >= 10) else f"{value:.1f}"


def gib_in_few(size: int) -> str:
    """Bytes as GiB without the unit in two telling digits: "7.0", "80", "0.4"."""
    value = size / 2**30
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def filled(used: float | None, total: float | None) -> str:
    """How many bytes of a memory are in use: "7.0/80 GiB". What is in use keeps its tenths, so that no digit jumps as it grows."""
    if used is None:
        return NONE if total is None else f"{NONE}/{gib(total)} GiB"
    value = used / 2**30
    return f"{value:.{0 if value >= 99.5 else 1}f}/{gib(total)} GiB"


def size(value: float | None) -> str:
    """Bytes with a unit: "412 MiB", "1.2 GiB", "4 KiB"."""
    if value is None:
        return NONE
    mib = value / 2**20
    if 0 < mib < 0.05:
        return f"{math.ceil(value / 1024)} KiB"
    return f"{mib / 1024:.1f} GiB" if mib >= 999.5 else f"{mib:.0f} MiB" if mib >= 9.95 else f"{mib:.1f} MiB"


def in_one_unit(values: Sequence[float]) -> tuple[list[str], str]:
    """Bytes beside one another, in the unit that suits the largest: (["140", "38"], "MiB")."""
    if max(values) / 2**20 < 999.5:
        return [f"{value / 2**20:.0f}" for value in values], "MiB"
    return [f"{value / 2**30:.1f}" for value in values], "GiB"


def roughly(value: int) -> str:
    """As `size`, but of much without tenths: in a sentence they say nothing, and change each second."""
    return f"{value / 2**30:.0f} GiB" if value >= 10 * 2**30 else size(value)


def percent(value: float | None) -> str:
    """0..100 without decimals; three digits wide with the sign."""
    return NONE if value is None else f"{value:.0f} %"


def count(value: float | None) -> str:
    """A whole number with thousands' commas."""
    return NONE if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """A speed with three telling digits: "41,200", "982", "9.4"."""
    if value is None or not math.isfinite(value):
        return NONE
    if value >= 999.5:
        digits = 10 ** (len(str(round(value))) - 3)
        return f"{round(value / digits) * digits:,}"
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def number(value: float | None) -> str:
    """A loss: up to four telling digits, plain where it can be, in powers of ten where not; at most 6 cells, and a minus sign."""
    if value is None or math.isnan(value):
        return NONE if value is None else "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    size = abs(value)
    if value == 0 or 1e-3 <= size < 99_999.5:
        decimals = next(decimals for limit, decimals in _DECIMALS if size < limit) if value else 3
        return f"{value:.{decimals}f}"
    shown = _in_powers(value, 1)
    return shown if len(shown.lstrip("-")) <= _NUMBER_CELLS else _in_powers(value, 0)


def _in_powers(value: float, decimals: int) -> str:
    """ "9.9e-4", without the zeros and the plus sign of Python's own."""
    mantissa, power = f"{value:.{decimals}e}".split("e")
    return f"{mantissa}e{int(power)}"


def clock(seconds: float) -> str:
    """hh:mm:ss."""
    whole = max(int(seconds), 0)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def target(accuracy: float) -> str:
    """An accuracy, 0 to 1, that somebody chose: "94 %", "94.5 %"."""
    return f"{100 * accuracy:g} %"


def trained(seconds: float) -> str:
    """What the clock of a speed run shows, in hundredths as long as these can tell runs apart: "1.99 s", "815.3 s"."""
    return f"{seconds:.2f} s" if seconds < 99.995 else f"{seconds:,.1f} s"


def remaining(seconds: float | None) -> str:
    """An ETA: "0:42", "12:05", "3 h 05", "2 d 04"; steadier the further it is away, and at most 7 cells wide for 273 years."""
    if seconds is None or not math.isfinite(seconds):
        return "-:--"
    whole = math.ceil(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600} h {whole // 60 % 60:02d}"
    days = whole // 86400
    return f"{days} d {whole // 3600 % 24:02d}" if days < 100 else f"{days} d"


def along(seconds: float, resolution: float) -> str:
    """A place on an axis of time: as an ETA, and with as many decimals as tell places so many seconds apart: "0:42", "0:42.3", "3 h 05"."""
    decimals = min(max(math.ceil(-math.log10(resolution)), 0), 3)
    rounded = round(seconds, decimals)
    if not decimals or rounded >= 3600:
        return remaining(rounded)
    return f"{int(rounded // 60)}:{rounded % 60:0{3 + decimals}.{decimals}f}"


def age(seconds: float | None) -> str:
    """How long ago, in one unit: "now", "3 min", "5 h", "2 d"; never wider than 6 cells, and a dash where it is not known."""
    if seconds is None:
        return "-"
    unit = next(unit for limit, unit in _AGES if seconds < limit)
    return unit if unit == "now" else f"{int(seconds // _SECONDS[unit])} {unit}"


def ago(seconds: float) -> str:
    """How long ago, in a sentence: "just now", "5 min ago", "3 h ago", "2 d ago"."""
    said = age(seconds)
    return "just now" if said == "now" else f"{said} ago"


def lasting(seconds: float) -> str:
    """How long something has lasted, in one unit: "35 s", "5 min", "3 h"."""
    return f"{seconds:.0f} s" if seconds < 99.5 else age(seconds)


def celsius(value: int | None) -> str:
    """ "61 °C"."""
    return NONE if value is None else f"{value} °C"


def watts(value: float | None) -> str:
    """ "412 W"."""
    return NONE if value is None else f"{value:.0f} W"


def milliseconds(seconds: float | None) -> str:
    """A step's time: "3.1 ms", "45 ms", "1.20 s"."""
    if seconds is None or not math.isfinite(seconds):
        return NONE
    value = seconds * 1000
    return f"{value:.1f} ms" if value < 9.95 else f"{value:.0f} ms" if value < 999.5 else f"{seconds:.2f} s"


def shape(sizes: tuple[int, ...] | None) -> str:
    """A tensor's shape as PyTorch prints it."""
    return "idle" if sizes is None else f"[{', '.join(map(str, sizes))}]"


def shapes(first: tuple[int, ...] | None, several: tuple[tuple[int, ...], ...] | None) -> str:
    """The shapes of several tensors, or that of the first, which is the only one: "[32, 12] [32, 12]"."""
    return " ".join(map(shape, several)) if several else shape(first)


def readers(count: int) -> str:
    """How many processes do what: `1 process reads`, `15 processes read`."""
    return "1 process reads" if count == 1 else f"{count} processes read"
