"""The table of processes on the cards: sorted, searched, and where one's own can be ended."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.devices import Choice
from tuitrain.tui.gpus import process_rows
from tuitrain.tui.gpus.ending import Endings
from tuitrain.tui.gpus.process_list import ProcessList
from tuitrain.tui.gpus.process_rows import Column, ProcessRow
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row
from tuitrain.tui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.widgets import Input

_GUTTER = 2
_WHEEL_ROWS = 3
_NONE = "No process is on a card."
_NOT_LISTED = "The driver does not say which processes are on the cards."


class GpuProcesses(Pane, can_focus=True):
    """One line for each process of `list`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "end", "End"),
        Binding("tab", "screen.switch", "Cards"),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
        Binding("escape", "clear_search", "Clear filter"),
    ]

    class Ending(Message):
        """The person wants the selected process to end."""

    def __init__(self) -> None:
        super().__init__(id="gpu-processes")
        self.last = True
        self.list = ProcessList()
        self.endings = Endings()
        self._rows: Sequence[Choice] = ()
        self._editor: Input | None = None

    # -- what is shown ------------------------------------------------------------------------------------------------

    @property
    def searching(self) -> bool:
        """Whether the filter is being typed."""
        return self._editor is not None

    @property
    def filtered(self) -> bool:
        """Whether the filter has a line."""
        return bool(self.list.sought) or self.searching

    def show(self, choices: Sequence[Choice], only: Choice | None) -> None:
        """Another sample; `only` is the card whose processes are shown, `None` for all."""
        before = self.list.selected is None
        self._rows = choices
        self.list.card = None if only is None or only.device is None else only.device.key
        self.list.show(process_rows.process_rows(choices))
        self._fit()
        if before != (self.list.selected is None):
            self.refresh_bindings()

    def _fit(self) -> None:
        """As many processes as the pane has lines: the headings take one, the filter one, and each unheld memory one."""
        self.list.page = max(self.body_height() - 1 - int(self.filtered) - len(self._notes()), 1)
        self.list.go_to(self.list.cursor)
        self.redraw()

    def _notes(self) -> list[str]:
        """Memory that nobody holds, of as many cards as leave the processes five lines."""
        if self.list.sought:
            return []
        shown = [row for row in self._rows if row.device is not None and self.list.card in (None, row.device.key)]
        return process_rows.unheld_words(shown)[: max(self.body_height() - 1 - int(self.filtered) - 5, 1)]

    # -- keys and mouse -----------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What needs a process needs one; Esc first clears the filter."""
        if action == "end":
            return self.list.selected is not None and not self.searching
        return self.filtered if action == "clear_search" else True

    def action_end(self) -> None:
        """End the selected process, after a question."""
        self.post_message(self.Ending())

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.list.go_to(self.list.cursor + by)
        self.redraw()

    def action_page(self, by: int) -> None:
        """Move by what one sees."""
        self.action_move(by * max(self.list.page - 1, 1))

    def sort(self, *, turn: bool) -> None:
        """The next order, or the other way round."""
        (self.list.turn if turn else self.list.next_sort)()
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """A click selects."""
        index = self.list.top + event.y - 2
        if 2 <= event.y < 2 + self.list.page and index < len(self.list.rows):
            self.focus()
            self.action_move(index - self.list.cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves the view."""
        self.list.scroll(_WHEEL_ROWS)
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the view."""
        self.list.scroll(-_WHEEL_ROWS)
        self.redraw()

    # -- the filter ---------------------------------------------------------------------------------------------------

    def search(self) -> None:
        """Type a filter."""
        from textual.widgets import Input

        editor = Input(self.list.sought, compact=True, select_on_focus=False, id="editor")
        self._editor = editor
        self._place_editor()
        self.mount(editor)
        self.screen.set_focus(editor)
        editor.cursor_position = len(self.list.sought)
        self._fit()
        self.refresh_bindings()

    def action_clear_search(self) -> None:
        """Show all processes again."""
        self.list.sought = ""
        self._close_editor()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        event.stop()
        if self._editor is not None:
            self.list.sought = event.value.strip()
            self.list.arrange()
            self._fit()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter and go back to the list."""
        event.stop()
        self._close_editor()
        self.focus()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """Whoever leaves the filter by Tab or by mouse keeps it."""
        if event.widget is self._editor:
            self._close_editor()

    def on_resize(self, event: events.Resize) -> None:
        """The filter stays in the last line, and the selection in view."""
        self._place_editor()
        self._fit()

    def _place_editor(self) -> None:
        if self._editor is not None:
            self._editor.styles.offset = (4, max(self.size.height - 1 - int(self.last), 1))
            self._editor.styles.width = max(self.size.width // 2 - 4, 8)

    def _close_editor(self) -> None:
        editor, self._editor = self._editor, None
        if editor is not None:
            if editor.has_focus:
                self.focus()
            editor.remove()
        self.list.arrange()
        self._fit()
        self.refresh_bindings()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """How many there are, whose they are, and the order."""
        palette, runs = self.palette, self.list
        left = Row("Processes", self.title_style()).add(f" {len(runs.rows)}", palette.dim)
        whose = next((row.name for row in self._rows if row.device is not None and row.device.key == runs.card), "all cards")
        right = Row("a ", palette.key).add(whose, palette.dim).add(" · ", palette.faint)
        return left, right.add("s S ", palette.key).add(f"{runs.sort}{', reversed' if runs.reverse else ''}", palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The headings, the processes in view, memory that nobody holds, and the filter in the last line."""
        palette = self.palette
        columns = process_rows.columns(width - _GUTTER)
        lines = [self._titles(columns, width)]
        if self.list.rows:
            now = time.time()
            lines += [self._line(row, columns, width, now, index) for index, row in enumerate(self.list.in_view, self.list.top)]
        else:
            lines = [Row(line, palette.dim).strip(width) for line in wrap(self._sentence(), width)]
        lines += [Row(" " * _GUTTER).add(note, palette.dim).strip(width) for note in self._notes()]
        if self.filtered:
            lines = [*lines, *[Strip.blank(width)] * (height - 1 - len(lines))][: height - 1]
            lines.append(self._filter_line(width))
        return lines

    def _sentence(self) -> str:
        if self.list.sought:
            return f"No process holds “{self.list.sought}”. Esc shows all of them."
        known = [row.device for row in self._rows if row.device is not None and self.list.card in (None, row.device.key)]
        if known and all(card.processes is None for card in known):
            return _NOT_LISTED
        return _NONE if self.list.card is None else "No process is on this card."

    def _titles(self, columns: Sequence[Column], width: int) -> Strip:
        row = Row(" " * _GUTTER)
        for number, column in enumerate(columns):
            style = self.palette.text if column.name == self.list.sort else self.palette.dim
            row.add(" " if number else "")
            (row.right if column.right else row.left)(column.title, column.width, style)
        return row.strip(width)

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
        if row.process.pid == os.getpid() and column in ("card", "pid", "user"):
            return palette.accent
        return palette.text if column in ("card", "pid", "memory", "command", "user", "cpu", "ram") else palette.dim

    def _filter_line(self, width: int) -> Strip:
        palette = self.palette
        row = Row("/ ", palette.key)
        if not self.searching:
            row.add(self.list.sought, palette.strong)
        right = (
            Row(f"{len(self.list.rows):,} of {len(self.list.all):,}", palette.text).add("  Esc ", palette.key).add("shows all", palette.dim)
        )
        return row.pad_to(width - right.width).join(right).strip(width) if row.width + right.width < width else row.strip(width)
