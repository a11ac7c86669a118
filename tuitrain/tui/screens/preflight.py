"""What more devices would bring to the run in the launcher, measured before it is started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tuitrain.config import RunConfig
from tuitrain.session.preflight.measuring import Measuring
from tuitrain.session.preflight.plans import Plan
from tuitrain.session.preflight.trials import STEPS, ProcessTrials
from tuitrain.tui.messages import News
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.preflight_table import PreflightTable

_JOIN_SECONDS = 3.0


class PreflightScreen(PaneScreen):
    """Trials that begin when the screen opens and end at the latest when it closes.

    Args:
        run: the run of the app, for the header.
        config: what the launcher holds.
        free: CUDA ordinals, most free memory first.
        take: gets the plan that the person takes.
    """

    AUTO_FOCUS = "#preflight"
    ABOUT = "How fast each strategy and number of devices is with what the launcher holds."
    FIRST: ClassVar[tuple[str, ...]] = ("take", "measure")
    KEYS: ClassVar[Help] = (
        ("↑ ↓", "select a row; the best one is selected at first"),
        ("Enter", "take the selected devices and strategy into the launcher"),
        ("e", "measure again"),
        ("", "Words"),
        ("ideal", "samples/s against as many times one device: 100 % is all there is to win"),
        ("peak memory", "the most that torch's tensors held on each GPU"),
        ("p  Esc", "close, and end what is being measured"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take", tooltip="Take the selected devices and strategy"),
        Binding("e", "measure", "Again", tooltip="Measure again"),
        Binding("p", "leave", show=False),
        Binding("escape", "leave", "Close"),
    ]

    class Changed(News, bubble=False):
        """There is something new."""

    def __init__(self, run: RunLike, config: RunConfig, free: Sequence[int], take: Callable[[Plan], None]) -> None:
        super().__init__(run)
        self._take = take
        self.measuring = Measuring(ProcessTrials(free=free), config, self._heard)
        self._table = PreflightTable(self.measuring, config, STEPS)

    def panes(self) -> Iterable[Widget]:
        """The table."""
        return (self._table,)

    def on_mount(self) -> None:
        """Begin to measure."""
        self.measuring.start()
        self._redraw()

    async def on_unmount(self) -> None:
        """End what is under way, and its process."""
        self.measuring.stop()
        await asyncio.to_thread(self.measuring.join, _JOIN_SECONDS)

    def place_panes(self, width: int, height: int) -> None:
        """All of it."""
        self._table.styles.height = height

    def beat(self) -> None:
        """The seconds go on while something is under way."""
        if self.measuring.busy:
            self._table.redraw()

    def _heard(self) -> None:
        """From the measuring thread: say that there is something new, and nothing else."""
        self.post_message(self.Changed())

    def on_preflight_screen_changed(self, message: Changed) -> None:
        """Show it."""
        self._redraw()

    def on_preflight_table_moved(self, message: PreflightTable.Moved) -> None:
        """Another row may be one that can be taken."""
        self.refresh_bindings()

    def _redraw(self) -> None:
        self._table.redraw()
        self.refresh_bindings()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What was measured can be taken, and what is over can be begun again."""
        selected = self._table.selected
        works = {
            "take": selected is not None and selected.samples_per_second is not None,
            "measure": not self.measuring.busy,
        }
        return works.get(action, True)

    def action_take(self) -> None:
        """Take the selected row, and close."""
        selected = self._table.selected
        if selected is not None and selected.samples_per_second is not None:
            self._take(selected.plan)
            self.dismiss()

    def action_measure(self) -> None:
        """Measure everything again."""
        self.measuring.start()
        self._redraw()
