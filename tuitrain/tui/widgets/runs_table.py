"""The table of runs: moved through, sorted, searched and marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.tui.browse import run_rows
from tuitrain.tui.browse.run_list import RunList
from tuitrain.tui.browse.run_rows import Column, RunRow
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.run_lines import GUTTER, RunLines, titles
from tuitrain.tui.widgets.strips import Row
from tuitrain.tui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.widgets import Input

_WHEEL_ROWS = 3
_READING = "reading the runs…"
_NONE = "No runs yet: n starts one."


class RunsTable(Pane, can_focus=True):
    """One line for each run of `list`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open"),
        Binding("space", "mark", "Mark"),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
        Binding("slash", "search", "Filter"),
        Binding("s", "sort", "Sort"),
        Binding("escape", "clear_search", "Clear filter"),
    ]

    class Opened(Message):
        """Enter was pressed on a run."""

    class Moved(Message):
        """Another run is selected, or other runs are in view."""

    def __init__(self) -> None:
        super().__init__(id="runs-table")
        self.first = True
        self.list = RunList()
        self.problem: str | None = None
        """Why the runs cannot be read."""
        self._curves: Mapping[str, str] = {}
        self._lines_of_runs = RunLines()
        self._editor: Input | None = None

    # -- what is shown ------------------------------------------------------------------------------------------------

    @property
    def searching(self) -> bool:
        """Whether the filter is being typed."""
        return self._editor is not None

    @property
    def empty(self) -> bool:
        """Whether there is no run at all."""
        return not self.list.all

    @property
    def curve_cells(self) -> int:
        """How wide the small curves are."""
        return self._columns(max(self.size.width - 4, 0))[-1].width

    def show(self, rows: Sequence[RunRow], problem: str | None = None) -> None:
        """Show another list, newest first."""
        self.problem = problem
        self.list.show(rows)
        self._changed()

    def redraw_own(self, current: Callable[[RunRow], RunRow]) -> None:
        """Redraw with the numbers that this app's run has now; `current` gives a row as it is now."""
        self.list.update_own(current)
        self.redraw()

    def show_curves(self, curves: Mapping[str, str]) -> None:
        """Show the small curves, by the keys of their runs."""
        self._curves = curves
        self.redraw()

    @property
    def _filtered(self) -> bool:
        return bool(self.list.sought) or self.searching

    def _changed(self) -> None:
        self.redraw()
        self.post_message(self.Moved())

    def _fit(self) -> None:
        """As many runs as the pane has rows: the headings take one, and the filter one."""
        self.list.page = max(self.body_height() - 1 - int(self._filtered), 1)
        self.list.go_to(self.list.cursor)
        self._changed()

    # -- keys and mouse -----------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What needs a run needs one; Esc first clears the filter."""
        if action in ("open", "mark"):
            return self.list.selected is not None and not self.searching
        if action == "clear_search":
            return self._filtered
        return not self.searching if action in ("search", "sort") else True

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.list.go_to(self.list.cursor + by)
        self._changed()

    def action_page(self, by: int) -> None:
        """Move by what one sees."""
        self.action_move(by * max(self.list.page - 1, 1))

    def action_open(self) -> None:
        """Open the selected run."""
        self.post_message(self.Opened())

    def action_mark(self) -> None:
        """Mark the run, or take its mark away, and go on to the next."""
        self.list.mark()
        self.action_move(1)

    def action_sort(self) -> None:
        """The next order."""
        self.list.next_sort()
        self._changed()

    def on_click(self, event: events.Click) -> None:
        """A click selects."""
        index = self.list.top + event.y - 2
        if 2 <= event.y < 2 + self.list.page and index < len(self.list.rows):
            self.focus()
            self.action_move(index - self.list.cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves the view."""
        self.list.scroll(_WHEEL_ROWS)
        self._changed()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the view."""
        self.list.scroll(-_WHEEL_ROWS)
        self._changed()

    # -- the filter ---------------------------------------------------------------------------------------------------

    def action_search(self) -> None:
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
        """Show all runs again."""
        self.list.sought = ""
        self._close_editor()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        event.stop()
        if self._editor is not None:
            self.list.sought = event.value.strip()
            self.list.arrange()
            self._changed()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter and go back to the list."""
        event.stop()
        self._close_editor()

    def on_focus(self) -> None:
        """Whoever leaves the filter by Tab or by mouse keeps it."""
        super().on_focus()
        if self.searching:
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
            editor.remove()
            self.focus()
        self.list.arrange()
        self._fit()
        self.refresh_bindings()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """How many runs there are, how many are marked, and the order."""
        palette = self.palette
        left = Row("Runs", self.title_style())
        if self.list.all:
            left.add(f" {len(self.list.all):,}", palette.dim)
        if self.list.marked:
            left.add(f" · ▣ {len(self.list.marked)} marked", palette.accent)
        return left, Row("s ", palette.key).add(self.list.sort, palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The headings, the runs in view, and the filter in the last line."""
        sentence = self._sentence()
        if sentence:
            style = self.palette.bad if self.problem else self.palette.dim
            lines = [Row(line, style).strip(width) for line in wrap(sentence, width)]
        else:
            columns, palette = self._columns(width), self.palette
            lines = [titles(columns, palette).strip(width)]
            lines += self._lines_of_runs.draw(self.list, columns, width, self._curves, palette, focus=self.has_focus)
        if self._filtered:
            lines = [*lines, *[Strip.blank(width)] * (height - 1 - len(lines))][: height - 1]
            lines.append(self._filter_line(width))
        return lines

    def _sentence(self) -> str | None:
        if self.problem:
            return self.problem
        if self.list.all is None:
            return _READING
        if not self.list.all:
            return _NONE
        return None if self.list.rows else f"No run holds “{self.list.sought}”. Esc shows all of them."

    def _columns(self, width: int) -> list[Column]:
        return run_rows.columns(max(width - GUTTER, 0), detached=self.list.detached)

    def _filter_line(self, width: int) -> Strip:
        palette = self.palette
        row = Row("/ ", palette.key)
        if not self.searching:
            row.add(self.list.sought, palette.strong)
        total = len(self.list.all or ())
        right = Row(f"{len(self.list.rows):,} of {total:,}", palette.text).add("  Esc ", palette.key).add("shows all", palette.dim)
        return row.pad_to(width - right.width).join(right).strip(width) if row.width + right.width < width else row.strip(width)
