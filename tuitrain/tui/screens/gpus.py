"""The monitor: what every card does, how it did, and who is on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tuitrain.devices import ProcessSample, ending
from tuitrain.tui.gpus.history import Span
from tuitrain.tui.gpus.layout import arrange
from tuitrain.tui.own_memory import OwnCards
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.sampler import SamplerLike
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.gpu_cards import GpuCards
from tuitrain.tui.widgets.gpu_history import GpuHistory
from tuitrain.tui.widgets.gpu_processes import GpuProcesses

_NAME_MOST = 60
_ALL_EVERY_BEATS = 2
"""What processes do changes in all rows at once, and graphs have columns of several seconds: each cell of it is sent."""


class GpusScreen(PaneScreen):
    """The cards over their history over their processes.

    Args:
        run: the run of this app, for the header.
        sampler: says what the devices do.
        own: splits the memory of the cards that the run uses.
    """

    AUTO_FOCUS = "#gpu-cards"
    ABOUT = "What the cards do, who is on them, and whether they are held back."
    KEYS: ClassVar[Help] = (
        ("↑ ↓ PgUp PgDn", "move; also j k Home End"),
        ("Tab", "to the processes, and back to the cards"),
        ("Enter", "all that is known of the selected card"),
        ("[  ]", "a shorter or longer history: 1 min, 5 min, 15 min, 1 h"),
        ("a", "the processes of all cards, or of the selected one"),
        ("s  S", "sort the processes by the next column, the other way round"),
        ("/", "show only processes that hold these words; Esc shows all"),
        ("x", "end a process of your own (asks); x again kills it if it stays"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+tab", "switch", show=False),
        Binding("a", "toggle_all", "All/one"),
        Binding("slash", "search", "Filter"),
        Binding("s", "sort(False)", "Sort"),
        Binding("S", "sort(True)", "Reverse"),
        Binding("left_square_bracket", "span(-1)", "Shorter"),
        Binding("right_square_bracket", "span(1)", "Longer"),
        Binding("escape", "leave", "Close"),
        Binding("g", "leave", "Close", show=False),
    ]

    class Told(Message, bubble=False):
        """A process was signalled, or may not be."""

        def __init__(self, process: ProcessSample, refusal: str | None, *, killing: bool) -> None:
            super().__init__()
            self.process = process
            self.refusal = refusal
            self.killing = killing

    class MayEnd(Message, bubble=False):
        """The process may be asked to end."""

        def __init__(self, process: ProcessSample) -> None:
            super().__init__()
            self.process = process

    def __init__(self, run: RunLike, sampler: SamplerLike, own: OwnCards) -> None:
        super().__init__(run)
        self._sampler = sampler
        self._own = own
        self._span = Span()
        snapshot = sampler.latest()
        self._cards = GpuCards(snapshot)
        self._history = GpuHistory(sampler, self._span)
        self._processes = GpuProcesses()
        self._one_card = False
        self._beats = 0
        self._subjects = 1
        self._shape: tuple[int, int] | None = None

    def panes(self) -> Iterable[Widget]:
        """The cards, their history, their processes."""
        return (self._cards, self._history, self._processes)

    def place_panes(self, width: int, height: int) -> None:
        """The processes keep five lines; the history gets what the cards leave."""
        rows = self._cards.rows
        self._shape = len(rows), self._cards.notes_wanted(width)
        sizes = arrange(width, height, cards=len(rows) - 1, notes=self._shape[1])
        self._cards.tall = sizes.tall
        self._history.across = sizes.across
        for pane, size in ((self._cards, sizes.cards), (self._history, sizes.history), (self._processes, sizes.processes)):
            pane.display = size > 0
            pane.styles.height = size
        self._subjects = sizes.subjects
        self._cards.place(first=True, last=False)
        self._history.place(first=False, last=not sizes.processes)
        self._processes.place(first=False, last=True)
        self._show()

    def on_screen_resume(self) -> None:
        """Another screen was closed: what has changed shows at once."""
        self.beat()
        self._show()

    # -- keeping up ---------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Look at the newest sample; at the history and the processes every other time."""
        self._beats += 1
        snapshot = self._sampler.latest()
        self._own.note(snapshot)
        self._cards.show(snapshot)
        for process in self._processes.endings.gone():
            self.notify(f"Process {process.pid} has ended.", timeout=5)
        if self._shape != (len(self._cards.rows), self._cards.notes_wanted(self.app.size.width)):
            self.rearrange()
        elif self._beats % _ALL_EVERY_BEATS == 0:
            self._show()

    def _show(self) -> None:
        """What follows from the cards and from which one is selected."""
        selected, rows = self._cards.selected, self._cards.rows
        subjects = [row for row in rows if row.device is not None] if self._subjects > 1 and selected.device is not None else [selected]
        self._history.show(self._sampler.latest(), subjects)
        self._processes.show(rows, selected if self._one_card and selected.device is not None else None)

    def on_gpu_cards_moved(self, message: GpuCards.Moved) -> None:
        """Another card is selected."""
        self._show()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing but typing while something is typed; what is about processes needs their table."""
        if action in ("switch", "toggle_all", "search", "sort"):
            return self._processes.display and not self._processes.searching
        return not self._processes.searching if action in ("span", "leave") else True

    def action_switch(self) -> None:
        """From the cards to the processes, and back."""
        self.set_focus(self._cards if self._processes.has_focus else self._processes)

    def action_toggle_all(self) -> None:
        """The processes of all cards, or of the selected one."""
        self._one_card = not self._one_card
        self._show()

    def action_search(self) -> None:
        """Type a filter."""
        self._processes.action_search()

    def action_sort(self, turn: bool) -> None:
        """The next order, or the other way round."""
        self._processes.sort(turn=turn)

    def action_span(self, by: int) -> None:
        """A longer history, or a shorter one."""
        self._span.step(by)
        self._history.redraw()

    def on_gpu_cards_opened(self, message: GpuCards.Opened) -> None:
        """All that is known of the card."""
        from tuitrain.tui.screens.gpu_card import GpuCardScreen

        self.app.push_screen(GpuCardScreen(self.run, self._sampler, self._cards.selected, self._span, self._own))

    # -- ending a process ---------------------------------------------------------------------------------------------

    def on_gpu_processes_ending(self, message: GpuProcesses.Ending) -> None:
        """Find out whether it may be ended, and then ask."""
        row = self._processes.list.selected
        if row is None:
            return
        process = row.process

        def look() -> None:
            try:
                ending.check(process)
            except ending.Refused as refusal:
                self.post_message(self.Told(process, str(refusal), killing=False))
            else:
                self.post_message(self.MayEnd(process))

        self.run_worker(look, thread=True, exit_on_error=False, group="end")

    def on_gpus_screen_may_end(self, message: MayEnd) -> None:
        """Ask; the answer that Enter takes at once is no."""
        from tuitrain.tui.screens.ask import Ask

        process = message.process
        killing = self._processes.endings.stubborn(process)
        what = (process.name or process.command or "It")[:_NAME_MOST]
        if killing:
            title, yes = f"Kill process {process.pid}?", "Kill it (SIGKILL)"
            lost = f"{what} was asked to end and is still there. Killed, it saves nothing. This cannot be undone."
        else:
            title, yes = f"End process {process.pid}?", "End it (SIGTERM)"
            lost = f"{what} is asked to end, and may save what it does before it goes. This cannot be undone."
        self.app.push_screen(Ask(title, lost, yes=yes, no="Leave it"), lambda sure: self._end(process, killing) if sure else None)

    def _end(self, process: ProcessSample, killing: bool) -> None:
        def send() -> None:
            refusal = None
            try:
                (ending.kill if killing else ending.ask_to_end)(process)
            except ending.Refused as refused:
                refusal = str(refused)
            self.post_message(self.Told(process, refusal, killing=killing))

        self.run_worker(send, thread=True, exit_on_error=False, group="end")

    def on_gpus_screen_told(self, message: Told) -> None:
        """Say why not, or remember that it was signalled."""
        if message.refusal is not None:
            self.notify(message.refusal, severity="warning", markup=False, timeout=5)
            return
        endings = self._processes.endings
        (endings.killed if message.killing else endings.asked)(message.process)
        self._processes.redraw()
