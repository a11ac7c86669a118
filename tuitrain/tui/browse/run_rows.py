"""What the list of runs says of each one, how it is sorted and searched, and which columns fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from tuitrain import words
from tuitrain.config import FIELDS
from tuitrain.runs.settings import Settings, has_setting, holds_word
from tuitrain.text import nearest
from tuitrain.tui.columns import Column
from tuitrain.tui.row_list import holding
from tuitrain.tui.strips import stacked

if TYPE_CHECKING:
    from tuitrain.runs.pyramid import Bin
    from tuitrain.runs.summary import RunSummary
    from tuitrain.tui.run_view import RunLike

_ALIVE = ("queued", "preparing", "running", "stopping", "paused")
_STATE_ORDER = ("preparing", "running", "stopping", "paused", "queued", "failed", "lost", "interrupted", "stopped", "finished")


class RunRow(msgspec.Struct, frozen=True):
    """One run of the list. `own` says that it is the one of this app, whose numbers come from memory."""

    key: str
    """What names the run while the list changes."""
    summary: RunSummary
    state: str
    step: int
    loss: float | None
    accuracy: float | None
    own: bool = False
    place: int | None = None
    """In the queue, of a run that waits for its turn."""

    @property
    def began(self) -> float | None:
        """When it began (Unix seconds); of two thousand rows, those in view are asked."""
        from tuitrain.runs.utc import from_utc

        return from_utc(self.summary.started)

    @property
    def title(self) -> str:
        """What the run is called."""
        return self.summary.name or self.summary.recipe or self.summary.run

    @property
    def detached(self) -> bool:
        """Whether it trains and nobody looks at it."""
        return self.summary.live and not self.own and self.summary.queue is None and self.summary.attached == 0

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it by itself."""
        return self.state not in _ALIVE

    @property
    def took(self) -> float | None:
        """How long it trained, in seconds; `None` as long as it does, or where nobody knows."""
        return self.summary.running_seconds or None if self.ended else None

    @property
    def resumable(self) -> bool:
        """Whether going on with it may mean something: it is paused, has ended, or waits for its turn in no process."""
        return self.state == "paused" or self.summary.left or self.ended

    @property
    def stalled_seconds(self) -> float | None:
        """How long no step has come where several should have; of a run that has ended since the list was read it is of no matter."""
        return self.summary.stalled_seconds if self.state == "running" else None

    @property
    def state_words(self) -> str:
        """The state, and whether nobody looks at the run; of one in the queue, its place."""
        from tuitrain.runs.queue import place_in_words

        if self.place is not None:
            return place_in_words(self.summary, self.place)
        if self.summary.queue is not None:
            return self.summary.state_words
        if self.stalled_seconds:
            return f"{self.state}, stalled"
        return f"{self.state}, detached" if self.detached else self.state

    def short_state(self, cells: int) -> str:
        """As much of it as a column of so many cells has room for."""
        from tuitrain.runs.queue import ordinal

        shorter = "stalled" if self.stalled_seconds else None if self.place is None else f"{self.state}, {ordinal(self.place)}"
        fits = (text for text in (self.state_words, shorter) if text is not None and len(text) <= cells)
        return next(fits, self.state)

    @property
    def text(self) -> str:
        """What the filter searches."""
        run = self.summary
        data = f"{run.data} {words.DATA_NAMES.get(run.data, '')}"
        return " ".join((run.run, run.name, run.recipe, self.state_words, " ".join(run.device), run.strategy, data, run.note)).casefold()


def row_of(summary: RunSummary, place: int | None = None) -> RunRow:
    """The row of a run as its folder tells it, and its place in the queue."""
    return RunRow(str(summary.path), summary, summary.state, summary.step, summary.loss, summary.accuracy, place=place)


def as_it_is(row: RunRow, run: RunLike) -> RunRow:
    """The row, brought up to what is in memory where it is `run`, the one of this app. One that has ended here may be another process's
    since: its folder tells of it."""
    record = run.record
    if record is None or not record.run or record.run != row.summary.run or not (run.alive or row.summary.of_this_process):
        return row
    return RunRow(row.key, row.summary, run.state, record.step, record.last_loss, record.best_accuracy, own=True)


# -- sorting and searching --------------------------------------------------------------------------------------------

SORTS: Mapping[str, Callable[[RunRow], Any] | None] = {
    "newest": None,
    "name": lambda row: row.title.casefold(),
    "state": lambda row: _STATE_ORDER.index(row.state) if row.state in _STATE_ORDER else len(_STATE_ORDER),
    "most steps": lambda row: -row.step,
    "lowest loss": lambda row: math.inf if row.loss is None or math.isnan(row.loss) else row.loss,
    "best accuracy": lambda row: math.inf if row.accuracy is None or math.isnan(row.accuracy) else -row.accuracy,
    "longest": lambda row: math.inf if row.took is None else -row.took,
}
"""The orders by name; a run that has no such number comes last, and equals stay newest first."""


def arranged(
    rows: Sequence[RunRow], sort: str, sought: str, *, reverse: bool = False, settings: Mapping[str, Settings] | None = None
) -> list[RunRow]:
    """The rows that hold every word of `sought`, in the order named `sort`, or the other way round; `rows` come newest first.

    Args:
        settings: by the keys of the rows what a word like "lr=0.01" or "adam" is looked for in.
    """

    def is_set(row: RunRow, word: str) -> bool:
        set_to = (settings or {}).get(row.key, {})
        return has_setting(set_to, word) if names_setting(word) else holds_word(set_to, word)

    found, key = holding(rows, sought, is_set), SORTS[sort]
    if key is None:
        return found[::-1] if reverse else found
    known = [row for row in found if key(row) != math.inf]
    return [*sorted(known, key=key, reverse=reverse), *(row for row in found if key(row) == math.inf)]


