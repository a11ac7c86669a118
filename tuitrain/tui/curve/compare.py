"""Several runs side by side: their curves on one axis, whatever it counts.

Everything here may wait on disk, so a thread calls it and hands the finished `Reading` to the screen.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from tuitrain.files import Stamp, stamp
from tuitrain.paths import STATE
from tuitrain.text import clean
from tuitrain.tui.curve.axes import Axis, number_axis, round_up, span_axis, step_axis, step_limit, time_axis
from tuitrain.tui.curve.ruler import Across, Ruler, ruler
from tuitrain.tui.curve.straight import clip
from tuitrain.tui.differing import told_apart

if TYPE_CHECKING:
    from tuitrain.runs.evaluations import EvaluationCurve
    from tuitrain.runs.pyramid import Bin
    from tuitrain.runs.record import RunRecord

Metric = Literal["train", "test", "accuracy"]
METRICS: tuple[Metric, ...] = ("train", "test", "accuracy")
MOST = 8
"""As many runs can be told apart by number and colour."""
DEEPEST = 10
"""How often one can zoom in: each time by two."""

T = TypeVar("T")


class Wanted(msgspec.Struct, frozen=True):
    """What the curves are to show.

    `end` is the right end of what is seen, in units of the axis; `None` is the newest end. `width` is the chart's, in cells.
    """

    across: Across = "step"
    metric: Metric = "train"
    weight: float = 0.9
    zoom: int = 0
    end: float | None = None
    width: int = 100


class Entrant(msgspec.Struct, frozen=True):
    """One of the runs, numbered from 1. It has a record, or a sentence that says why not.

    `state` is the word that the list of runs has for its state, `stamp` that of the file that holds it.
    """

    number: int
    path: Path
    record: RunRecord | None = None
    problem: str = ""
    label: str = ""
    state: str = ""
    stamp: Stamp | None = None

    @property
    def moves(self) -> bool:
        """Whether it can look different at the next reading."""
        return self.record is None or self.record.live

    def stirred(self) -> bool:
        """Whether one that had ended is deleted, or goes on."""
        return self.stamp != stamp(self.path / STATE)


class Track(msgspec.Struct, frozen=True):
    """The curve of run `number` as (x, value), x ascending, accuracies in percent; without points a sentence says why.

    `spans` are, for each point of a training curve, the first and the last of the steps that it is the mean of. `evaluated` says what the
    last evaluation up to an x said, be it on the axis or before it.
    """

    number: int
    points: Sequence[tuple[float, float]] = ()
    sentence: str = ""
    spans: Sequence[tuple[int, int]] = ()
    evaluated: Callable[[float], float | None] | None = None


class Reading(msgspec.Struct, frozen=True):
    """What was read: the runs, the curves of those that have a record, and the axis that they lie on.

    `limit` is where the axis would end without zoom, `newest` where the longest curve ends.
    """

    wanted: Wanted
    entrants: tuple[Entrant, ...]
    tracks: tuple[Track, ...]
    axis: Axis
    limit: float
    newest: float


def load(paths: Sequence[Path], known: Sequence[Entrant], own: RunRecord | None) -> tuple[Entrant, ...]:
    """The runs in these folders. Those of `known` that have ended are taken as they are, unless they stirred; `own` is the record of the
    run that this process trains, which is newer than its folder.
    """
    found = [
        known[index] if index < len(known) and not known[index].moves and not known[index].stirred() else _load(index + 1, path, own)
        for index, path in enumerate(paths)
    ]
    names = iter(labels([entrant.record for entrant in found if entrant.record is not None]))
    return tuple(entrant if entrant.record is None else msgspec.structs.replace(entrant, label=next(names)) for entrant in found)


def labels(records: Sequence[RunRecord]) -> list[str]:
    """What each run is called here: its name and, where several have the same, a setting that tells them apart, or the end of the id."""
    titles = [clean(record.config.title()) for record in records]
    found = list(titles)
    for title in {title for title, count in Counter(titles).items() if count > 1}:
        alike = [index for index, one in enumerate(titles) if one == title]
        ends = [records[index].run.rpartition("-")[2] for index in alike]
        for index, end in zip(alike, told_apart([records[index].config for index in alike]) or ends, strict=True):
            found[index] = f"{title} {end}"
    count = Counter(found)
    return [label if count[label] == 1 else record.run for label, record in zip(found, records, strict=True)]


def _load(number: int, path: Path, own: RunRecord | None) -> Entrant:
    from tuitrain.runs.saved import load_record
    from tuitrain.runs.summary import summarize

    # Before it is read: what is written meanwhile is read the next time.
    entrant = Entrant(number, path, stamp=stamp(path / STATE))
    try:
        record = own if own is not None and own.path == path else load_record(path)
    except Exception as error:
        return _left_out(entrant, error)
    state = summarize(path, time.time()).state_words if record is not own and record.live else record.state
    return msgspec.structs.replace(entrant, record=record, state=state)


def _left_out(entrant: Entrant, error: Exception) -> Entrant:
    """Files of a run can be damaged in more ways than have names; whatever reading them raises leaves this one run out."""
    name, sentence = clean(entrant.path.name), clean(str(error) or type(error).__name__)
    return msgspec.structs.replace(entrant, record=None, problem=sentence if sentence.startswith(name) else f"{name}: {sentence}")


def _attempt(entrant: Entrant, work: Callable[[RunRecord], T]) -> tuple[Entrant, T | None]:
    if entrant.record is None:
        return entrant, None
    try:
        return entrant, work(entrant.record)
    except Exception as error:
        return _left_out(entrant, error), None


def read(entrants: Sequence[Entrant], wanted: Wanted) -> Reading:
    """The curves of the runs; one whose files cannot be read any more comes back without a record."""
    ruled = [_attempt(entrant, lambda record: ruler(record, wanted.across)) for entrant in entrants]
    ends = [ends_of(entrant.record, made, wanted.across) for entrant, made in ruled if entrant.record is not None and made is not None]
    limit = max((end for _, end in ends), default=0.0) or 1.0
    newest = max((now for now, _ in ends), default=0.0) or limit
    axis = axis_of(wanted, limit, newest)
    kept, tracks = [], []
    for entrant, made in ruled:
        number = entrant.number
        entrant, track = _attempt(entrant, lambda record: track_of(number, record, made, axis, wanted))  # noqa: B023 - called at once
        kept.append(entrant)
        tracks += [] if track is None else [track]
    return Reading(wanted, tuple(kept), tuple(tracks), axis, limit, newest)


def ends_of(record: RunRecord, made: Ruler, across: Across) -> tuple[float, float]:
    """The x of the run's newest step, and where an axis should end for it: further right while it trains, so that the axis holds still."""
    now = made.place(record.step)
    if not record.live or record.plan is None:
        return now, now
    if across == "time":
        return now, round_up(max(now, 1.0))
    return now, made.place(step_limit(record.step, record.plan.total_steps))


