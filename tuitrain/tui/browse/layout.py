"""How many rows each pane of an opened run gets: one pure function."""

from __future__ import annotations

import msgspec

from tuitrain.tui.layout import left_width


class OpenedSizes(msgspec.Struct, frozen=True):
    """Rows of each pane, its rule included and the bottom edge of a column's last pane too; 0 hides it. `left` is the left column's width,
    0 where there is one column."""

    left: int
    devices: int
    settings: int
    checkpoints: int
    log: int
    progress: int
    curve: int
    replicas: int


def arrange(width: int, height: int, *, devices: tuple[int, int] | None, checkpoints: int, replicas: int, notes: int) -> OpenedSizes:
    """The panes' sizes; on a narrow terminal the run has all of it.

    Args:
        width: columns of the terminal.
        height: rows for the panes.
        devices: rows that all devices take with their bars, and at one line each; `None` where they are not shown.
        checkpoints: rows of their list.
        replicas: rows of the replica table.
        notes: rows of sentences under the progress lines.
    """
    left = left_width(width)
    progress = 3 + notes
    table = min(replicas, max((height - progress) // 4, 1)) + 2
    above = 0
    if left and devices is not None:
        tall, compact = devices
        above = min(tall + 1, max(height // 3, compact + 1), height // 2)
    kept = min(checkpoints, max(height // 5, 2)) + 1
    log = max((height - kept - above) // 3, 4)
    return OpenedSizes(left, above, height - kept - log - above, kept, log, progress, height - progress - table, table)
