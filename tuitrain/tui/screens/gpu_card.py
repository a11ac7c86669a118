"""One card: every field that its driver tells, and its history in large graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tuitrain.devices import Choice, choices
from tuitrain.tui.gpus import cards
from tuitrain.tui.gpus.history import Span, last_known
from tuitrain.tui.own_memory import OwnCards
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.sampler import SamplerLike
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.gpu_facts import GpuFacts
from tuitrain.tui.widgets.gpu_history import GpuHistory

_GRAPHS_LEAST = 1 + 1 + 3 + 1
_TWO_DOWN = 1 + 2 * (1 + 4) + 1
"""Rows from which on two graphs stand over two others."""


class GpuCardScreen(PaneScreen):
    """The facts over the graphs.

    Args:
        run: the run of this app, for the header.
        sampler: says what the devices do.
        choice: the row that was selected; its card is followed by its key.
        span: how far back the graphs reach, shared with the screen that opened this one.
        own: splits the memory of the cards that the run uses.
    """

    ABOUT = "All that the driver tells of one card."
    KEYS: ClassVar[Help] = (("[  ]", "a shorter or longer history: 1 min, 5 min, 15 min, 1 h"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "span(-1)", "Shorter"),
        Binding("right_square_bracket", "span(1)", "Longer"),
        Binding("escape", "leave", "Close"),
    ]

    def __init__(self, run: RunLike, sampler: SamplerLike, choice: Choice, span: Span, own: OwnCards) -> None:
        super().__init__(run)
        self._sampler = sampler
        self._key = cards.key_of(choice)
        self._span = span
        self._own = own
        self._facts = GpuFacts(own)
        self._history = GpuHistory(sampler, span)
        self._placed_for: tuple[int, bool] | None = None
        self._has_past = True
        self._look()

    def panes(self) -> Iterable[Widget]:
        """The facts over the graphs."""
        return (self._facts, self._history)

    def place_panes(self, width: int, height: int) -> None:
        """The facts get the lines that they need, the graphs the rest, if that is enough for them."""
        wanted = self._facts.rows_wanted(width)
        self._placed_for = wanted, self._has_past
        graphs = height - 1 - wanted
        self._history.display = graphs >= _GRAPHS_LEAST and self._has_past
        rows = graphs if self._history.display else 0
        self._history.across = 2 if rows >= _TWO_DOWN else 4
        self._history.styles.height = rows
        self.refresh_bindings()
        self._facts.styles.height = height - rows
        self._facts.place(first=True, last=not rows)
        self._history.place(first=False, last=True)

    def beat(self) -> None:
        """Look at the newest sample."""
        self._look()
        if self._placed_for != (self._facts.rows_wanted(self.app.size.width), self._has_past):
            self.rearrange()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A history needs its pane."""
        return self._history.display if action == "span" else True

    def action_span(self, by: int) -> None:
        """A longer history, or a shorter one."""
        self._span.step(by)
        self._history.redraw()

    def _look(self) -> None:
        snapshot = self._sampler.latest()
        self._own.note(snapshot)
        choice = next((row for row in choices(snapshot) if cards.key_of(row) == self._key), None)
        card = None if choice is None else choice.device
        silent = card is not None and cards.silent(card)
        past = self._sampler.history(self._key) if silent else ()
        self._facts.show(snapshot, choice, past)
        # One that has gone has no graphs, and neither has one that told nothing in an hour.
        self._has_past = choice is not None and (not silent or last_known(past) is not None)
        self._history.show(snapshot, [] if choice is None else [choice])