def right_end(wanted: Wanted, limit: float, newest: float) -> float:
    """Where the part of the axis ends that is zoomed in on."""
    width = limit * 0.5**wanted.zoom
    # By quarters of what is seen, so that a view of the newest end does not move with every step.
    end = wanted.end if wanted.end is not None else math.ceil(newest / width * 4 - 1e-9) * width / 4
    return min(max(end, width), limit)


def axis_of(wanted: Wanted, limit: float, newest: float) -> Axis:
    """The x axis: from 0 to `limit`, or the part of it that is zoomed in on."""
    low, high = 0.0, limit
    if wanted.zoom:
        high = right_end(wanted, limit, newest)
        low = high - limit / 2**wanted.zoom
    if wanted.across == "time":
        return time_axis(low, high, wanted.width)
    if wanted.across == "epoch":
        return number_axis(low, high, wanted.width)
    return span_axis(low, high, wanted.width) if wanted.zoom else step_axis(round(high), round(high), wanted.width)


def track_of(number: int, record: RunRecord, made: Ruler | None, axis: Axis, wanted: Wanted) -> Track:
    """The curve of one run between the ends of the axis."""
    if record.step == 0:
        return Track(number, sentence="no step yet")
    if made is None:
        return Track(number, sentence="no times of its steps")
    if wanted.metric == "train":
        curve = record.loss.smoothed(wanted.weight) if wanted.weight else record.loss
        bins = [one for one in curve.thin(made.step(axis.low), made.step(axis.high), wanted.width) if math.isfinite(one.mean)]
        points = [(made.place(one.x), one.mean) for one in bins]
        sentence = "" if points else "nothing in this range" if wanted.zoom else "no finite loss that could be read"
        return Track(number, points, sentence, spans=tuple(_span(one) for one in bins))
    if not record.evals:
        data = record.plan is None or record.plan.test_samples
        return Track(number, sentence="no test data" if not data else "not evaluated yet" if record.live else "never evaluated")
    if wanted.metric == "accuracy" and not record.has_accuracy:
        return Track(number, sentence="targets are numbers")
    tests = record.evaluations.losses if wanted.metric == "test" else record.evaluations.accuracies
    found = tests.around(made.step(axis.low), made.step(axis.high), wanted.width)
    points = clip([(made.place(step), value) for step, value in found], axis.low, axis.high)
    sentence = "" if points else "nothing in this range" if wanted.zoom else "no finite value"
    return Track(number, points, sentence, evaluated=partial(_said_by, tests, made))


def _said_by(tests: EvaluationCurve, made: Ruler, x: float) -> float | None:
    """What the last evaluation up to an x said."""
    point = tests.points.at(made.step(x))
    return None if point is None else point[1]


def _span(one: Bin) -> tuple[int, int]:
    """The first and the last step of a bin, in the middle of which it stands."""
    reach = (one.count - 1) / 2
    return math.floor(one.x - reach), math.ceil(one.x + reach)


def value_at(track: Track, x: float, axis: Axis, wanted: Wanted) -> float | None:
    """What a curve says in the column of `x`: of training the nearest point, and none beyond its ends; of evaluations the last one."""
    column = (axis.high - axis.low) / wanted.width
    if wanted.metric == "train":
        index = _nearest(track.points, x, column)
        return None if index is None else track.points[index][1]
    return None if track.evaluated is None else track.evaluated(x + column / 2)


def spans_at(reading: Reading, x: float) -> list[tuple[int, int]]:
    """For each training curve that says something at `x`, the first and the last of the steps that its value is the mean of."""
    reach = (reading.axis.high - reading.axis.low) / reading.wanted.width
    found = [(track, _nearest(track.points, x, reach)) for track in reading.tracks if track.spans]
    return [track.spans[index] for track, index in found if index is not None]


def _nearest(points: Sequence[tuple[float, float]], x: float, reach: float) -> int | None:
    """Which point is the nearest to `x`; `None` where all of them end before it or begin after it."""
    if not points or not points[0][0] - reach <= x <= points[-1][0] + reach:
        return None
    after = bisect_right(points, x, key=lambda point: point[0])
    return min(range(max(after - 1, 0), min(after + 1, len(points))), key=lambda index: abs(points[index][0] - x))
