"""The heading of a curve: what is shown, what its signs mean, and the keys; the least important parts give way."""

from __future__ import annotations

import msgspec
from rich.style import Style

from tuitrain.tui.curve.crosshair import EPOCH_MARK
from tuitrain.tui.curve.metrics import Metric
from tuitrain.tui.curve.pieces import Piece, kept, spaced
from tuitrain.tui.curve.sketch import BRAILLE_MARKS, PLAIN_MARKS
from tuitrain.tui.curve.zoom import Span
from tuitrain.tui.look import Palette
from tuitrain.tui.strips import Row

_FRAME = 9
"""Corners, spaces and a piece of the rule."""


class Showing(msgspec.Struct, frozen=True):
    """What the heading tells."""

    metric: Metric
    log: bool
    weight: float
    span: Span | None
    epochs: bool
    """Whether epochs are counted under the chart, and not steps."""
    best: bool
    """Whether the best evaluation is in the chart."""
    reads: bool
    """Whether the cursor is there."""
    braille: bool

    def heading(self, palette: Palette, title: Style, width: int) -> tuple[Row, Row]:
        """The left and the right end of a rule `width` cells long."""
        legend = self._legend(palette, title)
        fitting = kept([*legend, *self._keys(palette)], width - _FRAME, 2)
        return spaced([piece for piece in fitting if piece in legend]), spaced([piece for piece in fitting if piece not in legend])

    def _legend(self, palette: Palette, title: Style) -> list[Piece]:
        metric, marks = self.metric, BRAILLE_MARKS if self.braille else PLAIN_MARKS
        pieces = [Piece(Row(metric.title, title))]
        if self.span is not None:
            pieces.append(Piece(Row(f"steps {self.span.low:,}–{self.span.high:,}", palette.text)))
        if self.epochs:
            pieces.append(Piece(Row("over epochs", palette.text)))
        if metric.curve is not None and metric.best is not None:
            pieces.append(Piece(Row("⠒⠒" if self.braille else "**", palette.train).add(" train", palette.dim), rank=1))
        if metric.best is not None:
            pieces.append(Piece(Row(marks.test, palette.test).add(" test", palette.dim), rank=1))
            if self.best:
                pieces.append(Piece(Row(marks.best, palette.test).add(" best", palette.dim), rank=4))
        pieces.append(Piece(Row(EPOCH_MARK, palette.dim).add(" epoch", palette.dim), rank=7))
        return pieces

    def _keys(self, palette: Palette) -> list[Piece]:
        pieces = [Piece(Row("m ", palette.key).add("metric", palette.dim), rank=5)]
        if self.metric.scales:
            pieces.append(Piece(Row("l ", palette.key).add("log" if self.log else "linear", palette.dim), rank=2))
        if self.metric.smooths:
            word = f"smoothing {self.weight:g}" if self.weight else "no smoothing"
            pieces.append(Piece(Row("+/- ", palette.key).add(word, palette.dim), rank=3))
        pieces.append(Piece(Row("a ", palette.key).add("steps" if self.epochs else "epochs", palette.dim), rank=10))
        if self.span is not None:
            pieces.append(Piece(Row("[ ] ", palette.key).add("pan", palette.dim), rank=8))
            pieces.append(Piece(Row("Z ", palette.key).add("all", palette.dim), rank=2))
        else:
            pieces.append(Piece(Row("z ", palette.key).add("zoom", palette.dim), rank=6))
        if self.reads:
            pieces.append(Piece(Row("Esc ", palette.key).add("end reading", palette.dim), rank=9))
        return pieces
