"""A run that was kept, or that another process trains: its curve, shapes, log, settings and checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tuitrain.config import ConfigError
from tuitrain.recipes import command_line
from tuitrain.runs.logtail import LogTail
from tuitrain.text import clean
from tuitrain.tui.browse.opened_run import OpenedRun, Reading
from tuitrain.tui.curve.chart import load as load_plotext
from tuitrain.tui.curve.later import Ahead
from tuitrain.tui.hosts.attachment import Attachment
from tuitrain.tui.layout import left_width
from tuitrain.tui.messages import GoOn
from tuitrain.tui.own_memory import OwnCards
from tuitrain.tui.run_view import StoredView
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.terminal.glyphs import draws_ascii
from tuitrain.tui.widgets.curve import Curve
from tuitrain.tui.widgets.devices import Devices
from tuitrain.tui.widgets.log import LogPane
from tuitrain.tui.widgets.opened_body import Apart, OpenedBody, Waiting
from tuitrain.tui.widgets.progress import Progress
from tuitrain.tui.widgets.replicas import Replicas
from tuitrain.tui.widgets.settings import CheckpointsPane, SettingsPane

if TYPE_CHECKING:
    from tuitrain.session.lines import Command
    from tuitrain.tui.hosts.outside import Outside
    from tuitrain.tui.widgets.devices import SamplerLike

_BEATS = 2
"""Whoever only watches gets new numbers every so many beats; what a person waits for, as after a key, is shown at once."""
_QUIET_BEATS = 6
"""The folder of a run that says nothing, as while it is paused, is read every so many beats."""
_CURVE_SECONDS = 3.0
"""A curve costs more than all numbers beside it, so every second reading is drawn."""
_TAKEN_AT_ONCE = {
    "queued": {"stop": "It ends before it has begun."},
    "paused": {"checkpoint": "A checkpoint is written now.", "stop": "It stops now, with a checkpoint."},
}
_TAKEN = {"checkpoint": "A checkpoint is written at the next step.", "stop": "It stops at the next step, with a checkpoint."}
_HINTS = {
    "failed": "o shows the log · R goes on",
    "stopped": "R goes on",
    "interrupted": "R goes on",
    "finished": "R trains on",
    "lost": "R goes on from its newest checkpoint",
}
_NEVER_SAVED = {
    **dict.fromkeys(_HINTS, "never saved"),
    "failed": "o shows the log · never saved: y copies its command",
}
_STEERED = {**_HINTS, "paused": "space goes on", "queued": "x takes it out of the queue"}


class OpenedScreen(PaneScreen):
    """One run, read from its folder.

    Args:
        path: the folder.
        title: what the run is called, until it is read.
        outside: the process that trains it, where one does.
        sampler: the devices, which are shown beside a run that trains on this machine.
        look: an action of the app, taken as soon as the run is read.
    """

    AUTO_FOCUS = "#curve"
    ABOUT = "A run as its folder tells it. One that another process trains is followed, and told what the keys say."
    FIRST: ClassVar[tuple[str, ...]] = ("tell", "take_out", "resume", "metric", "move", "zoom", "settings")
    KEYS: ClassVar[Help] = (
        ("space  x  c", "pause or go on, stop or take out of the queue, write a checkpoint: of a live run"),
        ("R", "go on with an ended run, or one that is paused"),
        ("s", "settings, environment and checkpoints in full"),
        ("y", "copy the equal tuitrain run line"),
        ("r", "the runs"),
        ("Esc", "back to where one was"),
        *Curve.KEYS,
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "tell('pause')", "Pause"),
        Binding("space", "tell('resume')", "Go on"),
        Binding("x", "tell('stop')", "Stop"),
        Binding("x", "take_out", "Take out", tooltip="Take this run out of the queue"),
        Binding("c", "tell('checkpoint')", "Checkpoint"),
        Binding("R", "resume", "Resume", tooltip="Go on with this run"),
        Binding("s", "settings", "Settings"),
        Binding("y", "copy", "Copy command"),
        Binding("escape", "leave", "Close"),
        Binding("r", "runs", "Runs", show=False),
    ]

    class Told(Message, bubble=False):
        """The run's process says that something changed, or does not answer any more."""

        def can_replace(self, message: Message) -> bool:
            """A newer one says as much."""
            return isinstance(message, OpenedScreen.Told)

    class Answered(Message, bubble=False):
        """What came of a key."""

        def __init__(self, sentence: str, *, wrong: bool) -> None:
            super().__init__()
            self.sentence = sentence
            self.wrong = wrong

    class Still(Message, bubble=False):
        """The thread has found nothing new of a run that is over."""

    class Read(Message, bubble=False):
        """The thread has read the folder, and what the curve needs of it."""

        def __init__(self, reading: Reading, ahead: Ahead | None) -> None:
            super().__init__()
            self.reading = reading
            self.ahead = ahead

    def __init__(self, path: Path, title: str, *, outside: Outside, sampler: SamplerLike, look: str | None = None) -> None:
        self.opened = OpenedRun(path)
        super().__init__(self.opened)
        self._title = title
        self._outside = outside
        self._sampler = sampler
        self._look = look
        self._attachment = Attachment(path, outside, lambda: self.post_message(self.Told()))
        self._read_again = False
        self._could: tuple[object, ...] = ()
        self._beats = 0

    def shown_run(self) -> Path | None:
        """This run, read or not."""
        return self.opened.path

    def panes(self) -> Iterable[Widget]:
        """The run, and the sentence in place of it."""
        run = self.opened
        self._waiting, self._apart = Waiting(run, self._title), Apart()
        # The cards of another process's run are none of this one's: nothing is said of whose memory is what.
        self._devices = Devices(self._sampler, OwnCards(StoredView(None)))
        self._devices.can_focus = False
        self._settings, self._checkpoints, self._log = SettingsPane(run), CheckpointsPane(run), LogPane(self._current_log)
        self._hints = dict(_HINTS)
        self._progress, self._replicas = Progress(run, hints=self._hints), Replicas(run)
        self._curve = Curve(run, braille=not draws_ascii(self.app), least_wait=_CURVE_SECONDS)
        left = (self._devices, self._settings, self._checkpoints, self._log)
        self._body = OpenedBody(left, (self._progress, self._curve, self._replicas))
        return (self._waiting, self._apart, self._body)

    def place_panes(self, width: int, height: int) -> None:
        """Two columns where there is room for them."""
        there = self.opened.record is not None
        self._waiting.display, self._body.display = not there, there
        self._waiting.styles.height = height
        self._apart.display = bool(self._apart.sentence)
        height -= self._apart.display
        left = left_width(width)
        devices = self._device_rows(left, height)
        progress = 3 + self._progress.notes(width - left)
        replicas = min(self._replicas.rows_wanted(width - left - 4), max((height - progress) // 4, 1)) + 2
        checkpoints = min(self._checkpoints.rows_wanted(), max(height // 5, 2)) + 1
        log = max((height - checkpoints - devices) // 3, 4)
        self._body.resize_panes(
            left,
            {
                self._devices: devices,
                self._settings: height - checkpoints - log - devices,
                self._checkpoints: checkpoints,
                self._log: log,
                self._progress: progress,
                self._curve: height - progress - replicas,
                self._replicas: replicas,
            },
        )

    def _device_rows(self, left: int, height: int) -> int:
        """Rows of the devices, beside a run that trains on this machine."""
        if not left or not (self.opened.alive and self.opened.here):
            return 0
        _, tall, compact = self._devices.rows_wanted(left - 4)
        return min(tall + 1, max(height // 3, compact + 1), height // 2)

    def _current_log(self) -> LogTail:
        return LogTail() if self.opened.record is None else self.opened.record.log

    # -- keeping up ---------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Begin to read."""
        self._read()

    def on_unmount(self) -> None:
        """Nobody looks any more."""
        self._attachment.close()

    def beat(self) -> None:
        """Read again what another process trains, and follow it; of a run that is over, look whether somebody goes on with it."""
        self._beats += 1
        if not (self.opened.alive or self.opened.left):
            if self._beats % _BEATS == 0 and not self._busy:
                self._read(only_stirred=True)
            return
        if self.opened.here:
            self._attachment.keep()
        if self._beats % _BEATS:
            return
        late = self._busy
        if self._attachment.stirred or not self._attachment.attached or self._beats % _QUIET_BEATS == 0:
            self._attachment.stirred = False
            self._read()
        if late or not self._busy:
            # Otherwise they are painted together with what is read.
            self._devices.sample()

    def on_opened_screen_told(self, message: Told) -> None:
        """Look at once: a person waits for a key to show, or for a run to end."""
        self._read()

    def on_opened_screen_still(self, message: Still) -> None:
        """Only what was asked for meanwhile is read."""
        self._busy = False
        if self._read_again:
            self._read()

    def _read(self, *, only_stirred: bool = False) -> None:
        if self._busy:
            self._read_again = True
            return
        self._read_again = False
        ahead = self._curve.ahead()

        def read() -> None:
            if only_stirred and not self.opened.stirred():
                self.post_message(self.Still())
                return
            load_plotext()
            reading = self.opened.read()
            self.post_message(self.Read(reading, None if reading.record is None else ahead(reading.record)))

        self._read_apart(read)

    async def on_opened_screen_read(self, message: Read) -> None:
        """Show what was read."""
        self._busy, said = False, self.opened.problem
        first = self.opened.record is None
        self.opened.take(message.reading)
        if first and self.opened.alive and self.opened.here:
            self._attachment.keep()
        self._look_apart()
        if self.opened.record is not None and self.opened.problem not in (None, said):
            self.notify(str(self.opened.problem), severity="warning", markup=False)
        self.rearrange()
        self._devices.sample()
        for pane in (
            self._header,
            self._too_small,
            self._waiting,
            self._apart,
            self._settings,
            self._checkpoints,
            self._log,
            self._progress,
            self._replicas,
        ):
            pane.redraw()
        if message.ahead is not None:
            self._curve.take_over(message.ahead)
        if self._curve.due() or self.opened.ended:
            self._curve.redraw()
        if self._body.display and self.focused is None:
            self._curve.focus()
        if self._look is not None and self.opened.record is not None:
            look, self._look = self._look, None
            if self.app.screen is self:
                await self.run_action(f"app.{look}")
        if self._could != (could := self._keys_work()):
            self._could = could
            self.refresh_bindings()
        record = message.reading.record
        if self._read_again or (record is not None and record.stored is not None and record.stored.behind):
            self._read()

    def _look_apart(self) -> None:
        """Whether the keys can do something to a live run, and what to say where they cannot, or where the folder has gone."""
        run = self.opened
        self._devices.in_use = run.record.started.device if run.record and run.record.started else ()
        queued = "R lets it wait again" if run.left else "by another process"
        self._hints.update(_STEERED if self._steered else {**_HINTS, "paused": "by another process", "queued": queued})
        if not run.checkpoints:
            self._hints.update(_NEVER_SAVED)
        self._apart.sentence = ""
        if run.record is not None and run.problem is not None:
            self._apart.sentence = run.problem
        elif run.alive and not run.here:
            self._apart.sentence = f"it trains on {clean(run.host)}, and keys are heard only there"
        elif run.alive and self._attachment.missed and not self._attachment.attached:
            self._apart.sentence = f"the process that trains it (pid {run.pid}) does not answer"

    @property
    def _steered(self) -> bool:
        return self.opened.alive and self._attachment.attached

    # -- keys ---------------------------------------------------------------------------------------------------------

    def _keys_work(self) -> tuple[object, ...]:
        """What decides which keys mean something."""
        return self.opened.record is None, self.opened.state, self.opened.left, self._steered, bool(self.opened.checkpoints)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing to show or copy before the run is read; a live run is told what it can do now."""
        run = self.opened
        if action == "tell":
            states = {"pause": ("running",), "resume": ("paused",), "checkpoint": ("running", "paused")}
            return self._steered and run.state in states.get(str(parameters[0]), ("running", "paused"))
        if action == "take_out":
            return self._steered and run.state == "queued"
        if action == "resume":
            return (run.ended and bool(run.checkpoints)) or run.left or (run.state == "paused" and self._steered)
        return run.record is not None if action in ("settings", "copy") else True

    def action_tell(self, command: Command) -> None:
        """Give the run a command, in a thread: its process may take its time."""
        taken = _TAKEN_AT_ONCE.get(self.opened.state, _TAKEN).get(command, "")

        def tell() -> None:
            try:
                self._outside.ask(self.opened.path, command)
                self.post_message(self.Answered(taken, wrong=False))
            except ConfigError as error:
                self.post_message(self.Answered(error.reason, wrong=True))

        self.run_worker(tell, thread=True, exit_on_error=False, group="tell")

    def action_take_out(self) -> None:
        """Take the run out of the queue, which is to stop it before it begins."""
        self.action_tell("stop")

    def on_opened_screen_answered(self, message: Answered) -> None:
        """Say what came of it."""
        if message.sentence:
            self.notify(message.sentence, severity="warning" if message.wrong else "information", markup=False, timeout=4)
        self._read()

    def action_resume(self) -> None:
        """Go on with the run."""
        self.post_message(GoOn(self.opened.path))

    async def action_runs(self) -> None:
        """Back to the list of runs as it was left, or to a new one where this was not opened from it."""
        from tuitrain.tui.screens.runs import RunsScreen

        if isinstance(self.app.screen_stack[-2], RunsScreen):
            self.action_leave()
        else:
            await self.app.run_action("runs")

    def action_settings(self) -> None:
        """All that the run was made with, and what it has kept."""
        from tuitrain.tui.screens.settings import SettingsScreen

        self.app.push_screen(SettingsScreen(self.opened))

    def action_copy(self) -> None:
        """Copy the equal command line."""
        if self.opened.record is not None:
            self.copy(command_line(self.opened.record.config))
