"""What each replica of the network gets and gives: its shapes, loss, time and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from rich.style import Style
from textual.strip import Strip

from tuitrain import words
from tuitrain.events import Replica, ReplicaStat
from tuitrain.runs.record import RunRecord
from tuitrain.tui.balance import batch_words, imbalance, slowest
from tuitrain.tui.look import Palette
from tuitrain.tui.run_view import RunLike, hangs
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap

_SLOWEST = "▾ slowest"
_FIRST_LEAST = 2
"""Rows of the table that words about its memory leave, where there are as many."""


class _Column(msgspec.Struct, frozen=True):
    """One value of each replica, right-aligned in `width` cells behind a gap of two."""

    text: Callable[[Replica, ReplicaStat | None], str]
    width: int
    style: Callable[[Palette], Style]


def _loss(replica: Replica, stat: ReplicaStat | None) -> str:
    loss = stat.loss if stat and stat.loss is not None else replica.loss
    return "" if loss is None else words.number(loss)


def _time(replica: Replica, stat: ReplicaStat | None) -> str:
    return "" if stat is None or stat.step_seconds is None else words.milliseconds(stat.step_seconds)


def _memory(replica: Replica, stat: ReplicaStat | None) -> str:
    return "" if stat is None or stat.memory is None else words.size(stat.memory)


def _rate(replica: Replica, stat: ReplicaStat | None) -> str:
    return "" if stat is None or stat.samples_per_second is None else f"{words.rate(stat.samples_per_second)}/s"


_COLUMNS = (
    _Column(_loss, 6, lambda palette: palette.train),
    _Column(_time, 7, lambda palette: palette.text),
    _Column(_rate, 9, lambda palette: palette.text),
    _Column(_memory, 8, lambda palette: palette.text),
)
"""From left to right."""
_KEPT = (_COLUMNS[0], _COLUMNS[1], _COLUMNS[3], _COLUMNS[2])
"""The last of these goes first where the table is narrow."""


class Replicas(Pane):
    """One line for each replica, from the real tensors of training; the ones that do not fit are counted. Under them stands who holds more
    memory.
    """

    def __init__(self, view: RunLike) -> None:
        super().__init__(id="replicas")
        self._view = view

    def rows_wanted(self, width: int) -> int:
        """Lines for all replicas and the sentence, inside of a pane with `width` cells inside."""
        record = self._view.record
        if record is None or record.replicas is None:
            return 1
        return len(record.replicas.replicas) + len(self._sentence(record, width, 2))

    def heading(self) -> tuple[Row, Row]:
        """The title; the whole batch's shape, and what is special about how it was cut."""
        record, palette = self._view.record, self.palette
        right = Row()
        if record and record.replicas:
            if special := batch_words(record.replicas, record.config):
                right.add(special, palette.warn).add(" · ", palette.faint)
            if (step := self._old(record)) is not None:
                right.add(f"numbers of step {step:,}", palette.dim).add(" · ", palette.faint)
            right.add("batch ", palette.dim).add(words.shape(record.replicas.batch), palette.text)
            if record.replicas.gathered:
                right.add(f" → {words.shape(record.replicas.gathered)}", palette.text)
        return Row("Replicas", palette.title), right

    def _old(self, record: RunRecord) -> int | None:
        """The step that the numbers are of, where it is not the run's and no newer ones are on their way."""
        told = [event.step for event in (record.replicas, record.replica_stats) if event is not None]
        waits = self._view.ended or self._view.state == "paused" or hangs(self._view)
        return max(told) if waits and told and max(told) < record.step else None

    def _why_empty(self, record: RunRecord | None) -> str:
        if record is None or not self._view.ended:
            return "shapes come with the first step"
        return "this run kept no shapes" if record.step else "no step was made, so there are no shapes"

    def body(self, width: int, height: int) -> list[Strip]:
        """The table, and the sentence where one device holds more than the others."""
        record = self._view.record
        if record is None or record.replicas is None:
            return [Row(self._why_empty(record), self.palette.dim).strip(width)]
        replicas = record.replicas.replicas
        least = min(len(replicas), _FIRST_LEAST)
        sentence = self._sentence(record, width, max(min(height - least, 2), 0))
        return [*self._table(record, width, height - len(sentence)), *(Row(line, self.palette.warn).strip(width) for line in sentence)]

    def _table(self, record: RunRecord, width: int, height: int) -> list[Strip]:
        assert record.replicas is not None
        replicas, stats = record.replicas.replicas, _stats(record)
        slow = slowest(stats.values())
        shown = replicas if len(replicas) <= height else replicas[: max(height - 1, 0)]
        draw = _Table(self.palette, replicas, stats, slow, width, old=self._old(record) is not None)
        lines = [draw.line(replica) for replica in shown]
        if hidden := replicas[len(shown) :]:
            row = Row(f"{len(hidden)} more", self.palette.dim)
            if late := next((replica for replica in hidden if replica.index == slow), None):
                took = _time(late, stats.get(late.index))
                row.add(f"  {_SLOWEST}: {late.index} {late.device} {took}", self.palette.warn)
            lines.append(row.strip(width))
        return lines

    def _sentence(self, record: RunRecord, width: int, most: int) -> list[str]:
        """Who holds more memory, in at most so many lines: with the reason where that fits."""
        if record.replicas is None or record.plan is None or most < 1:
            return []
        found = imbalance(record.replicas.replicas, _stats(record).values(), record.plan.strategy, record.config)
        if found is None:
            return []
        who, why = found
        lines = wrap(f"{who}: {why}" if why else f"{who} than the others", width)
        return lines if len(lines) <= most else wrap(f"{who} than the others", width)[:1]


