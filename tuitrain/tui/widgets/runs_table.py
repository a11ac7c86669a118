"""The table of runs: moved through, sorted, searched and marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.runs.settings import Settings
from tuitrain.tui.browse import run_rows
from tuitrain.tui.browse.run_list import RunList
from tuitrain.tui.browse.run_rows import RunRow
from tuitrain.tui.columns import Column, titles
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.filtered_table import FilteredTable
from tuitrain.tui.widgets.run_lines import GUTTER, RunLines
from tuitrain.tui.wrap import wrap

_READING = "reading the runs…"
_READING_SETTINGS = "reading what the runs are set to…"
_NONE = "No runs yet: n starts one."


class RunsTable(FilteredTable[RunList], can_focus=True):
    """One line for each run of `list`.

    Args:
        runs: the list, with the marks, filter and order that it was left with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open"),
        Binding("space", "mark", "Mark"),
        Binding("slash", "search", "Filter"),
        Binding("s", "sort", "Sort"),
        Binding("S", "turn", "Reverse"),
        Binding("escape", "clear_search", "Clear filter"),
    ]

    class Opened(Message):
        """Enter was pressed on a run, or it was clicked on twice."""

    class Moved(Message):
        """Another run is selected, or other runs are in view."""

    def __init__(self, runs: RunList) -> None:
        super().__init__(runs, id="runs-table")
        self.first = True
        self.problem: str | None = None
        """Why the runs cannot be read."""
        self._unread = 0
        self._curves: Mapping[str, str] = {}
        self._changes: dict[str, tuple[str, ...]] = {}
        self._lines_of_runs = RunLines()

    # -- what is shown ------------------------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether there is no run at all."""
        return not self.list.all

    @property
    def curve_cells(self) -> int:
        """How wide the small curves are."""
        return self._columns(max(self.size.width - 4, 0))[-1].width

    def show(self, rows: Sequence[RunRow], problem: str | None = None, unread: int = 0) -> None:
        """Show another list, newest first; `unread` more are counted and not yet in it."""
        self.problem, self._unread = problem, unread
        self.list.show(rows)
        self.moved()

    def know(self, settings: Mapping[str, Settings]) -> None:
        """What the runs are set to, for a filter that names a setting."""
        if settings != self.list.settings:
            self.list.know(settings)
            self.moved()

    def redraw_own(self, current: Callable[[RunRow], RunRow]) -> None:
        """Redraw with the numbers that this app's run has now; `current` gives a row as it is now."""
        self.list.update_own(current)
        self.redraw()

    def show_read(self, curves: Mapping[str, str], changes: Mapping[str, tuple[str, ...]]) -> None:
        """Show the small curves, and in what the runs in view differ from their recipes, by the keys of the runs."""
        self._curves = curves
        self._changes |= changes
        self.redraw()

    def moved(self) -> None:
        """Another run is selected, or other runs are in view."""
        super().moved()
        self.post_message(self.Moved())

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What needs a run needs one; Esc first clears the filter."""
        if action in ("open", "mark"):
            return self.list.selected is not None and not self.searching
        if action == "clear_search":
            return self.filtered
        if action in ("search", "sort", "turn"):
            # Also before the first reading: whoever types fast has the filter ready for it.
            awaited = self.list.all is None and self.problem is None
            return (awaited or not self.empty) and not self.searching
        return True

    def action_open(self) -> None:
        """Open the selected run."""
        self.post_message(self.Opened())

    def double_clicked(self) -> None:
        """Open the run."""
        self.action_open()

    def action_mark(self) -> None:
        """Mark the run, or take its mark away, and go on to the next."""
        self.list.mark()
        self.action_move(1)

    def action_sort(self) -> None:
        """The next order."""
        self.list.next_sort()
        self.moved()

    def action_turn(self) -> None:
        """The same order, the other way round."""
        self.list.turn()
        self.moved()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """How many runs there are, how many are marked, the order, and the filter's key, for which the keys below may have no room."""
        palette = self.palette
        left = Row("Runs", self.title_style())
        if self.list.all:
            left.add(f" {len(self.list.all) + self._unread:,}", palette.dim)
        if self.list.marked:
            left.add(f" · ▣ {len(self.list.marked)} marked", palette.accent)
        right = Row() if self.empty or self.filtered else Row("/ ", palette.key).add("filter  ", palette.dim)
        return left, right.add("s S ", palette.key).add(f"{self.list.sort}{', reversed' if self.list.reverse else ''}", palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The headings, the runs in view, and the filter in the last line."""
        sentence = self._sentence()
        if sentence:
            style = self.palette.bad if self.problem else self.palette.dim
            lines = [Row(line, style).strip(width) for line in wrap(sentence, width)]
        else:
            columns, palette = self._columns(width), self.palette
            lines = [titles(columns, GUTTER, palette).strip(width)]
            lines += self._lines_of_runs.draw(self.list, columns, width, self._curves, self._changes, palette, focus=self.has_focus)
        return self.with_filter(lines, width, height)

    def _sentence(self) -> str | None:
        if self.problem:
            return self.problem
        if self.list.all is None:
            return _READING
        if not self.list.all:
            return _NONE
        if self.list.rows:
            return None
        sought = self.list.sought
        if self.list.settings is None:
            return _READING_SETTINGS
        return f"No run holds “{sought}”.{run_rows.no_such_field(sought)} Esc shows all of them."

    def _columns(self, width: int) -> list[Column]:
        runs = self.list
        return run_rows.columns(max(width - GUTTER, 0), detached=runs.detached, longest_id=runs.longest_id, most_steps=runs.most_steps)
