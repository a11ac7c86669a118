"""The doctor's report to scroll through: the conclusion, the counting, and the checks, one of which is selected."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.tui.examination import Examination
from tuitrain.tui.strips import PLAIN, Row, fit
from tuitrain.tui.widgets import doctor_lines as lines_of
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.scrolling import WHEEL_ROWS
from tuitrain.tui.wrap import wrap

if TYPE_CHECKING:
    from tuitrain.devices.doctor.model import Check, Report

_CALM = "This takes some seconds. A process of low priority asks torch what it sees; nothing waits for it, and a run trains on."

_Line = tuple[Strip, "int | None"]
"""A line, and which check it is about."""


class DoctorReport(Pane, can_focus=True):
    """One document. While the first examination is under way it says what is being looked at."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Select", key_display="↑↓"),
        Binding("k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
        Binding("enter", "open", "Details"),
        Binding("space", "open", show=False),
    ]

    class Moved(Message):
        """Another check is selected."""

    def __init__(self, examination: Examination) -> None:
        super().__init__(id="doctor-report")
        self.first = self.last = True
        self.beside = False
        """Whether the selected check is shown in full beside this pane, and not within it."""
        self._examination = examination
        self._shown_report: Report | None = None
        self._checks: tuple[Check, ...] = ()
        self._cursor = 0
        self._open = False
        self._top = 0
        self._follow = False
        """Whether the selected check must be brought into view."""
        self._document: list[_Line] = []

    @property
    def selected(self) -> Check | None:
        """The check under the cursor."""
        return self._checks[self._cursor] if self._checks else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing is selected before there is a report; beside the report the check is open at all times."""
        if action == "open":
            return bool(self._checks) and not self.beside
        return bool(self._checks) if action in ("move", "page") else True

    def action_move(self, by: int) -> None:
        """Select another check; above the first one lie the conclusion and the counting."""
        before = self._cursor
        self._cursor = min(max(self._cursor + by, 0), max(len(self._checks) - 1, 0))
        self._follow = True
        if self._cursor == before and by < 0:
            self._top, self._follow = 0, False
        self.redraw()
        self.post_message(self.Moved())

    def action_page(self, pages: int) -> None:
        """Select a check as many rows away as one sees."""
        self.action_move(pages * max(self.body_height() - 1, 1))

    def action_open(self) -> None:
        """Show or hide all that is known of the selected check."""
        self._open, self._follow = not self._open, True
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """A click selects; on the selected check it opens or closes it."""
        place = self._top + event.y - 1
        index = self._document[place][1] if 0 <= event.y - 1 < self.body_height() and place < len(self._document) else None
        if index is None:
            return
        if index == self._cursor and not self.beside:
            self.action_open()
        else:
            self.action_move(index - self._cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel scrolls."""
        self._scroll(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel scrolls."""
        self._scroll(-WHEEL_ROWS)

    def _scroll(self, rows: int) -> None:
        self._top += rows
        self.redraw()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """The title, and what goes on, or how much lies below."""
        left, right, examination = Row("Doctor", self.title_style()), Row(), self._examination
        if examination.busy:
            if self._shown_report is not None and examination.steps:
                room = max(self.size.width - left.width - 14, 0)
                right.add(fit(f"looking at: {examination.steps[-1]}", room).rstrip(), self.palette.primary)
            right.add(f"{examination.seconds:4.0f} s", self.palette.dim)
        elif self._checks:
            left.add(f"  {lines_of.summary(self._checks)}", self.palette.dim)
            right = self.more_below(len(self._document) - self._top - self.body_height())
        return left, right

    def content(self, width: int, height: int) -> list[Strip]:
        """Take in another report first, and lay it out: the heading tells of what lies below."""
        report = self._examination.report
        if report is not None and report is not self._shown_report:
            self._take(report)
        self._document = self._laid_out(max(width - 2 - 2 * self.PADDING, 1))
        self._place(self.body_height())
        return super().content(width, height)

    def _take(self, report: Report) -> None:
        """Select the check that was asked for, or the one that was selected where it is still there, or the worst."""
        before, asked = self.selected, self._examination.asked_for
        wanted = asked or (None if before is None else before.check)
        self._shown_report, self._checks = report, lines_of.worst_first(report.checks)
        self._cursor = next((place for place, check in enumerate(self._checks) if check.check == wanted), 0)
        if before is None:
            self._open = report.verdict != "ok"
        self._open, self._follow = self._open or asked is not None, asked is not None
        self.call_later(self.post_message, self.Moved())

    def body(self, width: int, height: int) -> list[Strip]:
        """The lines in view."""
        return [line for line, _ in self._document[self._top : self._top + height]]

    def _place(self, height: int) -> None:
        """Scroll so far that the selected check is in view, its first line above all."""
        checks = [index for _, index in self._document]
        if self._follow and self._cursor in checks:
            first = checks.index(self._cursor)
            last = first + checks.count(self._cursor)
            self._top = min(max(self._top, last - height), first)
            self._follow = False
        self._top = min(max(self._top, 0), max(len(checks) - height, 0))

    def _laid_out(self, width: int) -> list[_Line]:
        report, palette = self._shown_report, self.palette
        problem = self._examination.problem
        document: list[_Line] = [(Row(piece, palette.bad).strip(width), None) for piece in wrap(problem, width)] if problem else []
        if report is None:
            return [*document, *((line, None) for line in self._progress(width))]
        blank = Strip.blank(width, PLAIN)
        head = [*lines_of.conclusion(report, width, palette), blank, *lines_of.ladder(report, width, palette), blank]
        document += [(line, None) for line in head]
        titles = lines_of.title_width(self._checks, width)
        for index, check in enumerate(self._checks):
            here = index == self._cursor
            document.append((lines_of.check_line(check, titles, width, palette, here=here), index))
            if here and self._open and not self.beside:
                facts = [line for fact in lines_of.facts(check, width - 4, palette) for line in fact]
                document += [(Row("    ").join(Row.of(line)).strip(width), index) for line in facts]
        return document

    def _progress(self, width: int) -> list[Strip]:
        """What has been looked at, and what is being looked at."""
        palette, examination = self.palette, self._examination
        if not examination.busy:
            return [Row("e ", palette.key).add("examines again", palette.dim).strip(width)] if examination.problem else []
        done = examination.steps[:-1]
        lines = [Row("· ", palette.dim).add(step, palette.dim).strip(width) for step in done]
        if examination.steps:
            lines.append(Row("○ ", palette.primary).add(f"looking at: {examination.steps[-1]} …", palette.text).strip(width))
        return [*lines, Strip.blank(width, PLAIN), *(Row(piece, palette.dim).strip(width) for piece in wrap(_CALM, width))]
