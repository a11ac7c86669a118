"""The curves of several runs on one chart, with a legend over it."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.style import Style
from textual.events import Click
from textual.strip import Strip

from tuitrain.tui.curve.axes import Axis, cell, percent_axis, step_at, value_axis
from tuitrain.tui.curve.callouts import Course, call_out, with_callouts
from tuitrain.tui.curve.chart import Drawing, Line, Picture, Points, draw
from tuitrain.tui.curve.compare import Entrant, Reading, Track, Wanted, spans_at, value_at
from tuitrain.tui.curve.crosshair import with_cursor
from tuitrain.tui.curve.pieces import Piece, kept, spaced
from tuitrain.tui.strips import Row, end_of, fit
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap, wrap_into
from tuitrain.words import along, number

_METRICS = {"train": "Train loss", "test": "Test loss", "accuracy": "Test accuracy in %"}
_ACROSS = {"step": "steps", "epoch": "epochs", "time": "time since the first step"}
_LEAST = (20, 4)
_SHORTEST_NAME = 4
# So many times the usual first value is a loss that left the rails.
_DIVERGED = 5.0
_ABOVE_LEAST = 1.2
_BOLD = Style(bold=True)


class Overlay(Pane):
    """One line for each run in its own colour, with its number on it.

    Args:
        count: how many runs are read.
        braille: whether the terminal shows it.
    """

    def __init__(self, count: int, *, braille: bool) -> None:
        super().__init__(id="overlay")
        self.first = True
        self.log_scale = False
        self.wanted = Wanted()
        """What the person asked for last; `reading` may be of an earlier wish."""
        self.reading: Reading | None = None
        self.cursor: float | None = None
        """Where on the axis the values of the curves are read; `None` where nobody reads."""
        self._count = count
        self._braille = braille
        self._arrivals = 0
        self._look: object = None
        self._values: Axis | None = None
        self._held_for: object = None
        self._picture: Picture | list[Strip] = []
        self._last_lines: list[Strip] = []
        self._keeps_picture = False

    def show(self, reading: Reading) -> None:
        """Draw what was read, with the cursor in sight."""
        self.reading = reading
        if self.cursor is not None:
            self.cursor = min(max(self.cursor, reading.axis.low), reading.axis.high)
        self._arrivals += 1
        self.redraw()

    def answer(self) -> None:
        """Show at once in the heading what a key changed; the chart follows, because a whole new one takes some hundredths of a second."""
        self._keeps_picture = True
        self.redraw()
        self._keeps_picture = False

    def heading(self) -> tuple[Row, Row]:
        """What is shown over what, and what the keys change."""
        palette, wanted = self.palette, self.wanted
        title = Row(_METRICS[wanted.metric], self.title_style()).add(f" over {_ACROSS[wanted.across]}", palette.dim)
        if self.cursor is not None and self.reading is not None:
            title.add(f" at {_place(self.cursor, self.reading)}", palette.strong)
        left = [Piece(title)]
        right = [Piece(Row("Z ", palette.key).add(f"zoomed {2**wanted.zoom}×", palette.dim), 2)] if wanted.zoom else []
        if wanted.metric != "accuracy":
            right.append(Piece(Row("l ", palette.key).add("log" if self.log_scale else "linear", palette.dim), 1))
        if wanted.metric == "train":
            words = f"smoothing {wanted.weight:g}" if wanted.weight else "no smoothing"
            right.append(Piece(Row("+/- ", palette.key).add(words, palette.dim), 3))
        room = self.size.width - 10 - left[0].row.width
        return spaced(left), spaced(kept(right, room, 2))

    def body(self, width: int, height: int) -> list[Strip]:
        """The legend over the chart, or sentences."""
        if self.reading is None:
            return [Row(f"reading {self._count} runs…", self.palette.dim).strip(width)]
        if self._keeps_picture and self._last_lines:
            return self._last_lines
        wanted = self.reading.wanted
        log = self.log_scale and wanted.metric != "accuracy"
        legend = self._legend(self.reading, width, 2 if height < 20 else 4, log)
        look = (self._arrivals, width, height - len(legend), log, self.app.theme)
        if look != self._look:
            self._look, self._picture = look, self._chart(self.reading, width, height - len(legend), log)
        self._last_lines = [*legend, *self._read_chart(self.reading.axis)]
        return self._last_lines

    # -- cursor -------------------------------------------------------------------------------------------------------

    @property
    def reads(self) -> bool:
        """Whether there is a chart to read."""
        return isinstance(self._picture, Picture)

    def move_cursor(self, by: int) -> bool:
        """By columns of the chart; where there is none yet it begins in the middle, or next to it where some curve says something. False
        where it stands at an edge."""
        if self.reading is None or not isinstance(self._picture, Picture):
            return False
        axis, columns = self.reading.axis, self._picture.columns
        here = None if self.cursor is None else cell(self.cursor, axis, columns)
        there = self._beginning(self.reading, columns) if here is None else min(max(here + by, 0), columns - 1)
        self._put_cursor(there, axis, columns)
        return there != here

    def _beginning(self, reading: Reading, columns: int) -> int:
        middle = (columns - 1) // 2

        def says(column: int) -> bool:
            x = step_at(column, reading.axis, columns)
            return any(value_at(track, x, reading.axis, reading.wanted) is not None for track in reading.tracks)

        return next(filter(says, sorted(range(columns), key=lambda column: abs(column - middle))), middle)

    def on_click(self, event: Click) -> None:
        """Read what stands under the mouse."""
        picture = self._picture
        if self.reading is None or not isinstance(picture, Picture):
            return
        column = event.x - (self.size.width - 1 - self.PADDING - picture.columns)
        if 0 <= column < picture.columns:
            self._put_cursor(column, self.reading.axis, picture.columns)
            self.screen.refresh_bindings()

    def _put_cursor(self, column: int, axis: Axis, columns: int) -> None:
        self.cursor = step_at(column, axis, columns)
        self.redraw()

    def _read_chart(self, axis: Axis) -> list[Strip]:
        """The chart, with the cursor in it where somebody reads."""
        if not isinstance(self._picture, Picture):
            return self._picture
        if self.cursor is None:
            return self._picture.lines
        return with_cursor(self._picture, cell(self.cursor, axis, self._picture.columns), self.palette.dim, self.palette.key)

    # -- legend -------------------------------------------------------------------------------------------------------

    def _legend(self, reading: Reading, width: int, most: int, log: bool) -> list[Strip]:
        """Numbers and names, names cut where they would take more than `most` lines; then the runs that could not be read.

        There are as many lines while somebody reads as while nobody does, so that the chart stands still.
        """
        points = {track.number: _above(track, log) for track in reading.tracks}
        top = ceiling(list(points.values()))
        notes = {track.number: _note(track, points[track.number], top) for track in reading.tracks}
        values = {track.number: self._read(track, reading) for track in reading.tracks if track.points}
        shown = [entrant for entrant in reading.entrants if entrant.record is not None]
        unread, read = self._named(shown, notes, {}, width, most), self._named(shown, notes, values, width, most)
        lines = unread if self.cursor is None else read
        lines = [*lines, *[Row()] * (max(len(unread), len(read)) - len(lines))]
        sentences = [f"✗ left out: {entrant.problem}" for entrant in reading.entrants if entrant.problem]
        problems = [line for sentence in sentences for line in wrap_into(sentence, width, 2)]
        return [*(line.strip(width) for line in lines), *(Row(line, self.palette.bad).strip(width) for line in problems)]

    def _named(self, shown: Sequence[Entrant], notes: Mapping[int, str], values: Mapping[int, str], width: int, most: int) -> list[Row]:
        """Lines of numbers and names with what is to be said of each run: its value, or its note.

        Where they have not room enough, a note of several runs is said once, and then names are cut.
        """
        said = {run: note for run, note in notes.items() if note and run not in values}
        several = [note for note, count in Counter(said.values()).items() if count > 1]
        texts = {**said, **values}

        def fits(lines: Sequence[Row]) -> bool:
            return len(lines) <= most and all(line.width <= width for line in lines)

        longest = max((cell_len(entrant.label) for entrant in shown), default=0)
        whole = self._in_lines(shown, texts, (), longest, width)
        if fits(whole):
            return whole
        rooms = range(_SHORTEST_NAME, max(min(longest, width), _SHORTEST_NAME) + 1)
        too_long = bisect_left(rooms, True, key=lambda room: not fits(self._in_lines(shown, texts, several, room, width)))
        return self._in_lines(shown, texts, several, rooms[max(too_long - 1, 0)], width)

    def _in_lines(self, shown: Sequence[Entrant], texts: Mapping[int, str], several: Sequence[str], room: int, width: int) -> list[Row]:
        """Names of at most `room` cells, each with what is said of it, but for the notes of `several` runs, which stand at the end."""
        items = []
        for entrant, name in zip(shown, _cut([entrant.label for entrant in shown], room), strict=True):
            text = texts.get(entrant.number, "")
            item = self._number(entrant.number).add(name, self.palette.text)
            items.append(item.add(f": {text}", self.palette.dim) if text and text not in several else item)
        for note in several:
            runs = Row()
            for run in (run for run, text in texts.items() if text == note):
                runs.join(self._number(run))
            items.append(runs.add(note, self.palette.dim))
        return _flow(items, width)

    def _number(self, run: int) -> Row:
        return Row(f"{run} ", self.palette.series[run - 1] + _BOLD)

    def _read(self, track: Track, reading: Reading) -> str:
        """What the curve says where the cursor stands, always as wide, so that the names beside it stand still."""
        value = None if self.cursor is None else value_at(track, self.cursor, reading.axis, reading.wanted)
        text = "-" if value is None else f"{value:.1f} %" if reading.wanted.metric == "accuracy" else number(value)
        return f"{text:>7}"

    # -- chart --------------------------------------------------------------------------------------------------------

    def _chart(self, reading: Reading, width: int, height: int, log: bool) -> Picture | list[Strip]:
        """The curves, or sentences."""
        palette = self.palette
        tracks = [_above(track, log) for track in reading.tracks]
        if not any(tracks):
            return [Row(line, palette.dim).strip(width) for line in wrap(_why_empty(reading), width)]
        if width < _LEAST[0] or height < _LEAST[1]:
            return [Row("too small for a chart", palette.dim).strip(width)]
        top = ceiling(tracks)
        values = self._value_axis(reading.wanted, [min(value, top) for points in tracks for _, value in points], height, log)
        lines = [Line(points, palette.series[track.number - 1]) for track, points in zip(reading.tracks, tracks, strict=True) if points]
        drawing = Drawing(width=width, height=height, steps=reading.axis, values=values, lines=lines, braille=self._braille)
        return self._numbered(draw(drawing, palette), reading, tracks, values)

    def _value_axis(self, wanted: Wanted, values: Sequence[float], height: int, log: bool) -> Axis:
        """The axis of the picture before, as long as it shows the same and its values suit."""
        kind = (wanted, height, log)
        held = self._values if kind == self._held_for else None
        self._held_for = kind
        self._values = (
            percent_axis(values, height, held=held) if wanted.metric == "accuracy" else value_axis(values, height, log=log, held=held)
        )
        return self._values

    def _numbered(self, picture: Picture, reading: Reading, tracks: Sequence[Points], values: Axis) -> Picture:
        """Where colours do not tell the curves apart their numbers stand closer."""
        columns = picture.columns
        every = 12 if self.app.no_color or not self._braille else max(columns // 2, 12)
        courses = [Course(track.number, points) for track, points in zip(reading.tracks, tracks, strict=True)]
        callouts = call_out(courses, reading.axis, values, columns, picture.rows, every=every, braille=self._braille)
        return with_callouts(picture, callouts, self.palette.series)


def _place(x: float, reading: Reading) -> str:
    """A place on the axis as its marks are written, told from those a column away, and what the values there are."""
    wanted, axis, spans = reading.wanted, reading.axis, spans_at(reading, x)
    if wanted.across == "time":
        place = along(x, (axis.high - axis.low) / wanted.width)
    elif wanted.across == "epoch":
        place = f"{x:.2f}"
    else:
        place = _steps(x, spans)
    if wanted.metric == "train" and wanted.weight:
        return f"{place}, smoothed {wanted.weight:g}"
    return f"{place}, mean" if any(first < last for first, last in spans) else place


def _steps(x: float, spans: Sequence[tuple[int, int]]) -> str:
    """The steps that the values at `x` are of. The axis begins at 0, and the first step is 1."""
    first = min((first for first, _ in spans), default=max(round(x), 1))
    last = max((last for _, last in spans), default=first)
    return f"step {first:,}" if first == last else f"steps {first:,}–{last:,}"


def _above(track: Track, log: bool) -> Points:
    """The points that the axis can show."""
    return [point for point in track.points if point[1] >= sys.float_info.min] if log else track.points


def ceiling(curves: Sequence[Points]) -> float:
    """Where the axis ends although values go on: one run that diverged must not flatten all others. Every curve's least value is below."""
    starts = sorted(points[0][1] for points in curves if points)
    if not starts or starts[len(starts) // 2] <= 0:
        return math.inf
    return max(_DIVERGED * starts[len(starts) // 2], *(_ABOVE_LEAST * min(value for _, value in points) for points in curves if points))


def _note(track: Track, points: Points, top: float) -> str:
    if track.sentence:
        return track.sentence
    if not points:
        return "nothing above 0"
    return "beyond the top" if any(value > top for _, value in points) else ""


def _why_empty(reading: Reading) -> str:
    if not reading.tracks:
        return "No run could be read: Esc goes back."
    if any(track.points for track in reading.tracks):
        return "No value here is above 0, as a logarithmic axis needs: l goes back to the linear one."
    if reading.wanted.zoom:
        return "There is nothing in this range: Z shows everything."
    if reading.wanted.across == "time" and reading.wanted.metric == "train":
        return "There is nothing to draw over the time: a goes on to steps."
    return "There is nothing to draw yet: m goes on to another curve."


def _cut(labels: Sequence[str], room: int) -> list[str]:
    """Names of `room` cells at most: their ends where their beginnings would be the same."""
    names = [label if cell_len(label) <= room else fit(label, room) for label in labels]
    return names if len(set(names)) == len(names) else [end_of(label, room) for label in labels]


def _flow(items: Sequence[Row], width: int) -> list[Row]:
    """Items in lines, three spaces apart."""
    lines: list[Row] = []
    for item in items:
        if lines and lines[-1].width + 3 + item.width <= width:
            lines[-1].add("   ").join(item)
        else:
            lines.append(Row().join(item))
    return lines
