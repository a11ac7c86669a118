"""The application: it owns the screens and the way out, and joins them with the session and the sampler."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen

from tuitrain.config import RunConfig
from tuitrain.events import Event
from tuitrain.runs.logtail import LogTail
from tuitrain.text import clean
from tuitrain.tui import kept_theme
from tuitrain.tui.code.writer import Writer
from tuitrain.tui.hosts.beside import Beside
from tuitrain.tui.hosts.outside import OtherProcesses, Outside
from tuitrain.tui.launch.fetch import Download, Fetch
from tuitrain.tui.leaving import Leaving
from tuitrain.tui.look import DARK, LIGHT, for_terminal
from tuitrain.tui.messages import GoOn, OpenRun, RunChanged, StartBeside
from tuitrain.tui.run_view import RunLike, RunView
from tuitrain.tui.screens.base import PaneScreen
from tuitrain.tui.screens.training import TrainingScreen
from tuitrain.tui.terminal.capture import Capture
from tuitrain.tui.terminal.glyphs import AsciiFilter, speaks_utf8
from tuitrain.tui.terminal.lasting import LastingApp
from tuitrain.tui.terminal.late_keys import LateKeysApp
from tuitrain.tui.widgets.devices import SamplerLike
from tuitrain.tui.widgets.keybar import key_name

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord
    from tuitrain.session import Session
    from tuitrain.tui.code.script import Subject, WriteScript
    from tuitrain.tui.hosts.going_on import More


class TuitrainApp(LateKeysApp[None], LastingApp[None]):
    """The app. It returns when the person quits and the run, if one was training, has ended or is another process's; its exit code is
    then 0. It also returns when its terminal has gone, and then the run may go on: see `leaving`.

    Args:
        session: hosts the run.
        sampler: says what the devices do.
        launch: what the launcher begins with.
        runs_dir: where the runs are kept.
        start_at_once: start `launch` without waiting for Enter.
        resume: with `start_at_once`, the folder of the run that goes on with `launch`.
        attach: the folder of a kept or live run to open at once.
        capture: where the process's prints come from; it must be entered around `run`.
        download: fetches CIFAR-10; without it the app offers no download. Its thread is cancelled when the app closes: `fetch.join` waits.
        write_script: writes a run as a script; without it the app shows no code. `scripts.join` waits for its threads.
        outside: other processes; the real ones where nothing else is given.
    """

    CSS_PATH = Path(__file__).with_name("tuitrain.tcss")
    TITLE = "tuitrain"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "launcher", "New run"),
        Binding("t", "training", "Training"),
        Binding("r", "runs", "Runs"),
        Binding("g", "gpus", "GPUs"),
        Binding("d", "doctor", "Doctor"),
        Binding("o", "log", "Log"),
        Binding("w", "parameters", "Parameters"),
        Binding("p", "predictions", "Predictions"),
        Binding("i", "analysis", "Analysis", tooltip="Where the time of the steps went"),
        Binding("C", "code", "Code", tooltip="The run as a plain PyTorch script"),
        Binding("question_mark", "help", "Help"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+l", "repaint", "Repaint the screen", show=False),
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
        resume: Path | None = None,
        attach: Path | None = None,
        capture: Capture | None = None,
        download: Download | None = None,
        write_script: WriteScript | None = None,
        outside: Outside | None = None,
    ) -> None:
        self._ascii = [] if speaks_utf8(os.environ, getattr(sys.__stdout__, "encoding", None)) else [AsciiFilter()]
        super().__init__()
        self.view = RunView(session)
        self.fetch = Fetch(download)
        self.scripts = Writer(write_script)
        self.outside = outside or OtherProcesses()
        self.beside = Beside(self, self.view, self.outside, runs_dir)
        self.leaving = Leaving(self, self.outside)
        self._sampler = sampler
        self._launch = launch
        self._runs_dir = runs_dir
        self._start_at_once = start_at_once
        self._resume = resume
        self._open_first = attach
        self._capture = capture
        self._log_before = LogTail()
        self._announced: RunRecord | None = None
        for theme in (DARK, LIGHT):
            self.register_theme(for_terminal(theme, self.console.color_system))
        self._theme_kept = kept_theme.read()
        self.theme = self._theme_kept if self._theme_kept in self.available_themes else DARK.name
        if capture is not None:
            # A traceback of the app's own must reach the terminal, not the pipe.
            self.error_console = Console(file=capture.terminal, markup=False, highlight=False)

    def get_default_screen(self) -> Screen[None]:
        """The main screen is the first one, so that the first frame is its."""
        return TrainingScreen(self.view, self._sampler, self._launch, fetch=self.fetch, log=self._log_before, utf8=not self._ascii)

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
        self.view.session.screen_attached = True
        self.theme_changed_signal.subscribe(self, lambda _: self._theme_changed())
        if self._capture is not None:
            self._capture.take_prints()
            self._capture.send_to(self._printed)
        if self._start_at_once:
            self.call_after_refresh(lambda: self.main.start(self._launch, resume=self._resume))
        # Not before the first frame.
        self.call_after_refresh(self.run_worker, self.beside.revive)
        if self._open_first is not None:
            self.post_message(OpenRun(self._open_first, clean(self._open_first.name)))

    def on_unmount(self) -> None:
        """Let a download end."""
        self.fetch.cancel()

    def _heard(self, batch: Sequence[Event]) -> None:
        """From the recorder's thread: say that there is something new, and nothing else."""
        self.post_message(RunChanged())

    def _printed(self, line: str) -> None:
        """From the capture's thread."""
        record = self.view.record
        (self._log_before if record is None else record.log).add("output", line)

    def on_run_changed(self, message: RunChanged) -> None:
        """Let the screens look; while the app closes there may be none any more."""
        if not self.screen_stack:
            return
        self._announce_end()
        self.main.run_changed()
        if isinstance(self.screen, PaneScreen) and self.screen is not self.main:
            self.screen.run_changed()

    def _announce_end(self) -> None:
        """Ring once when the run has ended by itself, and say so where the person looks at something else."""
        record = self.view.record
        if record is None or not self.view.ended or record is self._announced:
            return
        self._announced = record
        if record.state == "stopped":
            return
        self.bell()
        if self.screen is not self.main or self.main.view != "run":
            self.notify(f"{record.config.title()} {record.state} at step {record.step:,}", markup=False)

    def _theme_changed(self) -> None:
        """Paint in the new colours, and start with them the next time."""
        for screen in self.screen_stack:
            if isinstance(screen, PaneScreen):
                screen.redraw_all()
        if self.theme != (self._theme_kept or DARK.name):
            self._theme_kept = self.theme
            self.run_worker(self._keep_theme, thread=True, group="theme")

    def _keep_theme(self) -> None:
        # A theme that cannot be kept is chosen again the next time.
        with contextlib.suppress(OSError):
            kept_theme.keep(self.theme)

    @property
    def subject(self) -> RunLike:
        """The run that the person looks at: the one of the topmost screen that is about a run."""
        return next((screen.run for screen in reversed(self.screen_stack) if isinstance(screen, PaneScreen)), self.view)

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys mean something now."""
        front = next((screen for screen in reversed(self.screen_stack) if isinstance(screen, PaneScreen)), None)
        launching = front is self.main and self.main.view == "launch"
        works = {
            "launcher": not launching,
            "training": self.view.record is not None and not (front is self.main and not launching),
            "parameters": self.subject.record is not None and not launching,
            "predictions": self.subject.record is not None and not launching,
            "analysis": self.subject.record is not None and not launching,
            "code": self.scripts.possible,
        }
        return works.get(action, True)

    def action_help(self) -> None:
        """Explain the keys of the screen that one is on."""
        from tuitrain.tui.screens.help import HelpScreen

        screen = self.screen
        if isinstance(screen, PaneScreen):
            self.push_screen(HelpScreen(screen.ABOUT, screen.help_lines()))

    def action_launcher(self) -> None:
        """Show the launcher."""
        self._to_main()
        self.main.show("launch")

    def action_training(self) -> None:
        """Show the run of this app."""
        self._to_main()
        self.main.show("run")

    def action_runs(self) -> None:
        """Show the runs that are kept."""
        from tuitrain.tui.screens.runs import RunsScreen

        self._to_main()
        self.push_screen(RunsScreen(self.view, self._runs_dir, outside=self.outside))

    def action_gpus(self) -> None:
        """Show what the cards do, and who is on them."""
        from tuitrain.tui.screens.gpus import GpusScreen

        self._to_main()
        self.push_screen(GpusScreen(self.view, self._sampler, self.main.own_cards))

    def action_doctor(self) -> None:
        """Say what is wrong with this machine's GPUs."""
        from tuitrain.tui.screens.doctor import DoctorScreen

        self._to_main()
        self.push_screen(DoctorScreen(self.view, self._sampler, self._runs_dir))

    def action_parameters(self) -> None:
        """Show what the network of the run is made of."""
        from tuitrain.tui.screens.parameters import ParametersScreen

        self.push_screen(ParametersScreen(self.subject))

    def action_predictions(self) -> None:
        """Show what the network says of the test images."""
        from tuitrain.tui.screens.predictions import PredictionsScreen

        self.push_screen(PredictionsScreen(self.subject))

    def action_analysis(self) -> None:
        """Show where the time of the run's steps went."""
        from tuitrain.tui.screens.analysis import AnalysisScreen

        self.push_screen(AnalysisScreen(self.subject))

    def action_code(self) -> None:
        """Show the script of the run, or of what the launcher holds where there is none."""
        from tuitrain.tui.screens.code import CodeScreen

        front = next((screen for screen in reversed(self.screen_stack) if isinstance(screen, PaneScreen)), self.main)
        shown = front.shown_run()
        subject: Subject | None = shown if isinstance(shown, Path) else self.main.proposal(shown)
        if subject is None:
            self.notify("A field of the launcher is not right yet: see the sentence beside it.", severity="warning")
        else:
            self.push_screen(CodeScreen(self.subject, subject, self.scripts))

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
        self.leaving.ask()

    def hang_up(self) -> None:
        """The terminal has gone: the screen ends, and a run that trains here goes on."""
        self.leaving.hang_up()

    def terminate(self, number: int) -> None:
        """A signal asks the process to end."""
        self.leaving.terminate(number)

    # -- runs of other processes, and kept ones ---------------------------------------------------------------------------

    def on_open_run(self, message: OpenRun) -> None:
        """Show a run of another process, or a kept one."""
        from tuitrain.tui.screens.opened import OpenedScreen

        self.push_screen(OpenedScreen(message.path, message.title, outside=self.outside, sampler=self._sampler))

    def on_start_beside(self, message: StartBeside) -> None:
        """Start a run in a process of its own."""
        self.run_worker(self.beside.start(message.config, message.devices, self.main.refused_beside))

    def on_go_on(self, message: GoOn) -> None:
        """Go on with a kept run, or one that is paused."""
        self.run_worker(self.beside.go_on(message.path))

    def say(self, sentence: str, *, wrong: bool = False) -> None:
        """Tell the person."""
        self.notify(sentence, severity="warning" if wrong else "information", markup=False, timeout=10 if wrong else 5)

    def go_on_here(self, config: RunConfig, path: Path) -> None:
        """Go on with a kept run, and show it."""
        self._to_main()
        self.main.start(config, resume=path)

    async def ask_to_queue(self, devices: str, sentence: str) -> str | None:
        """Ask whether a run is to wait for devices that are in use."""
        from tuitrain.tui.screens.ask import QueueDialog

        return await self.push_screen_wait(QueueDialog(devices, sentence))

    async def ask_for_more(self, more: More) -> int | None:
        """Ask how much longer a finished run is to train."""
        from tuitrain.tui.screens.more import MoreDialog

        return await self.push_screen_wait(MoreDialog(more))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers: every key that works now, and the themes."""
        offered = {"screen.copy_text", "command_palette"}
        for key, active in screen.active_bindings.items():
            binding, node = active.binding, active.node
            if active.enabled and key != "ctrl+q" and binding.description and binding.action not in offered:
                offered.add(binding.action)
                yield SystemCommand(
                    binding.tooltip or binding.description, f"key {key_name(key)}", partial(self.run_action, binding.action, node)
                )
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)


def _log_of(run: RunLike) -> LogTail:
    return LogTail() if run.record is None else run.record.log
