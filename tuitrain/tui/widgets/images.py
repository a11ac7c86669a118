"""Test samples with what the network says of them: pictures as cards, or a list where the samples are no pictures."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.cells import cell_len
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.strip import Strip

from tuitrain.events import Prediction
from tuitrain.tui.browse.pictures import HEIGHT, SIDE, draw, ink_of
from tuitrain.tui.browse.results import Results, confidence, has_picture, is_right
from tuitrain.tui.row_list import first_in_view
from tuitrain.tui.strips import PLAIN, Row, apart, cell_width, end_of, fit
from tuitrain.tui.widgets.cell_pane import both_names
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap

NO_PICTURES = "These samples are not images of whole numbers (uint8), so they are listed."
_BELOW = 2
"""Rows of a card below its picture: the caption, and a blank one before the next."""
_MOST_GAP = 6
_LONGEST_NAME = 24
_LEAST_FILE = 24
"""Cells that a file's name keeps beside long names of classes."""
_HEADING_MARKS = 8  # corners, spaces and a piece of the rule between the two ends of a heading
LONGEST_ABOUT = 12
"""Cells of what the heading says of the samples; more would take a row of pictures at 120×40."""


class _Grid(msgspec.Struct, frozen=True):
    """How the samples lie: columns and rows that one sees, blank columns before and between cards, lines above them and of a picture."""

    columns: int
    rows: int
    margin: int
    gap: int
    above: int
    lines: int


