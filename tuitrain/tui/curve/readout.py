"""The lines under a chart while the cursor is on it: the numbers of its step, and what the devices did on the chart's own columns."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import msgspec
from textual.strip import Strip

from tuitrain import words
from tuitrain.runs.history import FIELDS, Field
from tuitrain.tui.curve.metrics import LOSS, Metric
from tuitrain.tui.curve.moment import DeviceMoment, DeviceTracks, Moment, Track
from tuitrain.tui.curve.pieces import Piece, joined, kept
from tuitrain.tui.look import Palette
from tuitrain.tui.strips import Row, spark, spread

_LABELS = {"utilization": "util", "memory": "mem", "power": "power"}
_CHART_LEAST, _CHART_BESIDE_TRACKS = 8, 12
_NAME = 7


class Plan(msgspec.Struct, frozen=True):
    """Which lines have room: the step's, one for each of the first `devices`, and `tracks` as (device, field)."""

    devices: int
    tracks: tuple[tuple[int, Field], ...]

    @property
    def rows(self) -> int:
        """Lines in all."""
        return 1 + self.devices + len(self.tracks)


def plan(height: int, known: Sequence[Sequence[Field]]) -> Plan:
    """What fits under a chart where both have `height` rows.

    Args:
        height: rows.
        known: for each device the fields that have values.
    """
    devices = min(len(known), max(height - 1 - _CHART_LEAST, 0))
    room = height - 1 - devices - _CHART_BESIDE_TRACKS
    wanted = [(device, field) for field in FIELDS for device in range(devices) if field in known[device]]
    return Plan(devices, tuple(sorted(wanted[: max(room, 0)], key=lambda track: (track[0], FIELDS.index(track[1])))))


class Readout(msgspec.Struct, frozen=True):
    """What the lines say. `left` are the cells before the canvas, `column` is where the cursor stands in it."""

    moment: Moment
    metric: Metric
    newest: int
    tested: bool
    """Whether the run has evaluations."""
    tracks: Sequence[DeviceTracks]
    left: int
    column: int

    def lines(self, wanted: Plan, width: int, palette: Palette) -> list[Strip]:
        """The lines that have room."""
        moments = self._moments(palette)
        pieces = kept([*self._numbers(palette), *moments], width, 3)
        lines = [joined(pieces, Row(" · ", palette.faint)).strip(width)]
        elsewhere = joined([piece for piece in moments if piece not in pieces], Row(" · ", palette.faint))
        for index, device in enumerate(self.moment.devices[: wanted.devices]):
            hidden = len(self.moment.devices) - wanted.devices if index == wanted.devices - 1 else 0
            tail = Row(f"{hidden} more" if hidden else "", palette.dim) if index or hidden else elsewhere
            row = _device_words(device, palette)
            lines.append(spread(row, tail, width) if row.width + tail.width < width else row.strip(width))
            lines += [self._track(index, field, palette).strip(width) for at, field in wanted.tracks if at == index]
        return lines

    def _numbers(self, palette: Palette) -> list[Piece]:
        moment, metric = self.moment, self.metric
        step = f"{moment.step:>{len(f'{self.newest:,}')},}"
        pieces = [Piece(Row("step ", palette.dim).add(step, palette.strong))]
        if moment.epoch is not None:
            pieces.append(Piece(Row("epoch ", palette.dim).add(f"{moment.epoch}", palette.text), rank=2))
        if metric.curve is None:
            return [*pieces, *self._evaluation(palette)]
        value = Row(f"{metric.name} ", palette.dim).right(metric.number(moment.value), metric.digits, palette.train)
        pieces.append(Piece(value))
        if moment.smooth is not None:
            smooth = Row("smoothed ", palette.dim).right(metric.number(moment.smooth), metric.digits, palette.train)
            pieces.append(Piece(smooth, rank=3))
        if self.tested and metric is LOSS:
            test = metric.number(moment.test[1]) if moment.test else "-"
            pieces.append(Piece(Row("test ", palette.dim).right(test, metric.digits, palette.test), rank=1))
        return pieces

    def _evaluation(self, palette: Palette) -> list[Piece]:
        metric, test = self.metric, self.moment.test
        if test is None:
            return [Piece(Row(f"no {metric.name} before the first evaluation", palette.dim))]
        value = Row(f"{metric.name} ", palette.dim).right(metric.number(test[1]), metric.digits, palette.test)
        return [Piece(value), Piece(Row(f"evaluated at step {test[0]:,.0f}", palette.dim), rank=1)]

    def _moments(self, palette: Palette) -> list[Piece]:
        """The time of day in UTC, as in the log, and since the run's first step."""
        moment, row = self.moment, Row()
        if moment.time is not None and math.isfinite(moment.time):
            row.add(time.strftime("%H:%M:%S", time.gmtime(moment.time)), palette.dim)
        if moment.elapsed is not None and math.isfinite(moment.elapsed):
            row.add(" · ", palette.faint).add(f"+{words.clock(moment.elapsed)}", palette.dim)
        return [Piece(row, rank=4)] if row.width else []

    def _track(self, device: int, field: Field, palette: Palette) -> Row:
        """One number of a device as small columns under those of the chart."""
        track: Track = getattr(self.tracks[device], field) if device < len(self.tracks) else ()
        top = 100.0 if field == "utilization" else max((value for value in track if value is not None), default=0.0)
        drawn = spark(list(track), len(track), top or 1.0)
        row = Row(f"{_LABELS[field]:>{self.left - 1}} "[-self.left :], palette.dim)
        style = palette.primary if field == "utilization" else palette.dim
        if not 0 <= self.column < len(drawn):
            return row.add(drawn, style)
        at = drawn[self.column]
        row.add(drawn[: self.column], style).add("┊" if at == " " else at, palette.strong)
        return row.add(drawn[self.column + 1 :], style)


def _device_words(device: DeviceMoment, palette: Palette) -> Row:
    row = Row().left(device.name, _NAME, palette.dim)
    shown = ((words.percent(device.utilization), 5), (words.size(device.memory), 8), (words.watts(device.power), 5))
    for field, (text, cells) in zip(FIELDS, shown, strict=True):
        row.add(f"  {_LABELS[field]} ", palette.dim).right(text, cells, palette.dim if text == words.NONE else palette.text)
    return row