def names_setting(sought: str) -> bool:
    """Whether some word names a setting."""
    return any("=" in word[1:] for word in sought.split())


def no_such_field(sought: str) -> str:
    """A sentence on the first word that names a setting which no run has, behind a space; empty where there is none."""
    fields = (word.partition("=")[0].casefold() for word in sought.split() if names_setting(word))
    unknown = next((field for field in fields if field.replace("-", "_") not in FIELDS), None)
    return "" if unknown is None else f" {unknown} is no setting.{nearest(unknown, FIELDS)}"


# -- cells ------------------------------------------------------------------------------------------------------------


def steps(count: int) -> str:
    """A number of steps in at most 9 cells, and a dash without one."""
    return "-" if not count else f"{count:,}" if count < 10_000_000 else f"{count / 1e6:,.1f} M"


def accuracy(value: float | None) -> str:
    """0..1 as percent, and a dash without one."""
    return "-" if value is None or math.isnan(value) else f"{value * 100:.1f} %"


def took(seconds: float | None) -> str:
    """How long a run trained in at most 8 cells, and a dash where nobody knows."""
    return "-" if seconds is None else words.clock(seconds) if seconds < 360_000 else f"{seconds / 86_400:,.1f} d"


def loss(value: float | None) -> str:
    """A loss, and a dash without one."""
    return "-" if value is None else words.number(value)


class Sketch(msgspec.Struct, frozen=True):
    """A curve as columns of blocks: lines from the top down, and the values of the highest and the lowest column."""

    lines: tuple[str, ...] = ()
    high: float = 0.0
    low: float = 0.0


def sketch(bins: Sequence[Bin], steps: int, cells: int, rows: int) -> Sketch:
    """A curve over the steps 1 to `steps` in so many cells; blanks where nothing was finite, no lines where there is nothing at all."""
    means = _means(bins, steps, cells)
    finite = [mean for mean in means if mean is not None]
    if not finite:
        return Sketch()
    low, high = min(finite), max(finite)
    # The topmost eighth stays free, so that curves in lines under each other do not touch.
    scale = (8 * rows - 2) / (high - low) if high > low else 0.0
    eighths = [0 if mean is None else 1 + round((mean - low) * scale) for mean in means]
    return Sketch(tuple(stacked(eighths, rows)), high, low)


def _means(bins: Sequence[Bin], steps: int, cells: int) -> list[float | None]:
    """The mean of the bins in each cell; with fewer steps than cells, the step in which the cell lies."""
    means: list[float | None] = []
    index = 0
    for cell in range(cells):
        first, last = math.floor(cell * steps / cells) + 1, math.ceil((cell + 1) * steps / cells)
        while index < len(bins) and bins[index].x < first:
            index += 1
        inside = [one.mean for one in takewhile(partial(_up_to, last), bins[index:])]
        means.append(sum(inside) / len(inside) if inside else None)
    return means


def _up_to(step: float, one: Bin) -> bool:
    return one.x <= step


# -- columns ----------------------------------------------------------------------------------------------------------


_ORDER = ("state", "name", "id", "recipe", "device", "strategy", "data", "step", "loss", "accuracy", "took", "age", "curve")
_ALWAYS = {"state": 13, "name": 15, "step": 7, "loss": 8, "accuracy": 8, "age": 6, "curve": 8}
_RIGHT = ("step", "loss", "accuracy", "took", "age")
# In the order in which they come as the table grows, with their cells, and the spare cells that they wait for.
_MORE = (("recipe", 13, 14), ("device", 8, 9), ("took", 8, 9), ("data", 11, 24), ("strategy", 8, 30), ("id", 28, 60))
_ID_MOST = 41
"""As long as the ids of the built-in recipes get; the spare cells that the column waits for are enough for it."""
_MANY_STEPS, _MANY_STEPS_CELLS = 1_000_000, 9
"""From so many on the column of the steps takes more cells; others leave them to the names."""
_DETACHED = 19
_CURVE_MOST = 32


def columns(width: int, *, detached: bool, longest_id: int, most_steps: int) -> list[Column]:
    """The columns of a table `width` cells wide, a cell between each two.

    Args:
        width: cells for all columns.
        detached: whether some run is "running, detached"; the whole words have a place only in a wide table.
        longest_id: cells of it: an id is told from others by its end.
        most_steps: of one run.
    """
    sizes = dict(_ALWAYS)
    if most_steps >= _MANY_STEPS:
        sizes["step"] = _MANY_STEPS_CELLS
    spare = width - sum(sizes.values()) - len(sizes) + 1
    for name, cells, wanted in _MORE:
        if spare < wanted:
            break
        if name == "id":
            cells = min(max(cells, longest_id), _ID_MOST)
        sizes[name] = cells
        spare -= cells + 1
        if name == "recipe" and detached and spare >= _DETACHED - sizes["state"]:
            spare -= _DETACHED - sizes["state"]
            sizes["state"] = _DETACHED
    curve = min(max(spare, 0) // 2, _CURVE_MOST - sizes["curve"])
    sizes["curve"] += curve
    sizes["name"] += spare - curve
    return [Column(name, name, sizes[name], name in _RIGHT) for name in _ORDER if name in sizes]
