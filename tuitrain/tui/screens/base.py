"""What every whole screen has: the header, the keys, words for `?`, and a sentence in place of its panes where there is no room."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from tuitrain.config import RunConfig
from tuitrain.text import first_line
from tuitrain.tui.layout import fits
from tuitrain.tui.messages import NewLike
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.screens.late_clicks import LateClicks
from tuitrain.tui.terminal.painting import PieceCompositor
from tuitrain.tui.toasts import tell_of_surprise
from tuitrain.tui.widgets.header import Header
from tuitrain.tui.widgets.keybar import KeyBar
from tuitrain.tui.widgets.lines import Lines
from tuitrain.tui.widgets.too_small import TooSmall

Help = tuple[tuple[str, str], ...]
"""Lines of `?` as (keys, what they do); a line without keys is a heading."""

NEW_LIKE = (
    Binding("u", "new_like(False)", "New like it", tooltip="A new run with the settings of this one"),
    Binding("U", "new_like(True)", "New from it", tooltip="A new run that begins with the weights of this one"),
)
"""Keys of a screen that is about a run with a folder, and below their line of `?`."""
NEW_LIKE_KEYS = ("u  U", "a new run with its settings; one that begins with its weights too")

BEAT_SECONDS = 1.0
"""Where training uses every core, each redraw is taken from it."""
_READING = "read"
_WITHOUT_ROOM = ("help", "quit", "repaint", "suspend_process", "screen.copy_text")
"""Actions that mean something while the terminal is too small; the help has room in any. The last is Ctrl+C's: with nothing to copy it
leaves that key to the app, which quits."""


class PaneScreen(LateClicks[None]):
    """Header, panes, keys.

    Args:
        run: the run that the screen is about, for its header and for the keys that show more of it.
    """

    KEYS: ClassVar[Help] = ()
    ABOUT: ClassVar[str] = ""
    """What the screen is for, in one sentence."""
    FIRST: ClassVar[tuple[str, ...]] = ()
    """Actions that come first in the footer, in this order; the others follow where there is room."""

    def __init__(self, run: RunLike) -> None:
        super().__init__()
        self._compositor = PieceCompositor()
        self.run = run
        self._header = Header(run)
        self._too_small = TooSmall(run)
        self._panes: tuple[Widget, ...] = ()
        self._had_focus: Widget | None = None
        self._busy = False
        """A thread reads for the screen; the message that brings what was read ends this."""
        self._surprise = ""

    def shown_run(self) -> Path | RunConfig | None:
        """What one looks at: the folder of a run, the configuration of one that has no folder yet, or nothing."""
        record = self.run.record
        return None if record is None else record.path or record.config

    def action_new_like(self, weights: bool) -> None:
        """Fill in the launcher for a new run like the one that one looks at, which begins with the `weights` of that one too."""
        if isinstance(run := self.shown_run(), Path):
            self.post_message(NewLike(run, weights=weights))

    def panes(self) -> Iterable[Widget]:
        """The widgets between header and keys; asked once."""
        raise NotImplementedError

    def place_panes(self, width: int, height: int) -> None:
        """Give the panes their sizes. `height` is what header and keys leave."""

    def beat(self) -> None:
        """Once a second while the screen is on top: redraw what lives."""

    def beat_below(self) -> None:
        """Once a second while another screen is on top."""

    def run_changed(self) -> None:
        """The run has something new, of which the header tells."""
        self._header.redraw()

    def help_lines(self) -> Help:
        """The lines of `?`."""
        return self.KEYS

    def compose(self) -> ComposeResult:
        """Header, panes, keys."""
        self._panes = tuple(self.panes())
        yield self._header
        yield from self._panes
        yield self._too_small
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin to beat. Textual calls this after a subclass's own `on_mount`, which must not call it too."""
        self.rearrange()
        self.set_interval(BEAT_SECONDS, self._beat)

    def on_resize(self, event: events.Resize) -> None:
        """Give the panes their new sizes."""
        self.rearrange()

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """Where nothing is shown that a key could act on, only those that need nothing shown."""
        bindings = super().active_bindings
        if self._too_small.display:
            return {key: active for key, active in bindings.items() if active.binding.action in _WITHOUT_ROOM}
        return bindings

    def on_key(self, event: events.Key) -> None:
        """Nobody sees what any other key would do."""
        if self._too_small.display and event.key not in self.active_bindings:
            event.stop()

    def rearrange(self) -> None:
        """Show the panes, or the sentence that says how much room they need."""
        size = self.app.size
        enough = fits(size.width, size.height)
        turned = self._too_small.display == enough
        if turned:
            if not enough:
                # A hidden pane cannot have the keys: whoever had them, be it a field that is typed in, gets them back with the room.
                self._had_focus = self.focused
                self.set_focus(None)
            self._too_small.display = not enough
            for pane in self._panes:
                pane.display = enough
        if enough:
            self.place_panes(size.width, size.height - 2)
        if turned:
            self.refresh_bindings()
        if enough:
            self._focus_what_shows(self._had_focus if turned else self.focused)

    def _focus_what_shows(self, wanted: Widget | None) -> None:
        """`wanted` has the keys where it shows; where it is hidden, whoever has them and shows, else the first that does."""
        if wanted is None:
            return
        shown = self.focus_chain
        if wanted in shown:
            self.set_focus(wanted)
        elif self.focused not in shown and shown:
            self.set_focus(shown[0])

    def action_leave(self) -> None:
        """Back to where one was."""
        self.dismiss()

    def redraw_all(self) -> None:
        """Repaint everything, for a new theme."""
        for lines in self.query(Lines):
            lines.redraw_all()

    def _read_apart(self, work: Callable[[], object]) -> None:
        """Read in a thread, which posts what it has found."""
        self._busy = True
        self.run_worker(work, thread=True, exit_on_error=False, group=_READING)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What a thread did not expect is said and does not end the app; one that reads says it once, and the next look tries again."""
        error = event.worker.error
        if event.worker.group != _READING:
            tell_of_surprise(self, event)
            return
        if event.state is not WorkerState.ERROR or error is None:
            return
        self._busy = False
        surprise = f"This could not be read: {first_line(error)}."
        if surprise != self._surprise:
            self._surprise = surprise
            self.notify(surprise, severity="warning", markup=False)

    def _beat(self) -> None:
        if self.app.screen is self:
            self._header.redraw()
            self._too_small.redraw()
            self.beat()
        else:
            self.beat_below()
