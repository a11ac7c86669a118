"""What a screen asks of its widgets when some cells change: the lines under these cells, and nothing else.

Textual's own compositor has every widget of the screen drawn in full, also for one digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from textual._compositor import Compositor, CompositorUpdate
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

Piece = tuple[int, int, Strip]
"""Column and row of the first cell, and the cells."""
_Span = tuple[int, int, int]
"""Row, first column, and the column behind the last one."""


class Pieces(CompositorUpdate):
    """An update of pieces of lines.

    Args:
        pieces: they do not overlap.
    """

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces

    def render_segments(self, console: Console) -> str:
        """All of them as terminal output, whatever it shows."""
        return "".join(f"\x1b[{y + 1};{x + 1}H{strip.render(console)}" for x, y, strip in self.pieces)


class PieceCompositor(Compositor):
    """Draws the pieces that changed."""

    def render_partial_update(self) -> Pieces | None:  # type: ignore[override]
        """The cells that are to be painted, `None` where there are none."""
        screen = self.size.region
        regions = [shown for region in self._dirty_regions if (shown := region.intersection(screen))]
        self._dirty_regions.clear()
        if not regions:
            return None
        return Pieces(list(self._pieces(list(self._regions_to_spans(regions)))))

    def _pieces(self, spans: list[_Span]) -> Iterator[Piece]:
        """The spans as the widgets that lie in front show them."""
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            under, spans = _split(spans, seen)
            if under:
                yield from _drawn(widget, region, under)
            if not spans:
                return


def _split(spans: Iterable[_Span], seen: Region) -> tuple[list[_Span], list[_Span]]:
    """The parts of the spans inside of a region, and those outside."""
    inside: list[_Span] = []
    outside: list[_Span] = []
    left, right = seen.column_span
    for y, start, end in spans:
        first, last = max(start, left), min(end, right)
        if not seen.y <= y < seen.bottom or first >= last:
            outside.append((y, start, end))
            continue
        inside.append((y, first, last))
        outside += [(y, *rest) for rest in ((start, first), (last, end)) if rest[0] < rest[1]]
    return inside, outside


def _drawn(widget: Widget, region: Region, spans: list[_Span]) -> Iterator[Piece]:
    """The spans, which lie in the widget's `region` of the screen, as the widget draws them."""
    rows = [y for y, _, _ in spans]
    top, bottom = min(rows), max(rows) + 1
    strips = widget.render_lines(Region(0, top - region.y, region.width, bottom - top))
    for y, start, end in spans:
        yield start, y, strips[y - top].crop(start - region.x, end - region.x)
