"""The table of processes on the cards: sorted, searched, and where one's own can be ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.devices import Choice
from tuitrain.devices.ending import Endings
from tuitrain.tui.columns import Column, titles
from tuitrain.tui.gpus import process_rows
from tuitrain.tui.gpus.process_list import ProcessList
from tuitrain.tui.gpus.process_rows import ProcessRow
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.filtered_table import FilteredTable
from tuitrain.tui.wrap import wrap

_GUTTER = 2
_ROWS_LEAST = 5
_NONE = "No process is on a card."
_NOT_LISTED = "The driver does not say which processes are on the cards."


class GpuProcesses(FilteredTable[ProcessList], can_focus=True):
    """One line for each process of `list`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "end", "End"),
        Binding("tab", "screen.switch", "Cards"),
        Binding("escape", "clear_search", "Clear filter"),
    ]

    class Ending(Message):
        """The person wants the selected process to end."""

    def __init__(self) -> None:
        super().__init__(ProcessList(), id="gpu-processes")
        self.last = True
        self.endings = Endings()
        self._cards: Sequence[Choice] = ()

    # -- what is shown ------------------------------------------------------------------------------------------------

    def show(self, choices: Sequence[Choice], only: Choice | None) -> None:
        """Another sample; `only` is the card whose processes are shown, `None` for all."""
        before = self.list.selected is None
        self._cards = choices
        self.list.card = None if only is None or only.device is None else only.device.key
        self.list.show(process_rows.process_rows(choices))
        self.fit()
        if before != (self.list.selected is None):
            self.refresh_bindings()

    def lines_below(self) -> int:
        """Those of the sentence on memory that nobody holds."""
        return len(self._notes())

    def _notes(self) -> list[str]:
        """Memory that nobody holds, in lines that leave the processes five, or as many as there are."""
        if self.list.sought:
            return []
        shown = [row for row in self._cards if row.device is not None and self.list.card in (None, row.device.key)]
        room = self.body_height() - 1 - int(self.filtered) - min(len(self.list.rows), _ROWS_LEAST)
        return process_rows.unheld_lines(shown, self.size.width - 2 - 2 * self.PADDING - _GUTTER, max(room, 1))

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What needs a process needs one; Esc first clears the filter."""
        if action == "end":
            return self.list.selected is not None and not self.searching
        return self.filtered if action == "clear_search" else True

    def action_end(self) -> None:
        """End the selected process, after a question."""
        self.post_message(self.Ending())

    def sort(self, *, turn: bool) -> None:
        """The next order, or the other way round."""
        (self.list.turn if turn else self.list.next_sort)()
        self.redraw()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """How many there are, whose they are, and the order."""
        palette, shown = self.palette, self.list
        left = Row("Processes", self.title_style()).add(f" {len(shown.rows)}", palette.dim)
        whose = next((row.name for row in self._cards if row.device is not None and row.device.key == shown.card), "all cards")
        right = Row("a ", palette.key).add(whose, palette.dim).add(" · ", palette.faint)
        return left, right.add("s S ", palette.key).add(f"{shown.sort}{', reversed' if shown.reverse else ''}", palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The headings, the processes in view, memory that nobody holds, and the filter in the last line."""
        palette = self.palette
        columns = process_rows.columns(width - _GUTTER)
        lines = [titles(columns, _GUTTER, self.palette, sort=self.list.sort).strip(width)]
        if self.list.rows:
            now = time.time()
            lines += [self._line(row, columns, width, now, index) for index, row in enumerate(self.list.in_view, self.list.top)]
        else:
            lines = [Row(line, palette.dim).strip(width) for line in wrap(self._sentence(), width)]
        lines += [Row(" " * _GUTTER).add(note, palette.dim).strip(width) for note in self._notes()]
        return self.with_filter(lines, width, height)

    def _sentence(self) -> str:
        if self.list.sought:
            return f"No process holds “{self.list.sought}”. Esc shows all of them."
        known = [row.device for row in self._cards if row.device is not None and self.list.card in (None, row.device.key)]
        if known and all(card.processes is None for card in known):
            return _NOT_LISTED
        return _NONE if self.list.card is None else "No process is on this card."

    def _line(self, row: ProcessRow, columns: Sequence[Column], width: int, now: float, index: int) -> Strip:
        palette, here = self.palette, index == self.list.cursor
        line = Row("▸ " if here else "  ", palette.cursor)
        said = self.endings.words(row.process)
        for number, column in enumerate(columns):
            line.add(" " if number else "")
            text, style = process_rows.cell(row, column.name, now), self._style(row, column.name)
            if said and column.name == "command":
                line.add(f"{said} · ", palette.warn)
            room = max(min(column.width, width - line.width), 0)
            (line.right if column.right and len(text) <= room else line.left)(text, room, style)
        strip = line.strip(width)
        return strip.apply_style(palette.track) if here and self.has_focus else strip

    def _style(self, row: ProcessRow, column: str) -> Style:
        palette = self.palette
        if row.process.foreign:
            return palette.dim
        if row.process.ours and column in ("card", "pid", "user"):
            return palette.accent
        return palette.text if column in ("card", "pid", "memory", "gpu", "command", "user", "cpu", "ram") else palette.dim
