"""What the lines under a curve say, read from the run only when it changes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import msgspec

from tuitrain.runs.history import FIELDS, Field
from tuitrain.tui.curve.axes import Axis, cell
from tuitrain.tui.curve.later import Later
from tuitrain.tui.curve.metrics import Metric
from tuitrain.tui.curve.moment import DeviceTracks, Moment, device_names, read_moment, read_tracks
from tuitrain.tui.curve.plot import key_of
from tuitrain.tui.curve.readout import Plan, Readout, plan

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord
    from tuitrain.runs.series import Curve


class Place(msgspec.Struct, frozen=True):
    """Where the cursor is: its step, the horizontal axis, and the canvas from column `left` of the picture on; and `Plot.until` of that."""

    step: int
    steps: Axis
    left: int
    columns: int
    until: int


class Foot:
    """Readings of one run at a time.

    Args:
        later: reads what lies on a disk.
    """

    def __init__(self, later: Later) -> None:
        self._later = later
        self._moment: Moment | None = None
        self._of: Hashable = None

    def plan(self, record: RunRecord, height: int) -> Plan:
        """Which lines fit under a chart where both have `height` rows."""
        return plan(height, [_known(record, name) for name in device_names(record)])

    def readout(self, record: RunRecord, metric: Metric, smoothed: Curve | None, place: Place, wanted: Plan) -> Readout | None:
        """What to say; while a step is being read, still the one before it, and `None` without one."""
        run = (key_of(record), metric.name)
        moment = self._later.get(
            "moment",
            (run, place.step, smoothed is not None),
            (_newest(record, place), len(record.evals)),
            lambda: read_moment(record, metric, smoothed, place.step),
            at_once=record.times.in_memory,
        )
        if moment is None and self._of == run:
            moment = self._moment
        self._moment, self._of = moment, run
        if moment is None:
            return None
        return Readout(
            moment=moment,
            metric=metric,
            newest=record.step,
            tested=bool(record.evals),
            tracks=self._tracks(record, place, wanted),
            left=place.left,
            column=cell(place.step, place.steps, place.columns),
        )

    def _tracks(self, record: RunRecord, place: Place, wanted: Plan) -> list[DeviceTracks]:
        """The tracks of the devices that have room for any."""
        shown = {device for device, _ in wanted.tracks}
        return [self._track(record, name, place) for index, name in enumerate(device_names(record)) if index in shown]

    def _track(self, record: RunRecord, name: str, place: Place) -> DeviceTracks:
        found = self._later.get(
            f"track {name}",
            (key_of(record), place.steps, place.columns),
            (_newest(record, place), len(record.devices[name])),
            lambda: read_tracks(record, name, place.steps, place.columns),
            at_once=record.times.in_memory,
        )
        return found or DeviceTracks(name, (), (), ())


def _newest(record: RunRecord, place: Place) -> int:
    """Up to which step of the run something is asked for."""
    return record.step if record.times.in_memory else place.until


def _known(record: RunRecord, name: str) -> list[Field]:
    """What anybody ever said about a device."""
    history = record.devices[name]
    return [field for field in FIELDS if history.knows(field)]