class _Table:
    """Draws the replicas under each other, with as many columns as fit and say something; numbers that are `old` are dim."""

    def __init__(
        self, palette: Palette, replicas: Sequence[Replica], stats: dict[int, ReplicaStat], slow: int | None, width: int, *, old: bool
    ) -> None:
        self._palette, self._stats, self._slow, self._width, self._old = palette, stats, slow, width, old
        self._index = len(str(max(replica.index for replica in replicas)))
        self._device = max(len(replica.device) for replica in replicas)
        self._input = max(len(words.shapes(replica.input, replica.inputs)) for replica in replicas)
        self._output = max(len(words.shapes(replica.output, replica.outputs)) for replica in replicas)
        room = width - (self._index + 1 + self._device + 2 + self._input + 3 + self._output)
        kept = []
        for column in _KEPT:
            if not any(column.text(replica, stats.get(replica.index)) for replica in replicas):
                continue
            room -= column.width + 2
            if room < 0:
                break
            kept.append(column)
        self._columns = [column for column in _COLUMNS if column in kept]

    def line(self, replica: Replica) -> Strip:
        """One replica."""
        palette, stat = self._palette, self._stats.get(replica.index)
        row = Row(f"{replica.index:>{self._index}} ", palette.dim).add(f"{replica.device:<{self._device}}  ", palette.strong)
        if replica.input is None:
            return row.add("idle: the batch has no part for it", palette.dim).strip(self._width)
        row.add(f"{words.shapes(replica.input, replica.inputs):<{self._input}}", palette.text).add(" → ", palette.dim)
        row.add(f"{words.shapes(replica.output, replica.outputs):<{self._output}}", palette.text)
        mark = f"  {_SLOWEST}" if replica.index == self._slow else ""
        for column in self._columns:
            # Columns stay where they are when a mark comes and goes: it takes the place of the row's last values.
            if mark and column.text is not _time and row.width + 2 + column.width + len(mark) > self._width:
                break
            row.add("  ").right(column.text(replica, stat), column.width, palette.dim if self._old else column.style(palette))
        # Of a mark that has no room its sign alone is left.
        row.add(mark if row.width + len(mark) <= self._width else mark[:3], palette.warn)
        return row.strip(self._width)


def _stats(record: RunRecord) -> dict[int, ReplicaStat]:
    """The newest statistics by the replica's index, without their losses where the shapes, which come with their own, are newer."""
    found, shapes = record.replica_stats, record.replicas
    if found is None:
        return {}
    older = shapes is not None and shapes.step > found.step
    return {stat.index: msgspec.structs.replace(stat, loss=None) if older else stat for stat in found.replicas}
