"""All that is known of one card."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual.strip import Strip

from tuitrain.devices import Choice, DeviceSnapshot, HistoryPoint
from tuitrain.tui.gpus.facts import Fact, facts
from tuitrain.tui.gpus.sample import age_of, problem_of
from tuitrain.tui.own_memory import OwnCards
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.memory_split import split_facts
from tuitrain.tui.wrap import wrap_into

_LABEL = 18
_COLUMN = 37
"""Cells of a fact that shares its line."""
_GAP = 2
_LINES_MOST = 4
"""Lines of one fact; longer ones are cut."""


class GpuFacts(Pane):
    """Labels and values, as many beside each other as fit.

    Args:
        own: splits the memory of the cards that the app's own run uses.
    """

    def __init__(self, own: OwnCards) -> None:
        super().__init__(id="gpu-facts")
        self._own = own
        self.first = True
        self._choice: Choice | None = None
        self._snapshot: DeviceSnapshot | None = None
        self._past: Sequence[HistoryPoint] = ()

    def show(self, snapshot: DeviceSnapshot, choice: Choice | None, past: Sequence[HistoryPoint]) -> None:
        """Another sample; `choice` is `None` where the card is gone, and `past` what a card told that tells nothing more."""
        self._snapshot, self._choice, self._past = snapshot, choice, past
        self.redraw()

    def rows_wanted(self, width: int) -> int:
        """Lines for everything, at a terminal of `width`."""
        return len(self._lines_of_facts(width - 4))

    def heading(self) -> tuple[Row, Row]:
        """The card's name, and the age of what is shown where it is old."""
        palette, snapshot = self.palette, self._snapshot
        if self._choice is None or snapshot is None:
            return Row("GPU", palette.title), Row()
        card = self._choice.device
        right = Row() if card is None else Row(card.status, palette.good if card.status == "ok" else palette.warn)
        if card is not None and (age := age_of(snapshot)) is not None:
            right.add(f" · {age:.0f} s old", palette.warn)
        return Row(self._choice.name, palette.title).add(f" {self._choice.title}", palette.text), right

    def body(self, width: int, height: int) -> list[Strip]:
        """The facts."""
        return self._lines_of_facts(width)

    def _lines_of_facts(self, width: int) -> list[Strip]:
        palette, snapshot = self.palette, self._snapshot
        if snapshot is None:
            return []
        problem = problem_of(snapshot)
        if self._choice is not None and self._choice.device is not None and self._choice.device.reason == problem:
            # The card's status says it.
            problem = None
        lines = [Row(line, palette.warn).strip(width) for line in (wrap_into(problem, width, _LINES_MOST) if problem else [])]
        if self._choice is None:
            return [*lines, Row("This card is not there any more.", palette.dim).strip(width)]
        known = [*facts(self._choice, snapshot, self._past), *self._held(self._choice)]
        for fact in (fact for fact in known if fact.wide):
            lines += self._wide(fact, width)
        return [*lines, *self._beside([fact for fact in known if not fact.wide], width)]

    def _style(self, fact: Fact) -> Style:
        palette, snapshot = self.palette, self._snapshot
        silent = snapshot is not None and (snapshot.stalled_seconds > 0 or age_of(snapshot) is not None)
        return palette.warn if fact.loud else palette.dim if fact.old or silent else palette.text

    def _held(self, choice: Choice) -> list[Fact]:
        """Who holds the memory, where our run does."""
        split = None if choice.device is None else self._own.of(choice.device)
        if split is None:
            return []
        return [Fact("memory held by", " · ".join(f"{label} {size}" for label, size in split_facts(split)), wide=True)]

    def _wide(self, fact: Fact, width: int) -> list[Strip]:
        palette = self.palette
        return [
            Row().left("" if number else fact.label, _LABEL, palette.dim).add(piece, self._style(fact)).strip(width)
            for number, piece in enumerate(wrap_into(fact.value, width - _LABEL, _LINES_MOST))
        ]

    def _beside(self, known: list[Fact], width: int) -> list[Strip]:
        """The others in columns, read from the top down."""
        palette = self.palette
        across = max((width + _GAP) // (_COLUMN + _GAP), 1)
        cells = (width - _GAP * (across - 1)) // across
        down = -(-len(known) // across)
        lines = []
        for line in range(down):
            row = Row()
            for number, fact in enumerate(known[line::down]):
                row.add(" " * _GAP if number else "").left(fact.label, _LABEL, palette.dim)
                row.left(fact.value, cells - _LABEL, self._style(fact))
            lines.append(row.strip(width))
        return lines
