"""What a screen asks of its widgets when some cells change: the lines under these cells, and nothing else.

Textual's own compositor has every widget of the screen drawn in full, also for one digit, and cuts each line at the edges of all widgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.style import Style
from textual._compositor import Compositor, CompositorUpdate, LayoutUpdate
from textual.geometry import Region, Size
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
        size: of the screen.
    """

    def __init__(self, pieces: list[Piece], size: Size) -> None:
        self.pieces = pieces
        self.size = size

    def render_segments(self, console: Console) -> str:
        """All of them as terminal output, whatever it shows."""
        return "".join(f"\x1b[{y + 1};{x + 1}H{strip.render(console)}" for x, y, strip in self.pieces)


class PieceCompositor(Compositor):
    """Draws the pieces that changed."""

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate | Pieces:  # type: ignore[override]
        """Every cell; `simplify` is for pictures."""
        if simplify:
            return super().render_full_update(simplify)
        self._dirty_regions.clear()
        width, height = self.size
        return Pieces(sorted(self._pieces([(y, 0, width) for y in range(height)]), key=_place), self.size)

    def render_partial_update(self) -> Pieces | None:  # type: ignore[override]
        """The cells that are to be painted, `None` where there are none."""
        screen = self.size.region
        regions = [shown for region in self._dirty_regions if (shown := region.intersection(screen))]
        self._dirty_regions.clear()
        if not regions:
            return None
        return Pieces(list(self._pieces(list(self._regions_to_spans(regions)))), self.size)

    def _pieces(self, spans: list[_Span]) -> Iterator[Piece]:
        """The spans as the widgets that lie in front show them."""
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            under, spans = _split(spans, seen)
            if under:
                yield from _blank(widget, under) if widget is self.root else _drawn(widget, region, under)
            if not spans:
                return


def _place(piece: Piece) -> tuple[int, int]:
    x, y, _ = piece
    return y, x


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


def _blank(screen: Widget, spans: list[_Span]) -> Iterator[Piece]:
    """The spans in the screen's background, which is all that it draws itself."""
    _, background = screen.background_colors
    style = Style.from_color(bgcolor=background.rich_color)
    strips: dict[int, Strip] = {}
    for y, start, end in spans:
        strip = strips.get(end - start)
        if strip is None:
            strip = Strip.blank(end - start, style)
            for one in screen.get_line_filters():
                strip = strip.apply_filter(one, background)
            strips[end - start] = strip
        yield start, y, strip


def _drawn(widget: Widget, region: Region, spans: list[_Span]) -> Iterator[Piece]:
    """The spans, which lie in the widget's `region` of the screen, as the widget draws them."""
    rows = [y for y, _, _ in spans]
    top, bottom = min(rows), max(rows) + 1
    strips = widget.render_lines(Region(0, top - region.y, region.width, bottom - top))
    for y, start, end in spans:
        yield start, y, strips[y - top].crop(start - region.x, end - region.x)
