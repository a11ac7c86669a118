"""A part of the steps: halved around a place, moved, and held at the newest step while a run goes on."""

from __future__ import annotations

import msgspec

LEAST = 8
"""Steps that the closest view still holds."""


class Span(msgspec.Struct, frozen=True):
    """The steps `low` to `high`; with `follows` it moves on with the newest step."""

    low: int
    high: int
    follows: bool = False

    @property
    def width(self) -> int:
        """From end to end, in steps."""
        return self.high - self.low


def zoomed(span: Span | None, newest: int, around: int | None) -> Span | None:
    """Half of what `span` shows (`None`: everything), around a step or at its newest end; the same where it cannot be closer."""
    low, high = (0, newest) if span is None else (span.low, newest if span.follows else min(span.high, newest))
    width = max((high - low) // 2, LEAST)
    if width >= high - low:
        return span
    return _placed(high - width if around is None else around - width // 2, width, newest)


def moved(span: Span, by: int, newest: int) -> Span:
    """Moved by so many steps, as far as there are steps."""
    return _placed(span.low + by, span.width, newest)


def holding(span: Span, step: int, newest: int) -> Span:
    """Moved so that `step` is inside, by a quarter at least."""
    quarter = max(span.width // 4, 1)
    if step < span.low:
        return moved(span, -max(quarter, span.low - step), newest)
    if step > span.high:
        return moved(span, max(quarter, step - span.high), newest)
    return span


def followed(span: Span, newest: int) -> Span:
    """Moved on when the newest step has left it, with a quarter of room so that this happens seldom; moved back to one that lies before it,
    as when the run goes on from a checkpoint."""
    if not span.follows or span.low <= newest <= span.high:
        return span
    if newest < span.low:
        return _placed(newest - span.width, span.width, newest)
    high = newest + span.width // 4
    return Span(high - span.width, high, follows=True)


def _placed(low: int, width: int, newest: int) -> Span:
    low = min(max(low, 0), max(newest - width, 0))
    return Span(low, low + width, follows=low + width >= newest)
