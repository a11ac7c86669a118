"""Reads for the runs screen what is on disk: the list, and the small curves of the runs in view. It works in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tuitrain.files import Stamp, stamp
from tuitrain.paths import CONFIG
from tuitrain.runs.settings import Settings, changes, read_settings
from tuitrain.tui.browse.run_rows import RunRow, Sketch, row_of, sketch

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord
    from tuitrain.runs.shelf import Shelf
    from tuitrain.runs.summary import RunSummary


_FIRST = 100
"""Runs that no screen is too small for."""


class Wish(msgspec.Struct, frozen=True):
    """What the screen shows: runs with small curves `cells` wide, and the selected one with a sketch of so many cells and rows.

    `listing` asks for the list of runs too, `settings` for what each of them is set to.
    """

    rows: tuple[RunRow, ...]
    cells: int
    selected: RunRow | None
    sketched: tuple[int, int]
    listing: bool = False
    settings: bool = False


class Wishes:
    """What is left to read: the same curves only once, and the list as often as somebody asks for it."""

    def __init__(self) -> None:
        self._last: Wish | None = None
        self._listing = False

    def add(self, wish: Wish, *, busy: bool) -> Wish | None:
        """What to read now; `None` where nothing is, or while an earlier reading is under way: the list is then read after it."""
        self._listing |= wish.listing
        curves = msgspec.structs.replace(wish, listing=False)
        if busy or not (self._listing or curves != self._last):
            return None
        self._last = curves
        wanted, self._listing = msgspec.structs.replace(wish, listing=self._listing), False
        return wanted


class Reading(msgspec.Struct, frozen=True):
    """What was found. `rows` is `None` where only curves were asked for; `problem` says why there are none."""

    curves: dict[str, str]
    changes: dict[str, tuple[str, ...]]
    """In what the runs in view differ from their recipes, by their keys."""
    sketch: Sketch
    sketched: str | None
    """The key of the run that `sketch` is of."""
    unsaved: str | None
    """The key of the selected run where it has ended with no checkpoint, so that nothing can go on from it."""
    rows: list[RunRow] | None = None
    problem: str | None = None
    unread: int = 0
    """How many more runs there may be, which are being read."""
    settings: Mapping[str, Settings] | None = None
    """By the keys of the runs; `None` where nobody asked."""


class RunsReader:
    """One thread at a time may call `read`; it remembers what does not change.

    Args:
        runs_dir: where the runs are.
    """

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._kept: Shelf | None = None
        self._rows: list[RunRow] = []
        self._curves: dict[str, tuple[tuple[int, int], str]] = {}
        self._sketch: tuple[object, Sketch] = (None, Sketch())
        self._settings: dict[str, tuple[Stamp | None, Settings]] = {}

    def newest(self) -> Reading | None:
        """The newest runs, before all are read for the first time: of thousands, or on a slow disk, that takes a while."""
        from tuitrain.runs.errors import RunError

        if self._kept is not None:
            return None
        try:
            found = self._shelf.newest(_FIRST)
        except RunError:
            return None  # whoever reads all of them says so
        return None if found is None else Reading({}, {}, Sketch(), None, None, rows=_rows(found[0], []), unread=found[1])

    def read(self, wish: Wish, own: RunRecord | None) -> Reading:
        """What is wished for; `own` is the record of this app's run, whose losses are in memory."""
        from tuitrain.runs.errors import RunError

        for row in wish.rows:
            drawn = (row.step, wish.cells)
            if self._curves.get(row.key, (None, ""))[0] != drawn:
                self._curves[row.key] = (drawn, "".join(_curve(row, wish.cells, 1, own).lines))
        curves = {key: text for key, (_, text) in self._curves.items()}
        looked_at = wish.rows if wish.selected is None else (*wish.rows, wish.selected)
        changed = {row.key: _in_words(self._set_to(row, anew=wish.listing)) for row in looked_at}
        sketch, sketched = self._selected(wish, own), wish.selected.key if wish.selected else None
        unsaved = None if wish.selected is None or _may_go_on(wish.selected) else wish.selected.key
        found = Reading(curves, changed, sketch, sketched, unsaved)
        if wish.listing:
            try:
                self._rows = _rows(self._shelf.read(), self._rows)
                found = msgspec.structs.replace(found, rows=self._rows)
            except RunError as error:
                found = msgspec.structs.replace(found, rows=[], problem=str(error))
        if wish.settings:
            found = msgspec.structs.replace(found, settings={row.key: self._set_to(row, anew=wish.listing) for row in self._rows})
        return found

    @property
    def _shelf(self) -> Shelf:
        from tuitrain.runs.shelf import Shelf

        self._kept = self._kept or Shelf(self._runs_dir)
        return self._kept

    def _set_to(self, row: RunRow, *, anew: bool) -> Settings:
        """What a run is set to; `anew` looks whether its file is another by now, which is then read again."""
        known = self._settings.get(row.key)
        if known is None or anew:
            folder = row.summary.path
            now = stamp(f"{folder}/{CONFIG}")
            if known is None or known[0] != now:
                known = self._settings[row.key] = (now, read_settings(folder))
        return known[1]

    def _selected(self, wish: Wish, own: RunRecord | None) -> Sketch:
        row, (cells, rows) = wish.selected, wish.sketched
        if row is None or not cells:
            return Sketch()
        stamp = (row.key, row.step, cells, rows)
        if self._sketch[0] != stamp:
            self._sketch = (stamp, _curve(row, cells, rows, own))
        return self._sketch[1]


def _rows(summaries: list[RunSummary], before: list[RunRow]) -> list[RunRow]:
    """The rows of the runs; the same list as before where nothing changed."""
    from tuitrain.runs.queue import places

    known, place = {id(row.summary): row for row in before}, places(summaries)
    rows = [known.get(id(summary)) or row_of(summary, place.get(summary.path)) for summary in summaries]
    return before if len(rows) == len(before) and all(map(is_, rows, before)) else rows


def _in_words(settings: Settings) -> tuple[str, ...]:
    """What was changed: ("batch size 128", "epochs 2")."""
    return tuple(f"{field.replace('_', ' ')} {value}" for field, value in changes(settings).items())


def _may_go_on(row: RunRow) -> bool:
    """Whether it has not ended, or has a checkpoint."""
    from tuitrain.session.resume import was_saved

    return not row.ended or was_saved(row.summary)


def _curve(row: RunRow, cells: int, rows: int, own: RunRecord | None) -> Sketch:
    """The run's loss; empty where it cannot be read."""
    from tuitrain.paths import METRICS
    from tuitrain.runs.errors import RunError
    from tuitrain.runs.reader import MetricsReader

    if row.own and own is not None:
        return sketch(own.loss.thin(1, row.step, cells), row.step, cells, rows)
    try:
        with MetricsReader(row.summary.path / METRICS) as reader:
            return sketch(reader.losses(1, row.step, cells), row.step, cells, rows)
    except RunError:
        return Sketch()
