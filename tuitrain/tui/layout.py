"""How many rows and columns each pane gets at a terminal size: one pure function."""

from __future__ import annotations

from typing import Literal

import msgspec

View = Literal["launch", "run"]

LEAST = (72, 20)
_WIDE: dict[View, int] = {"launch": 120, "run": 100}
"""Columns from which on there are two: what stands beside each row of the form takes more than the numbers of a run."""
_CURVE_LEAST = 9
# The form, what Enter will do with what is offered beside it, and the command line.
_LAUNCHER_ROWS = 1 + 11 + 6 + 1
_LAUNCHER_SPARE = 4
"""Rows more, for longer sentences, that it keeps before the devices get their bars."""
_DEVICES_LEAST = 3


class Sizes(msgspec.Struct, frozen=True):
    """Rows of each pane, its rule included and the bottom edge of a column's last pane too; 0 hides it. `left` is the left column's width,
    0 where there is one column."""

    left: int
    devices: int
    strategy: int
    log: int
    launcher: int
    progress: int
    curve: int
    replicas: int


def fits(width: int, height: int) -> bool:
    """Whether the terminal is large enough for the screens."""
    return width >= LEAST[0] and height >= LEAST[1]


def left_width(width: int, view: View = "run") -> int:
    """Columns of the left column at a terminal of `width`; 0 where there is only one column."""
    return min(max(width * 3 // 8, 42), 64) if width >= _WIDE[view] else 0


def arrange(width: int, height: int, view: View, *, devices_full: int, devices_tall: int, devices: int, replicas: int, notes: int) -> Sizes:
    """The panes' sizes.

    Args:
        width: columns of the terminal.
        height: rows between the header and the keys.
        view: the launcher or the run.
        devices_full: rows that all devices take with their bars and who holds their memory; not fewer than `devices_tall`.
        devices_tall: rows that all devices take with their bars.
        devices: rows that they take at one line each.
        replicas: rows of the replica table.
        notes: rows of sentences under the progress lines.
    """
    heights = devices_full, devices_tall, devices
    if left := left_width(width, view):
        return _two_columns(left, height, view, heights=heights, replicas=replicas, notes=notes)
    return _one_column(height, view, heights=heights, replicas=replicas, notes=notes)


def _two_columns(left: int, height: int, view: View, *, heights: tuple[int, int, int], replicas: int, notes: int) -> Sizes:
    strategy = 3
    room = height - strategy - 6
    wanted = next((rows for rows in heights if rows < room), heights[-1])
    device_rows = min(wanted + 1, room)
    log = height - device_rows - strategy
    if view == "launch":
        return Sizes(left, device_rows, strategy, log, height, 0, 0, 0)
    progress = 3 + notes
    # A third of the column at most; the curve needs the rest.
    table = min(replicas, max((height - progress) // 3, 1)) + 2
    return Sizes(left, device_rows, strategy, log, 0, progress, height - progress - table, table)


def _one_column(height: int, view: View, *, heights: tuple[int, int, int], replicas: int, notes: int) -> Sizes:
    devices = heights[-1]
    if view == "launch":
        # The strategy has a row in the form.
        wanted = next((rows for rows in heights if rows + 1 <= height - _LAUNCHER_ROWS - _LAUNCHER_SPARE), devices)
        device_rows = max(min(wanted + 1, height - _LAUNCHER_ROWS), _DEVICES_LEAST)
        return Sizes(0, device_rows, 0, 0, height - device_rows, 0, 0, 0)
    progress = 3 + notes
    most = 4 if height < 30 else 8
    # The devices may take from the curve what it can spare, and the replicas what both leave.
    device_rows = min(devices + 1, max(height - progress - _CURVE_LEAST - min(replicas, most) - 2, _DEVICES_LEAST))
    room = height - progress - device_rows - _CURVE_LEAST
    table = max(min(replicas, room - 2, most), 1) + 2
    return Sizes(0, device_rows, 0, 0, 0, progress, height - progress - device_rows - table, table)
