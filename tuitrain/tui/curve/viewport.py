"""What one sees of a run's steps and which of them one reads, and where the keys lead from there."""

from __future__ import annotations

import msgspec

from tuitrain.tui.curve import zoom
from tuitrain.tui.curve.axes import Axis, cell, step_at
from tuitrain.tui.curve.zoom import Span


class Viewport(msgspec.Struct, frozen=True):
    """The part of the steps that is shown, `None` for all of them, and the step that is read, `None` without a cursor.

    `newest` is the run's newest step throughout.
    """

    span: Span | None = None
    cursor: int | None = None

    def following(self, newest: int) -> Viewport:
        """Gone on with the run, unless the cursor would be left behind; steps that a run has lost cannot be read."""
        cursor = newest or None if self.cursor is not None and self.cursor > newest else self.cursor
        span = None if self.span is None else zoom.followed(self.span, newest)
        stays = span is not None and cursor is not None and span.low > cursor
        return Viewport(self.span if stays else span, cursor)

    def reading(self, step: int, newest: int) -> Viewport:
        """The cursor on a step that there is, and in sight."""
        cursor = min(max(step, 1), newest)
        return Viewport(None if self.span is None else zoom.holding(self.span, cursor, newest), cursor)

    def moved(self, by: int, newest: int, steps: Axis | None, columns: int) -> Viewport:
        """The cursor by columns, at least by a step; the first time at the newest step that is shown.

        Args:
            by: to the right, or to the left where it is negative.
            steps: the horizontal axis of the picture; `None` while there is none.
            columns: of its canvas.
        """
        if self.cursor is None or steps is None:
            return self.reading(min(newest, self.span.high) if self.span else newest, newest)
        target = round(step_at(cell(self.cursor, steps, columns) + by, steps, columns))
        return self.reading(target if (target - self.cursor) * by > 0 else self.cursor + (1 if by > 0 else -1), newest)

    def put_away(self) -> Viewport:
        """No cursor."""
        return Viewport(self.span)

    def zoomed(self, newest: int) -> Viewport:
        """By two, around the cursor or at the newest end."""
        return self._showing(zoom.zoomed(self.span, newest, self.cursor), newest)

    def whole(self) -> Viewport:
        """Everything."""
        return Viewport(None, self.cursor)

    def panned(self, by: int, newest: int) -> Viewport:
        """By so many halves of what is shown."""
        return self if self.span is None else self._showing(zoom.moved(self.span, by * max(self.span.width // 2, 1), newest), newest)

    def _showing(self, span: Span | None, newest: int) -> Viewport:
        """Another part of the steps, with the cursor in it."""
        if span is None or span == self.span or self.cursor is None:
            return Viewport(span, self.cursor)
        return Viewport(span, min(max(self.cursor, span.low, 1), span.high, newest))
