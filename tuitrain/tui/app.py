"""The application: it owns the screens and the way out, and joins them with the session and the sampler."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen

from tuitrain.config import RunConfig
from tuitrain.events import Event
from tuitrain.runs.logtail import LogTail
from tuitrain.tui.capture import Capture
from tuitrain.tui.glyphs import AsciiFilter, speaks_utf8
from tuitrain.tui.look import DARK, LIGHT
from tuitrain.tui.messages import RunChanged
from tuitrain.tui.run_view import RunLike, RunView
from tuitrain.tui.screens.base import PaneScreen
from tuitrain.tui.screens.training import TrainingScreen
from tuitrain.tui.widgets.devices import SamplerLike

if TYPE_CHECKING:
    from tuitrain.session import Session

_POLL_SECONDS = 0.1


class TuitrainApp(App[None]):
    """The app. It returns when the person quits and the run, if one was training, has ended; its exit code is then 0.

    Args:
        session: hosts the run.
        sampler: says what the devices do.
        launch: what the launcher begins with.
        runs_dir: where the runs are kept.
        start_at_once: start `launch` without waiting for Enter.
        capture: where the process's prints come from; it must be entered around `run`.
    """

    CSS_PATH = Path(__file__).with_name("tuitrain.tcss")
    TITLE = "tuitrain"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "launcher", "New run"),
        Binding("t", "training", "Training"),
        Binding("o", "log", "Log"),
        Binding("question_mark", "help", "Help"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, system=True),
    ]

    def __init__(
        self,
        session: Session,
        sampler: SamplerLike,
        launch: RunConfig,
        runs_dir: Path,
        *,
        start_at_once: bool = False,
        capture: Capture | None = None,
    ) -> None:
        self._ascii = [] if speaks_utf8(os.environ, getattr(sys.__stdout__, "encoding", None)) else [AsciiFilter()]
        super().__init__()
        self.view = RunView(session)
        self._sampler = sampler
        self._launch = launch
        self._runs_dir = runs_dir
        self._start_at_once = start_at_once
        self._capture = capture
        self._log_before = LogTail()
        self._quitting = False
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name
        if capture is not None:
            # A traceback of the app's own must reach the terminal, not the pipe.
            self.error_console = Console(file=capture.terminal, markup=False, highlight=False)

    def get_default_screen(self) -> Screen[None]:
        """The main screen is the first one, so that the first frame is its."""
        return TrainingScreen(self.view, self._sampler, self._launch, log=self._log_before, utf8=not self._ascii)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, and ASCII for terminals that need it."""
        return [*super().get_line_filters(), *self._ascii]

    @property
    def main(self) -> TrainingScreen:
        """The main screen, also while a dialog lies over it."""
        screen = self.screen_stack[0]
        assert isinstance(screen, TrainingScreen)
        return screen

    def on_mount(self) -> None:
        """Listen to the session and to what is printed."""
        self.view.session.subscribe(self._heard)
        self.theme_changed_signal.subscribe(self, lambda _: self._repaint())
        if self._capture is not None:
            self._capture.take_prints()
            self._capture.send_to(self._printed)
        if self._start_at_once:
            self.call_after_refresh(lambda: self.main.start(self._launch))

    def _heard(self, batch: Sequence[Event]) -> None:
        """From the recorder's thread: say that there is something new, and nothing else."""
        self.post_message(RunChanged())

    def _printed(self, line: str) -> None:
        """From the capture's thread."""
        record = self.view.record
        (self._log_before if record is None else record.log).add("output", line)

    def on_run_changed(self, message: RunChanged) -> None:
        """Let the screens look."""
        self.main.run_changed()
        if isinstance(self.screen, PaneScreen) and self.screen is not self.main:
            self.screen.run_changed()

    def _repaint(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, PaneScreen):
                screen.redraw_all()

    @property
    def subject(self) -> RunLike:
        """The run that the person looks at: the one of the topmost screen that is about a run."""
        return next((screen.run for screen in reversed(self.screen_stack) if isinstance(screen, PaneScreen)), self.view)

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys mean something now."""
        launching = self.screen is self.main and self.main.view == "launch"
        works = {
            "launcher": not launching,
            "training": self.view.record is not None and not (self.screen is self.main and not launching),
        }
        return works.get(action, True)

    def action_help(self) -> None:
        """Explain the keys of the screen that one is on."""
        from tuitrain.tui.screens.dialogs import HelpScreen

        screen = self.screen
        if isinstance(screen, PaneScreen):
            self.push_screen(HelpScreen(screen.ABOUT, screen.KEYS))

    def action_launcher(self) -> None:
        """Show the launcher."""
        self._to_main()
        self.main.show("launch")

    def action_training(self) -> None:
        """Show the run of this app."""
        self._to_main()
        self.main.show("run")

    def action_log(self) -> None:
        """Show the whole log of the run."""
        from tuitrain.tui.screens.log import LogScreen

        subject = self.subject
        self.push_screen(LogScreen(subject, self.main.current_log if subject is self.view else lambda: _log_of(subject)))

    def _to_main(self) -> None:
        """Close every screen over the main one."""
        while self.screen is not self.main:
            self.pop_screen()

    async def action_quit(self) -> None:
        """Leave at once, or ask first while a run is alive."""
        from tuitrain.tui.screens.dialogs import QuitDialog

        if not self.view.alive:
            self.exit()
        elif self._quitting:
            self.notify("Stopping: the last checkpoint is being written.", timeout=3)
        elif not isinstance(self.screen, QuitDialog):
            self.push_screen(QuitDialog(), self._quit_answered)

    def _quit_answered(self, answer: str | None) -> None:
        if answer != "stop":
            return
        self._quitting = True
        self.view.session.stop()
        self.main.show("run")
        self.notify("Stopping: tuitrain closes when the last checkpoint is written.", timeout=30)
        self.set_interval(_POLL_SECONDS, self._leave_when_ended)

    def _leave_when_ended(self) -> None:
        self.main.run_changed()
        if not self.view.alive:
            self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers: the keys that work now, and the themes."""
        main = self.main
        offers = (
            ("Start", "Start what the launcher shows", "start", main.action_start),
            ("Pause", "Wait at the next step", "pause", main.action_pause),
            ("Go on", "Go on with the paused run", "go_on", main.action_go_on),
            ("Stop", "Stop the run at the next step, with a checkpoint", "stop", main.action_stop),
            ("Checkpoint", "Write a checkpoint now", "checkpoint", main.action_checkpoint),
            ("New run", "Show the launcher", "launcher", self.action_launcher),
            ("Training", "Show the run", "training", self.action_training),
            ("Log scale", "Linear or logarithmic loss axis", "log_scale", main.action_log_scale),
            ("Copy command", "Copy the equal tuitrain run line", "copy", main.action_copy),
        )
        for title, help_text, action, command in offers:
            if main.check_action(action, ()):
                yield SystemCommand(title, help_text, command)
        yield SystemCommand("Log", "Show the whole log", self.action_log)
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)
        yield SystemCommand("Keys", "Explain the keys", self.action_help)
        yield SystemCommand("Quit", "Leave tuitrain", self.action_quit)


def _log_of(run: RunLike) -> LogTail:
    return LogTail() if run.record is None else run.record.log
