"""How a batch is spread over the devices: what is chosen, what auto takes, and why the others do not fit."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.strategies import STRATEGIES, auto_takes, stands_for
from tuitrain.tui.launch.strategies import about, fitting, why_not
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap


class Strategy(Pane, can_focus=True):
    """`● single ○ split ○ dp ○ ddp` and why the one under the cursor does not fit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Left", show=False),
        Binding("right", "move(1)", "Right", show=False),
        Binding("space", "pick", "Choose", show=True),
    ]

    class Picked(Message):
        """The person chose a strategy for the next run."""

        def __init__(self, strategy: str) -> None:
            super().__init__()
            self.strategy = strategy

    def __init__(self) -> None:
        super().__init__(id="strategy")
        self.cursor = 0
        self.picked = "auto"
        """What the configuration says."""
        self.devices: tuple[str, ...] = ("cpu",)
        """What a start would take now, one for each replica; the screen sets both."""
        self.in_use: tuple[str, int] | None = None
        """The strategy of the run that is shown, and over how many replicas."""

    @property
    def taken(self) -> str:
        """The strategy that the run has, or that a start would take now."""
        if self.in_use is not None:
            return self.in_use[0]
        return stands_for(self.picked, self.devices)

    @property
    def several_fit(self) -> bool:
        """Whether there is something to choose."""
        return len(fitting(self.devices)) > 1

    def take_next(self) -> None:
        """The next strategy that fits; after the last one auto again."""
        names = ["auto", *(name for name in fitting(self.devices) if name != auto_takes(self.devices))]
        place = names.index(self.picked) if self.picked in names else 0
        self.post_message(self.Picked(names[(place + 1) % len(names)]))

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = min(max(self.cursor + by, 0), len(STRATEGIES) - 1)
        self.redraw()

    def action_pick(self) -> None:
        """Take the strategy under the cursor, or say why not; taking the taken one again goes back to auto."""
        strategy = STRATEGIES[self.cursor]
        if reason := why_not(strategy, self.devices):
            self.notify(reason, severity="warning", markup=False)
        else:
            self.post_message(self.Picked("auto" if self.picked == strategy else strategy))

    def on_focus(self) -> None:
        """Begin at what is chosen."""
        self.cursor = STRATEGIES.index(self.taken)
        super().on_focus()

    def heading(self) -> tuple[Row, Row]:
        """The title, and whether the person chose."""
        chosen = self.in_use is not None or self.picked != "auto"
        return Row("Strategy", self.title_style()), Row("" if chosen else "auto", self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The choices, and a sentence about the one under the cursor, else about the chosen one."""
        palette, taken = self.palette, self.taken
        row = Row()
        for index, name in enumerate(STRATEGIES):
            here = self.has_focus and index == self.cursor
            row.add("▸" if here else " ", palette.cursor).add(
                "● " if name == taken else "○ ", palette.primary if name == taken else palette.dim
            )
            fits = self.in_use is None and why_not(name, self.devices) is None
            row.add(name, palette.strong if name == taken else palette.text if fits else palette.dim)
            if self.in_use is None and self.picked != "auto" and name == auto_takes(self.devices):
                row.add("·auto", palette.dim)
            row.add(" ")
        sentence = self._sentence(STRATEGIES[self.cursor] if self.has_focus else taken)
        if height < 2:
            return [row.add("  ").add(sentence, palette.dim).strip(width)]
        lines = [Row(" ").add(line, palette.dim).strip(width) for line in wrap(sentence, width - 1)]
        return [row.strip(width), *lines]

    def _sentence(self, strategy: str) -> str:
        if self.in_use is not None:
            return about(strategy) if self.in_use[1] == 1 else f"{strategy} over {self.in_use[1]} replicas"
        return why_not(strategy, self.devices) or about(strategy)
