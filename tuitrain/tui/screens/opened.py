"""A run that was kept, or that another process trains: its curve, shapes, log, settings and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tuitrain.config import ConfigError
from tuitrain.recipes import command_line
from tuitrain.tui.browse.opened_run import OpenedRun, Reading
from tuitrain.tui.browse.pace import Pace
from tuitrain.tui.browse.steering import Steering, steering, why_apart, why_late
from tuitrain.tui.curve.chart import load as load_plotext
from tuitrain.tui.curve.later import Ahead
from tuitrain.tui.hosts.attachment import Attachment
from tuitrain.tui.messages import GoOn, News
from tuitrain.tui.own_memory import OwnCards
from tuitrain.tui.run_view import StoredView, log_of
from tuitrain.tui.screens.base import NEW_LIKE, NEW_LIKE_KEYS, Help, PaneScreen
from tuitrain.tui.terminal.glyphs import draws_ascii
from tuitrain.tui.widgets.curve import Curve
from tuitrain.tui.widgets.devices import Devices
from tuitrain.tui.widgets.log import LogPane
from tuitrain.tui.widgets.opened_body import Apart, OpenedBody, Waiting
from tuitrain.tui.widgets.progress import Progress
from tuitrain.tui.widgets.replicas import Replicas
from tuitrain.tui.widgets.settings import CheckpointsPane, SettingsPane

if TYPE_CHECKING:
    from tuitrain.events import Command
    from tuitrain.tui.hosts.outside import Outside
    from tuitrain.tui.sampler import SamplerLike

_BEATS, _MOST_BEATS = 2, 6
"""Whoever only watches gets new numbers every so many beats; what a person waits for, as after a key, is shown at once."""
_BYTES = 180
"""A second, on average, for what nobody waits for."""
_QUIET_BEATS = 6
"""The folder of a run that says nothing, as while it is paused, is read every so many beats."""
_CURVE_SECONDS = 3.0
"""A curve costs more than all numbers beside it, so every second reading is drawn."""


class OpenedScreen(PaneScreen):
    """One run, read from its folder.

    Args:
        path: the folder.
        title: what the run is called, until it is read.
        outside: the process that trains it, where one does.
        sampler: the devices, which are shown beside a run that trains on this machine.
        look: an action of the app, taken as soon as the run is read.
        sent: how many bytes the terminal has got so far.
    """

    AUTO_FOCUS = "#curve"
    ABOUT = "A run as its folder tells it. One that another process trains is followed, and told what the keys say."
    FIRST: ClassVar[tuple[str, ...]] = ("tell", "take_out", "resume", "metric", "move", "zoom", "settings")
    KEYS: ClassVar[Help] = (
        ("space  x  c", "pause or go on, stop or take out of the queue, write a checkpoint: of a live run"),
        ("R", "go on with an ended run, or one that is paused"),
        NEW_LIKE_KEYS,
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
        Binding("R", "say_why_not", show=False),
        *NEW_LIKE,
        Binding("s", "settings", "Settings"),
        Binding("y", "copy", "Copy command"),
        Binding("escape", "leave", "Close"),
        Binding("r", "runs", "Runs", show=False),
    ]

    class Told(News, bubble=False):
        """The run's process says that something changed, or does not answer any more."""

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

    def __init__(
        self, path: Path, title: str, *, outside: Outside, sampler: SamplerLike, look: str | None, sent: Callable[[], int]
    ) -> None:
        self.opened = OpenedRun(path)
        super().__init__(self.opened)
        self._title = title
        self._outside = outside
        self._sampler = sampler
        self._look = look
        self._attachment = Attachment(path, outside, lambda: self.post_message(self.Told()))
        self._read_again = False
        self._could: Steering | None = None
        self._beats = self._read_by = 0
        self._pace = Pace(sent, least=_BEATS, most=_MOST_BEATS, rate=_BYTES)

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
        self._settings, self._checkpoints, self._log = SettingsPane(run), CheckpointsPane(run), LogPane(partial(log_of, run))
        self._progress, self._replicas = Progress(run), Replicas(run)
        self._curve = Curve(run, braille=not draws_ascii(self.app), least_wait=_CURVE_SECONDS)
        self._body = OpenedBody(self._devices, self._settings, self._checkpoints, self._log, self._progress, self._curve, self._replicas)
        return (self._waiting, self._apart, self._body)

    def place_panes(self, width: int, height: int) -> None:
        """Two columns where there is room for them."""
        there = self.opened.record is not None
        self._waiting.display, self._body.display = not there, there
        self._waiting.styles.height = height
        self._apart.display = bool(self._apart.sentence or self._apart.late)
        self._body.resize_panes(width, height - self._apart.display, devices=self.opened.alive and self.opened.here)

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
        if not self._pace.due(self._beats):
            return
        late = self._busy
        if self._attachment.stirred or not self._attachment.attached or self._beats >= self._read_by:
            self._attachment.stirred, self._read_by = False, self._beats + _QUIET_BEATS
            self._read()
        if late or not self._busy:
            # Otherwise they are painted together with what is read.
            self._devices.sample()

    def beat_below(self) -> None:
        """What shows more of this run, such as its log, lives on what is read here."""
        if self._more_of_it is not None:
            self.beat()

    @property
    def _more_of_it(self) -> PaneScreen | None:
        """The screen on top, where it is another one about this run; while the app closes there may be none any more."""
        top = self.app.screen_stack[-1] if self.app.screen_stack else None
        return top if isinstance(top, PaneScreen) and top is not self and top.run is self.opened else None

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
        if message.ahead is not None:
            self._curve.take_over(message.ahead)
        self._redraw()
        if (more := self._more_of_it) is not None:
            more.run_changed()
        await self._look_further()
        if self._could != (could := self._steering):
            self._could = could
            self.refresh_bindings()
        record = message.reading.record
        if self._read_again or (record is not None and record.stored is not None and record.stored.behind):
            self._read()

    def _redraw(self) -> None:
        self.rearrange()
        self._devices.sample()
        around = (self._header, self._too_small, self._waiting, self._apart)
        for pane in (*around, self._settings, self._checkpoints, self._log, self._progress, self._replicas):
            pane.redraw()
        if self._curve.due() or self.opened.ended:
            self._curve.redraw()
        if self._body.display and self.focused is None:
            self._curve.focus()

    async def _look_further(self) -> None:
        """Take the action for which the run was opened, once there is a run, unless the person has gone on to another screen."""
        if self._look is not None and self.opened.record is not None:
            look, self._look = self._look, None
            if self.app.screen is self:
                await self.run_action(f"app.{look}")

    def _look_apart(self) -> None:
        """What to say of the keys, and where they do nothing, or of a folder that has gone."""
        run = self.opened
        self._devices.in_use = run.record.started.device if run.record and run.record.started else ()
        self._devices.run_host = run.pid if run.alive and run.here else None
        self._progress.hints = self._steering.hints()
        self._apart.sentence = why_apart(run, self._attachment)
        self._apart.late = why_late(run)

    @property
    def _steering(self) -> Steering:
        return steering(self.opened, self._attachment)

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing to show or copy before the run is read; a live run is told what it can do now."""
        can = self._steering
        if action == "tell":
            return can.takes(cast("Command", parameters[0]))
        works = {"take_out": can.leaves_queue, "resume": can.goes_on, "settings": can.read, "copy": can.read, "new_like": can.read}
        works["say_why_not"] = can.read and not can.goes_on
        return works.get(action, True)

    def action_tell(self, command: Command) -> None:
        """Give the run a command, in a thread: its process may take its time."""
        taken = self._steering.answer(command)

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

    def action_say_why_not(self) -> None:
        """Going on with a run that trains, waits or was never saved is refused with a sentence."""
        self.action_resume()

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
