"""The processes on all cards: what the table says of each one, how they are sorted and searched, and which columns fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tuitrain import words
from tuitrain.devices import Choice, DeviceSample, ProcessSample
from tuitrain.tui.columns import Column
from tuitrain.tui.row_list import holding
from tuitrain.tui.wrap import wrap

FOREIGN = "another container's or the host's"
_STAY = "\u00a0"
"""A space at which no line is broken."""
_UNHELD_SHARE = 0.05
_UNHELD_BYTES = 300 * 2**20


class ProcessRow(msgspec.Struct, frozen=True):
    """One process on one card; `place` is the card's place in the list of cards, `share` its part of the card's memory, 0..1."""

    card: str
    card_key: str
    place: int
    process: ProcessSample
    share: float | None

    @property
    def key(self) -> tuple[str, int, float | None]:
        """What names the row while the list changes."""
        return self.card_key, self.process.pid, self.process.started

    @property
    def command(self) -> str:
        """What runs, as far as it can be seen here."""
        process = self.process
        if process.foreign:
            return FOREIGN
        return process.short_command or process.name or "not visible here"

    @property
    def text(self) -> str:
        """What the filter searches."""
        process = self.process
        command = process.command or self.command
        return f"{self.card} {process.pid} {process.user or ''} {process.kind} {process.name or ''} {command}".casefold()


def process_rows(cards: Sequence[Choice]) -> list[ProcessRow]:
    """The processes of `cards`, card by card. Where a card lists those of its MIG instances too, they stand under the instance only."""
    rows: list[ProcessRow] = []
    for place, choice in enumerate(cards):
        card = choice.device
        if card is None:
            continue
        below = {one.pid for child in _instances(card, cards) for one in child.processes or ()}
        rows += [
            ProcessRow(choice.name, card.key, place, process, _share(process, card))
            for process in card.processes or ()
            if process.pid not in below
        ]
    return rows


def unheld_lines(cards: Sequence[Choice], width: int, most: int) -> list[str]:
    """Of which cards much memory is held by no process that is listed, in `most` lines or fewer; cards that have no room are counted."""
    held = []
    for choice in cards:
        card = choice.device
        size = None if card is None or _instances(card, cards) else unheld(card)
        if size is not None:
            held.append(f"{choice.name} {words.roughly(size)}".replace(" ", _STAY))
    lines: list[str] = []
    for shown in range(len(held), 0, -1):
        rest = f" and{_STAY}{len(held) - shown}{_STAY}more" if shown < len(held) else ""
        lines = wrap(f"Held by no process seen here: {', '.join(held[:shown])}{rest}", width)
        if len(lines) <= most:
            break
    return [line.replace(_STAY, " ") for line in lines[:most]]


def unheld(card: DeviceSample) -> int | None:
    """Bytes that no listed process holds, where that is much and can be known."""
    listed = card.processes
    if card.unified or card.memory_used is None or not card.memory_total or listed is None or any(one.memory is None for one in listed):
        return None
    rest = card.memory_used - sum(one.memory or 0 for one in listed)
    return rest if rest > min(_UNHELD_SHARE * card.memory_total, _UNHELD_BYTES) else None


def _instances(card: DeviceSample, cards: Sequence[Choice]) -> list[DeviceSample]:
    return [one.device for one in cards if one.device is not None and one.device.parent is not None and one.device.parent == card.uuid]


def _share(process: ProcessSample, card: DeviceSample) -> float | None:
    return None if process.memory is None or not card.memory_total else process.memory / card.memory_total


# -- sorting and searching --------------------------------------------------------------------------------------------

SORTS: Mapping[str, tuple[Callable[[ProcessRow], Any], bool]] = {
    "card": (lambda row: (row.place, -(row.process.memory or 0)), False),
    "memory": (lambda row: _least(row.process.memory), True),
    "gpu": (lambda row: _least(row.process.utilization), True),
    "cpu": (lambda row: _least(row.process.cpu_percent), True),
    "ram": (lambda row: _least(row.process.host_memory), True),
    "age": (lambda row: math.inf if row.process.started is None else row.process.started, False),
    "user": (lambda row: (row.process.user is None, row.process.user), False),
    "pid": (lambda row: row.process.pid, False),
    "command": (lambda row: row.command.casefold(), False),
}
"""The orders by the names of their columns, and whether each begins with the largest. The oldest comes first by age."""


def arranged(rows: Sequence[ProcessRow], sort: str, *, reverse: bool, sought: str, card: str | None) -> list[ProcessRow]:
    """The rows of the card with that key (`None`: of all) that hold every word of `sought`; equals stay card by card."""
    key, largest_first = SORTS[sort]
    found = holding([row for row in rows if card in (None, row.card_key)], sought)
    return sorted(found, key=key, reverse=largest_first != reverse)


def _least(value: float | None) -> float:
    return -1 if value is None else value


# -- columns ----------------------------------------------------------------------------------------------------------


_COLUMNS = (
    Column("card", "card", 8),
    Column("pid", "pid", 7, True),
    Column("user", "user", 8),
    Column("kind", "type", 4),
    Column("memory", "gpu mem", 9, True),
    Column("share", "share", 5, True),
    Column("gpu", "gpu", 5, True),
    Column("cpu", "cpu", 6, True),
    Column("ram", "ram", 9, True),
    Column("age", "age", 6, True),
)
# In the order in which they come as the table grows, and the spare cells that they wait for.
_MORE = (("gpu", 6), ("ram", 10), ("kind", 15), ("share", 26))
_COMMAND_LEAST = 18


def columns(width: int) -> list[Column]:
    """The columns of a table `width` cells wide, a cell between each two; the command gets the rest."""
    optional = {name for name, _ in _MORE}
    spare = width - sum(column.width + 1 for column in _COLUMNS if column.name not in optional) - _COMMAND_LEAST
    shown = set()
    for name, wanted in _MORE:
        if spare < wanted:
            break
        shown.add(name)
        spare -= next(column.width for column in _COLUMNS if column.name == name) + 1
    kept = [column for column in _COLUMNS if column.name in shown or column.name not in optional]
    rest = width - sum(column.width + 1 for column in kept)
    return [*kept, Column("command", "command", max(rest, 0))]


def cell(row: ProcessRow, column: str, now: float) -> str:
    """The text of a column; `now` is Unix seconds."""
    process = row.process
    match column:
        case "card":
            return row.card
        case "pid":
            return str(process.pid)
        case "user":
            return process.user or "-"
        case "kind":
            return process.kind
        case "memory":
            return words.size(process.memory)
        case "share":
            return words.percent(None if row.share is None else row.share * 100)
        case "gpu":
            return words.percent(process.utilization)
        case "cpu":
            return "-" if process.foreign else words.percent(process.cpu_percent)
        case "ram":
            return "-" if process.foreign else words.size(process.host_memory)
        case "age":
            return words.age(None if process.started is None else max(now - process.started, 0.0))
    return row.command