class Images(Pane):
    """Samples, one of them under the cursor."""

    DEFAULT_CSS = "Images { height: 1fr; }"
    # Six pictures beside each other need the room.
    PADDING = 0

    def __init__(self) -> None:
        super().__init__(id="images")
        self.first = self.last = True
        self.cursor = 0
        """Place of the selected sample in what is shown."""
        self._results: Results | None = None
        self._samples: Sequence[Prediction] = ()
        self._about = self._kept = ""
        self._sentence = ""
        self._top = 0
        self._grid = _Grid(1, 1, 0, 1, 0, HEIGHT)

    def say(self, sentence: str) -> None:
        """There is nothing to show, and why."""
        if sentence != self._sentence or self._results is not None:
            self._results, self._samples, self._sentence = None, (), sentence
            self.redraw()

    def show(self, results: Results, samples: Sequence[Prediction], about: str, sentence: str, kept: str = "") -> None:
        """Show samples; the one that was selected stays so where it is among them.

        Args:
            results: what they belong to.
            samples: what to show.
            about: says in the heading which ones these are.
            sentence: stands in their place where there are none.
            kept: says of how many these are kept; for where one may take them for all.
        """
        selected = self._samples[self.cursor].index if self._samples else None
        places = (place for place, sample in enumerate(samples) if sample.index == selected)
        self.cursor = next(places, min(self.cursor, max(len(samples) - 1, 0)))
        self._results, self._samples, self._about, self._sentence, self._kept = results, samples, about, sentence, kept
        self.redraw()

    @property
    def file(self) -> str | None:
        """What the selected sample's file is called."""
        return self._samples[self.cursor].file if self._samples else None

    def move(self, columns: int, rows: int) -> None:
        """Move the cursor by columns (on into the next row) and rows; it stays inside."""
        self._go(self.cursor + columns + rows * self._grid.columns)

    def page(self, pages: int) -> None:
        """Move the cursor by what one sees."""
        self._go(self.cursor + pages * self._grid.rows * self._grid.columns)

    def jump(self, last: bool) -> None:
        """To the first or the last sample."""
        self._go(len(self._samples) - 1 if last else 0)

    def _go(self, place: int) -> None:
        place = min(max(place, 0), max(len(self._samples) - 1, 0))
        if place == self.cursor:
            return
        self.cursor = place
        if self._top <= place // self._grid.columns < self._top + self._grid.rows:
            self.redraw()
        else:
            # Other pictures in every place: to look for cells that stay would take as long as to draw them.
            self.redraw_all()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def content(self, width: int, height: int) -> list[Strip]:
        """The frame with the samples; the row of the cursor is always in view."""
        self._grid = self._arrange(width - 2, height - 2)
        columns = self._grid.columns
        self._top = first_in_view(self._top, self.cursor // columns, self._grid.rows, -(-len(self._samples) // columns))
        return super().content(width, height)

    def heading(self) -> tuple[Row, Row]:
        """The title, how the network did where there is room, and what one sees of how many."""
        palette = self.palette
        left, right = Row("Predictions", palette.title), Row()
        if self._results is None:
            return left, right
        if self._summary_fits():
            left.add(f"  {self._results.summary()}", palette.dim)
        if self._samples:
            first = self._top * self._grid.columns
            seen = min(first + self._grid.columns * self._grid.rows, len(self._samples))
            right.add(f"{_span(first + 1, seen)} of {len(self._samples):,}", palette.text).add(" · ", palette.faint)
        return left, right.add(self._about, palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The summary where the heading has no room for it, the samples, and the selected one in words."""
        results, palette = self._results, self.palette
        lines: list[Strip] = []
        if results is not None and not self._summary_fits():
            lines.append(Row(f" {results.summary()}", palette.dim).strip(width))
        if results is None or not self._samples:
            return lines + [Row(f" {line}", palette.text).strip(width) for line in wrap(self._sentence, width - 2)]
        lines += self._cards(results, width) if self._pictures() else self._list(results, width)
        lines += [Strip.blank(width, PLAIN)] * (height - 1 - len(lines))
        return [*lines, self._in_words(results, self._samples[self.cursor], width)]

    def _pictures(self) -> bool:
        return any(has_picture(sample) for sample in self._samples)

    def _summary_fits(self) -> bool:
        """Whether the heading holds it beside the longest thing that stands at its right end, so that no filter changes the rows."""
        if self._results is None:
            return True
        seen = len("– of  · ") + 3 * len(f"{len(self._results.samples):,}")
        words = len("Predictions") + 2 + len(self._results.summary()) + seen + LONGEST_ABOUT
        return words + _HEADING_MARKS <= self.size.width

    def _arrange(self, width: int, height: int) -> _Grid:
        above = int(not self._summary_fits())
        if not self._pictures():
            above += len(wrap(NO_PICTURES, width - 2)) + 1
            return _Grid(1, max(height - above - 1, 1), 0, 0, above, 0)
        columns = max((width + 1) // (SIDE + 1), 1)
        gap = min(max((width - columns * SIDE) // (columns + 1), 1), _MOST_GAP)
        margin = max(width - columns * SIDE - (columns - 1) * gap, 0) // 2
        # In a small terminal the middle of a picture shows, and what it is of below.
        lines = min(HEIGHT, max(height - above - _BELOW, 1))
        return _Grid(columns, max((height - above) // (lines + _BELOW), 1), margin, gap, above, lines)

    def _cards(self, results: Results, width: int) -> list[Strip]:
        grid, ink = self._grid, ink_of(self.app)
        cut = (HEIGHT - grid.lines) // 2
        lines: list[Strip] = []
        for top in range(self._top, self._top + grid.rows):
            places = range(top * grid.columns, min((top + 1) * grid.columns, len(self._samples)))
            cards = []
            for place in places:
                sample = self._samples[place]
                picture = draw(sample.image, ink) if sample.image is not None and has_picture(sample) else self._no_picture()
                cards.append((*picture[cut : cut + grid.lines], self._caption(results, sample, place == self.cursor).strip(SIDE)))
            lines += [_beside(line, grid.margin, grid.gap, width) for line in zip(*cards, strict=True)]
            lines.append(Strip.blank(width, PLAIN))
        return lines[:-1]

    def _no_picture(self) -> tuple[Strip, ...]:
        blank, middle = Row().strip(SIDE), Row("no picture".center(SIDE), self.palette.dim).strip(SIDE)
        return tuple(middle if line == HEIGHT // 2 else blank for line in range(HEIGHT))

    def _caption(self, results: Results, sample: Prediction, here: bool) -> Row:
        """`▸✗ cat → dog                97 %`."""
        palette = self.palette
        right = is_right(sample)
        row = Row("▸" if here else " ", palette.cursor).add("✓ " if right else "✗ ", palette.good if right else palette.bad)
        room = SIDE - row.width - 6
        row.add(_names(results, sample, room), palette.strong if here else palette.text)
        return row.pad_to(SIDE - 5).right(confidence(sample), 5, palette.strong if here else palette.text)

    def _list(self, results: Results, width: int) -> list[Strip]:
        palette = self.palette
        longest = max(cell_len(results.name(number)) for sample in self._samples for number in (sample.truth, sample.predicted))
        name, number = min(max(longest, 10), _LONGEST_NAME), max(len(f"{max(sample.index for sample in self._samples):,}"), 6)
        lines = [Row(f" {line}", palette.dim).strip(width) for line in wrap(NO_PICTURES, width - 2)]
        lines.append(
            Row("   ")
            .right("sample", number, palette.dim)
            .add(f"    {fit('truth', name)}  {fit('prediction', name)}  sure", palette.dim)
            .strip(width)
        )
        for place in range(self._top, min(self._top + self._grid.rows, len(self._samples))):
            sample, here = self._samples[place], place == self.cursor
            right, style = is_right(sample), palette.strong if here else palette.text
            row = Row(" ▸ " if here else "   ", palette.cursor).right(f"{sample.index:,}", number, style)
            row.add("  ✓ " if right else "  ✗ ", palette.good if right else palette.bad)
            row.left(results.name(sample.truth), name, style).add("  ").left(results.name(sample.predicted), name, style)
            lines.append(row.right(confidence(sample), 7, style).strip(width))
        return lines

    def _in_words(self, results: Results, sample: Prediction, width: int) -> Strip:
        palette = self.palette
        middle = Row(" · ", palette.faint).add(f"{confidence(sample)} sure", palette.text).add(" · ", palette.faint)
        if self._kept:
            middle.add(self._kept, palette.text).add(" · ", palette.faint)
        subject = f"test sample {sample.index:,}"
        if sample.file is not None:
            # All files lie in the same folder: where there is no room, the end is what tells them apart.
            short = cell_width(_names(results, sample, width))
            subject = end_of(apart(sample.file), max(width - 1 - middle.width - short, _LEAST_FILE))
        row = Row(f" {subject}", palette.strong).join(middle)
        truth, predicted = results.name(sample.truth), results.name(sample.predicted)
        spoken = Row("truth ", palette.dim).add(truth, palette.text).add(" · ", palette.faint)
        spoken.add("prediction ", palette.dim).add(predicted, palette.text)
        if row.width + spoken.width > width:
            spoken = Row(_names(results, sample, width - row.width), palette.text)
        return row.join(spoken).strip(width)

    # -- mouse --------------------------------------------------------------------------------------------------------

    def on_click(self, event: Click) -> None:
        """Select the sample that was clicked."""
        grid = self._grid
        line = event.y - 1 - grid.above
        if line < 0 or not self._samples:
            return
        if self._pictures():
            column, row = (event.x - 1 - grid.margin) // (SIDE + grid.gap), line // (grid.lines + _BELOW)
        else:
            column, row = 0, line
        if 0 <= column < grid.columns and row < grid.rows:
            self._go((self._top + row) * grid.columns + column)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """The next row."""
        self.move(0, 1)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """The row before."""
        self.move(0, -1)


def _span(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def _beside(strips: Sequence[Strip], margin: int, gap: int, width: int) -> Strip:
    row = Row(" " * margin)
    for place, strip in enumerate(strips):
        if place:
            row.add(" " * gap)
        row.segments += strip
        row.width += strip.cell_length
    return row.strip(width)


def _names(results: Results, sample: Prediction, width: int) -> str:
    """The true class, and the predicted one where it is another."""
    if is_right(sample):
        name = results.name(sample.truth)
        return fit(name, min(cell_len(name), width))
    return " → ".join(both_names(results, (sample.truth, sample.predicted), width - 3))
