"""What every table has that one moves through and filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip

from tuitrain.tui.row_list import RowList
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.line_editor import LineEditor
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.scrolling import WHEEL_ROWS

if TYPE_CHECKING:
    from textual.widgets import Input


ListT = TypeVar("ListT", bound=RowList[Any])


class FilteredTable(Pane, Generic[ListT]):
    """Headings, a line for each row of `list` in view, and while there is a filter its words in the last line.

    Args:
        rows: the list.
        id: the widget's.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
    ]

    def __init__(self, rows: ListT, *, id: str) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.list = rows
        self._editor = LineEditor(self, self._editor_place)

    @property
    def searching(self) -> bool:
        """Whether the filter is being typed."""
        return self._editor.active

    @property
    def filtered(self) -> bool:
        """Whether the filter has a line."""
        return bool(self.list.sought) or self.searching

    def lines_below(self) -> int:
        """Lines that stand between the rows and the filter."""
        return 0

    def moved(self) -> None:
        """Another row is selected, or other rows are in view."""
        self.redraw()

    def fit(self) -> None:
        """As many rows as the pane has lines: the headings take one, and the filter one."""
        self.list.page = max(self.body_height() - 1 - int(self.filtered) - self.lines_below(), 1)
        self.list.go_to(self.list.cursor)
        self.moved()

    # -- keys and mouse -----------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.list.go_to(self.list.cursor + by)
        self.moved()

    def action_page(self, by: int) -> None:
        """Move by what one sees."""
        self.action_move(by * max(self.list.page - 1, 1))

    def on_click(self, event: events.Click) -> None:
        """A click selects, and a double click opens."""
        index = self.list.top + event.y - 2
        if 2 <= event.y < 2 + self.list.page and index < len(self.list.rows):
            self.focus()
            self.action_move(index - self.list.cursor)
            if event.chain == 2:
                self.double_clicked()

    def double_clicked(self) -> None:
        """What a double click on the selected row does: nothing where rows do not open."""

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves the view."""
        self.list.scroll(WHEEL_ROWS)
        self.moved()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the view."""
        self.list.scroll(-WHEEL_ROWS)
        self.moved()

    # -- the filter ---------------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Type a filter."""
        self._editor.open(self.list.sought)
        self.fit()

    def action_clear_search(self) -> None:
        """Show all rows again."""
        self.list.sought = ""
        if self.searching:
            self.focus()
        self._close_editor()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        event.stop()
        if self._editor.owns(event.input):
            self.list.sought = event.value.strip()
            self.list.arrange()
            self.fit()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter and go back to the list."""
        event.stop()
        self._close_editor()
        self.focus()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """Whoever leaves the filter by Tab or by mouse keeps it; a terminal that loses the focus gives it back."""
        if self._editor.owns(event.widget) and self.screen.focused is not None:
            self._close_editor()

    def on_resize(self, event: events.Resize) -> None:
        """The filter stays in the last line, and the selection in view."""
        self._editor.place()
        self.fit()

    def _editor_place(self) -> tuple[int, int, int]:
        return 4, max(self.size.height - 1 - int(self.last), 1), max(self.size.width // 2 - 4, 8)

    def _close_editor(self) -> None:
        self._editor.close()
        self.list.arrange()
        self.fit()
        self.refresh_bindings()

    def with_filter(self, lines: list[Strip], width: int, height: int) -> list[Strip]:
        """`lines` of the body, and in its last one the filter with what it leaves, where there is one."""
        if not self.filtered:
            return lines
        palette = self.palette
        row = Row("/ ", palette.key)
        if not self.searching:
            row.add(self.list.sought, palette.strong)
        total = len(self.list.all or ())
        key, does = ("Enter", "keeps it") if self.searching else ("Esc", "shows all")
        right = Row(f"{len(self.list.rows):,} of {total:,}", palette.text).add(f"  {key} ", palette.key).add(does, palette.dim)
        if row.width + right.width < width:
            row.pad_to(width - right.width).join(right)
        blank = [Strip.blank(width)] * (height - 1 - len(lines))
        return [*[*lines, *blank][: height - 1], row.strip(width)]
