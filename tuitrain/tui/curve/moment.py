"""What a run and its devices did at one step, and over the columns of a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tuitrain.runs.evaluations import Point
from tuitrain.runs.history import FIELDS
from tuitrain.tui.curve.axes import Axis, cell, step_at
from tuitrain.tui.curve.metrics import Metric

if TYPE_CHECKING:
    from tuitrain.runs.history import DeviceHistory
    from tuitrain.runs.record import RunRecord
    from tuitrain.runs.series import Curve

Track = tuple["float | None", ...]
"""One number for each column of a chart."""


class DeviceMoment(msgspec.Struct, frozen=True):
    """Percent, bytes and watts; `None` where nobody knows."""

    name: str
    utilization: float | None
    memory: float | None
    power: float | None


class Moment(msgspec.Struct, frozen=True):
    """One step. `value` is NaN where it was not finite; `time` is Unix seconds, `elapsed` counts from the run's first step."""

    step: int
    epoch: int | None
    value: float | None
    smooth: float | None
    test: Point | None
    """The newest evaluation up to there, as (step, value)."""
    time: float | None
    elapsed: float | None
    devices: tuple[DeviceMoment, ...]


class DeviceTracks(msgspec.Struct, frozen=True):
    """What one device did, column by column."""

    name: str
    utilization: Track
    memory: Track
    power: Track


def device_names(record: RunRecord) -> list[str]:
    """The devices with samples, each once, the run's own in its own order."""
    kept = list(record.devices)
    own = [name for name in dict.fromkeys(record.plan.device) if name in kept] if record.plan else []
    return own or sorted(kept)


def read_moment(record: RunRecord, metric: Metric, smoothed: Curve | None, step: int) -> Moment:
    """The numbers of a step; of one that is missing, those of the last one before it."""
    point = metric.curve(record).at(step) if metric.curve else None
    smooth = smoothed.at(step) if smoothed is not None else None
    moment, first = record.times.at(step), _first_time(record)
    time = moment[1] if moment is not None else None
    return Moment(
        step=step,
        epoch=(step - 1) // record.plan.steps_per_epoch + 1 if record.plan else None,
        value=point[1] if point else None,
        smooth=smooth[1] if smooth else None,
        test=metric.tests(record).points.at(step),
        time=time,
        elapsed=time - first if time is not None and first is not None else None,
        devices=tuple(_device_moment(name, record.devices[name], time) for name in device_names(record)),
    )


def read_tracks(record: RunRecord, name: str, steps: Axis, columns: int) -> DeviceTracks:
    """What a device did in the time of each column's steps."""
    history = record.devices[name]
    edges = _column_times(record, steps, columns)
    return DeviceTracks(name, *(tuple(history.mean(field, *edge) if edge else None for edge in edges) for field in FIELDS))


def _device_moment(name: str, history: DeviceHistory, time: float | None) -> DeviceMoment:
    if time is None:
        return DeviceMoment(name, None, None, None)
    return DeviceMoment(name, *(history.at(field, time) for field in FIELDS))


def _first_time(record: RunRecord) -> float | None:
    """When the first step was made that there is; a run that goes on in a new process may know none before it."""
    resumed = record.plan.resumed_from if record.plan else None
    found = record.times.at(1) or record.times.at((resumed or 0) + 1)
    return found[1] if found else None


def _column_times(record: RunRecord, steps: Axis, columns: int) -> list[tuple[float, float] | None]:
    """From when to when the steps of each column were made; `None` where there are none."""
    times: list[tuple[float, float] | None] = []
    last = min(cell(record.step, steps, columns), columns - 1)
    before = record.times.at(step_at(-0.5, steps, columns))
    for column in range(columns):
        after = record.times.at(step_at(column + 0.5, steps, columns)) if column <= last else None
        times.append((before[1] if before else after[1], after[1]) if after else None)
        before = after
    return times
