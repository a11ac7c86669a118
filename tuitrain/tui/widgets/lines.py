"""Widgets that are a list of lines and repaint only those that changed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual import events
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import Worker

from tuitrain.tui.look import Palette, palette_in
from tuitrain.tui.selected import Selected
from tuitrain.tui.strips import PLAIN, Row, reversed_in
from tuitrain.tui.toasts import tell_of_surprise


class Lines(Widget):
    """A widget drawn from `content`; `redraw` compares with what it shows and repaints the lines that differ."""

    DEFAULT_CSS = "Lines { height: 1; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.text_selected: Selected | None = None
        """Text that the mouse was drawn over."""
        self._pressed: Offset | None = None
        self._shown: list[Strip] = []
        self._shown_size = (0, 0)

    @property
    def palette(self) -> Palette:
        """The styles of the theme in use."""
        return palette_in(self.app)

    def content(self, width: int, height: int) -> list[Strip]:
        """The lines to show, at most `height` of them and each `width` cells; missing ones are blank."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Compute the lines again and repaint what changed; costs nothing on the terminal when nothing did."""
        size = self.size  # which Textual looks up in the layout each time
        if not self.is_mounted or not size:
            # A hidden widget has no size, and may come back with the one that it had.
            self._shown_size = (0, 0)
            return
        if self._shown_size != size:
            self.refresh()
            return
        new = self._lines(size)
        changed = [y for y, (before, after) in enumerate(zip(self._shown, new, strict=True)) if before != after]
        self._shown = new
        if changed:
            self.refresh(*(Region(0, y, size.width, 1) for y in changed))

    def redraw_all(self) -> None:
        """Repaint every cell, for a new theme."""
        self._shown_size = (0, 0)
        self.refresh()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What the widget's own workers did not expect is said."""
        tell_of_surprise(self, event)

    def render_line(self, y: int) -> Strip:
        """Textual asks for line `y`."""
        size = self.size
        if self._shown_size != size:
            self._shown, self._shown_size = self._lines(size), size
        if y >= len(self._shown):
            return Strip.blank(size.width, self.visual_style.rich_style)
        line = self._shown[y]
        if self.text_selected is not None:
            line = reversed_in(line, self.text_selected.still_at(y, line, self.selectable(y)))
        return line.apply_style(self.visual_style.rich_style)

    # -- selecting text -----------------------------------------------------------------------------------------------

    def selectable(self, y: int) -> range:
        """The columns of line `y` that have text to copy."""
        return range(self.size.width)

    def select_text(self, selected: Selected | None) -> None:
        """Show that this is selected, or nothing any more."""
        if selected != self.text_selected:
            self.text_selected = selected
            self.refresh()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """A selection may begin here; it stays in these lines wherever the mouse goes."""
        self.select_text(None)
        # A field in these lines has captured it first, and selects by itself.
        if event.button == 1 and self.app.mouse_captured in (None, self):
            self._pressed = event.offset
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """It goes to the mouse, or as far as the lines go that one sees."""
        begun, seen = self._pressed, Size(self.size.width, len(self._shown))
        if begun is None or not seen or (self.text_selected is None and event.offset == begun):
            return
        begin, end = seen.clamp_offset(begun), seen.clamp_offset(event.offset)
        self.select_text(Selected.between(begin, end, self._shown, self.selectable))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """It ends here."""
        self.release_mouse()

    def on_hide(self) -> None:
        """Lines that do not show do not hear that the button is let go."""
        self.release_mouse()

    def on_mouse_release(self, event: events.MouseRelease) -> None:
        """The mouse is others' again."""
        self._pressed = None

    def check_message_enabled(self, message: Message) -> bool:
        """Where text was selected, letting the button go is no click."""
        return not (isinstance(message, events.Click) and self.text_selected is not None) and super().check_message_enabled(message)

    def _lines(self, size: Size) -> list[Strip]:
        width, height = size
        lines = [line.adjust_cell_length(width, PLAIN) for line in self.content(width, height)[:height]]
        return lines + [Strip.blank(width, PLAIN)] * (height - len(lines))


class Pane(Lines):
    """Lines in a frame that shares its edges with the panes above and below: a rule with a title, edges, and a bottom for the last one.

    The pane's height counts the rule, and the bottom edge where `last` is set.
    """

    PADDING = 1
    """Blank columns between the edges and what stands inside of them."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.first = False
        self.last = False

    def body(self, width: int, height: int) -> list[Strip]:
        """What stands inside of the frame."""
        raise NotImplementedError

    def heading(self) -> tuple[Row, Row]:
        """The title and what stands at the right end of the rule."""
        raise NotImplementedError

    def selectable(self, y: int) -> range:
        """What stands inside of the frame, and the title."""
        width, height = self.size
        return range(0) if self.last and y == height - 1 else range(1 + self.PADDING, max(width - 1 - self.PADDING, 0))

    def body_height(self) -> int:
        """Rows inside of the frame."""
        return max(self.size.height - 1 - int(self.last), 0)

    def place(self, *, first: bool, last: bool) -> None:
        """Say where in its column the pane stands."""
        if (first, last) != (self.first, self.last):
            self.first, self.last = first, last
            self.redraw()

    def more_below(self, lines: int) -> Row:
        """What the end of the rule says of lines below those in view; nothing where there are none."""
        return Row("↓ ", self.palette.key).add(f"{lines} more", self.palette.dim) if lines > 0 else Row()

    def title_style(self) -> Style:
        """The title's style, stronger while the pane has the focus."""
        return self.palette.title_focus if self.has_focus else self.palette.title

    def content(self, width: int, height: int) -> list[Strip]:
        """The frame with the body in it."""
        frame = self.palette.frame
        inner = width - 2 - 2 * self.PADDING
        if inner < 1:
            return []
        lines = [self._rule(width)]
        room = height - 1 - int(self.last)
        body = self.body(inner, room)[:room] if room > 0 else []
        body += [Strip.blank(inner, PLAIN)] * (room - len(body))
        gap = " " * self.PADDING
        edge = Row(f"│{gap}", frame).segments
        end = Row(f"{gap}│", frame).segments
        lines += [Strip([*edge, *line.adjust_cell_length(inner, PLAIN), *end], width) for line in body]
        if self.last:
            lines.append(Row(f"╰{'─' * (width - 2)}╯", frame).strip(width))
        return lines

    def on_focus(self) -> None:
        """Show that the keys go here."""
        self.redraw()

    def on_blur(self) -> None:
        """Show that they no longer do."""
        self.redraw()

    def _rule(self, width: int) -> Strip:
        frame = self.palette.frame
        left, right = self.heading()
        corners = "╭╮" if self.first else "├┤"
        row = Row(corners[0], frame)
        room = width - 2
        if left.width and room > 4:
            title = Row(" ", frame).join(left).add(" ", frame)
            shown = title.strip(min(title.width, room))
            row.segments += shown
            row.width += shown.cell_length
        tail = Row(" ", frame).join(right).add(" ", frame).add("─", frame) if right.width else Row()
        if row.width + tail.width + 2 > width:
            tail = Row()
        row.add("─" * (width - 1 - row.width - tail.width), frame).join(tail)
        return row.add(corners[1], frame).strip(width)


def stack(column: Sequence[tuple[Pane, int]]) -> None:
    """Put panes under each other, each with so many rows; one without any is hidden."""
    shown = [pane for pane, rows in column if rows > 0]
    for pane, rows in column:
        pane.display = rows > 0
        pane.styles.height = max(rows, 1)
        pane.place(first=pane is shown[0], last=pane is shown[-1])
