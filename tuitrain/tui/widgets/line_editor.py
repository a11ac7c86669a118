"""A text field, laid over a line of a widget for as long as its text is typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.geometry import Region
from textual.widget import Widget

from tuitrain.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from textual.suggester import Suggester

    from tuitrain.tui.widgets.field import Field


class LineEditor:
    """A text field over a line of `host`, which gets its messages and the keys that it leaves.

    Args:
        host: the widget.
        place: gives the field's column, row and width in cells, inside of the host.
    """

    def __init__(self, host: Lines, place: Callable[[], tuple[int, int, int]]) -> None:
        self._host = host
        self._place = place
        self._input: Field | None = None

    @property
    def active(self) -> bool:
        """Whether the text is being typed."""
        return self._input is not None

    @property
    def text(self) -> str:
        """What is typed so far."""
        return "" if self._input is None else self._input.value

    def owns(self, widget: Widget) -> bool:
        """Whether `widget` is the field; a message of one that was closed may still be on its way."""
        return widget is self._input

    def open(self, text: str, wanted: str = "", suggester: Suggester | None = None) -> None:
        """Give the keys to a field that holds `text`, and while it is empty says what is `wanted`; the suggester knows how texts go on."""
        from tuitrain.tui.widgets.field import Field  # 20 ms that the first frame does not need

        if self._input is not None:
            return
        self._input = Field(text, wanted, suggester=suggester, compact=True, select_on_focus=False, classes="editor")
        # Over SSH nothing is sent while nobody types.
        self._input.cursor_blink = False
        self.place()
        self._host.mount(self._input)
        self._host.screen.set_focus(self._input)
        self._input.cursor_position = len(text)
        self._host.refresh_bindings()
        self._host.redraw()

    def complete(self) -> bool:
        """Take the rest of the text that is offered; whether there was any."""
        return self._input is not None and self._input.complete()

    def place(self) -> None:
        """Lay the field where it belongs, after the host has another size or words."""
        if self._input is not None:
            column, row, width = self._place()
            self._input.styles.offset = (column, row)
            self._input.styles.width = width
            # A field shows the beginning of its text until the cursor moves.
            self._host.call_after_refresh(self._show_cursor)

    def close(self) -> None:
        """Away with the field. Who gets the keys then is the host's to say."""
        field, self._input = self._input, None
        if field is not None:
            field.remove()
            self._host.refresh_bindings()
            self._host.redraw()

    def _show_cursor(self) -> None:
        field = self._input
        if field is not None:
            column = field.cursor_screen_offset.x - field.content_region.x + field.scroll_offset.x
            field.scroll_to_region(Region(column, 0, 1, 1), force=True, animate=False)
