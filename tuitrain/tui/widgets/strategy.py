"""How a batch is spread over the devices: one choice now, the others say what they need."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.tui.launch.hints import NOT_SINGLE, why_not
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row
from tuitrain.tui.widgets.wrap import wrap

STRATEGIES = ("single", *NOT_SINGLE)


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
        self.devices = 1
        """How many devices could be used; the screen sets it."""

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

    def on_blur(self) -> None:
        """The words go back to what is chosen."""
        self.cursor = 0
        super().on_blur()

    def heading(self) -> tuple[Row, Row]:
        """The title, and whether the person chose."""
        return Row("Strategy", self.title_style()), Row("auto" if self.picked == "auto" else "", self.palette.dim)

    def body(self, width: int, height: int) -> list[Strip]:
        """The choices, and a sentence about the one under the cursor."""
        palette = self.palette
        row = Row()
        for index, name in enumerate(STRATEGIES):
            here = self.has_focus and index == self.cursor
            row.add("▸" if here else " ", palette.cursor)
            row.add("● " if index == 0 else "○ ", palette.primary if index == 0 else palette.dim)
            row.add(name, palette.strong if index == 0 else palette.dim).add(" ")
        sentence = why_not(STRATEGIES[self.cursor], self.devices) or "one device takes the whole batch"
        if height < 2:
            return [row.add("  ").add(sentence, palette.dim).strip(width)]
        lines = [Row(" ").add(line, palette.dim).strip(width) for line in wrap(sentence, width - 1)]
        return [row.strip(width), *lines]
