"""Panes with more lines than they have room for."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from tuitrain.tui.widgets.lines import Pane

WHEEL_ROWS = 3


class ScrollingPane(Pane):
    """A pane that shows its lines from `_top` on. A subclass says how many there are, and calls `stay_inside` when that changes."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self._top = 0

    def line_count(self) -> int:
        """How many lines there are to scroll through."""
        raise NotImplementedError

    def room(self) -> int:
        """How many of them one sees."""
        return self.body_height()

    def page_rows(self) -> int:
        """How far a page scrolls: one line stays in view."""
        return max(self.room() - 1, 1)

    @property
    def scrolls(self) -> bool:
        """Whether there are more than one sees."""
        return self.line_count() > self.room()

    def move(self, by: int) -> None:
        """Scroll by lines."""
        before = self._top
        self._top += by
        self.stay_inside()
        if self._top != before:
            self.redraw()

    def page(self, by: int) -> None:
        """Scroll by what one sees."""
        self.move(by * self.page_rows())

    def jump(self, last: bool) -> None:
        """To the beginning or the end."""
        self.move(self.line_count() if last else -self.line_count())

    def stay_inside(self) -> None:
        """Scroll no further than there are lines."""
        self._top = min(max(self._top, 0), max(self.line_count() - self.room(), 0))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel."""
        event.stop()
        self.move(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel."""
        event.stop()
        self.move(-WHEEL_ROWS)


class ScrollingView(ScrollingPane, can_focus=True):
    """One that has the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll(-1)", "Scroll", key_display="↑↓"),
        Binding("k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home", "jump(False)", show=False),
        Binding("end", "jump(True)", show=False),
    ]

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.move(lines)

    def action_page(self, pages: int) -> None:
        """Scroll by what one sees."""
        self.page(pages)

    def action_jump(self, last: bool) -> None:
        """To the beginning or the end."""
        self.jump(last)
