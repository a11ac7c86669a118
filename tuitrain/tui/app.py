"""The application: it owns the main screen and the way out, and joins them with the session, the sampler and what is printed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen

from tuitrain.capture import Capture
from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import Event
from tuitrain.runs.logtail import LogTail
from tuitrain.text import clean
from tuitrain.tui import kept_theme
from tuitrain.tui.code.writer import Writer
from tuitrain.tui.hosts.beside import Beside
from tuitrain.tui.hosts.in_thread import in_thread
from tuitrain.tui.hosts.outside import OtherProcesses, Outside
from tuitrain.tui.launch.fetch import Download, Fetch
from tuitrain.tui.leaving import Leaving
from tuitrain.tui.look import DARK, LIGHT, for_terminal
from tuitrain.tui.messages import GoOn, Launched, NewLike, OpenRun, RunChanged, StartBeside
from tuitrain.tui.navigation import NavigatedApp
from tuitrain.tui.run_view import RunView
from tuitrain.tui.sampler import SamplerLike
from tuitrain.tui.screens.base import PaneScreen
from tuitrain.tui.screens.training import TrainingScreen
from tuitrain.tui.terminal.glyphs import AsciiFilter, speaks_utf8

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord
    from tuitrain.session import Session
    from tuitrain.tui.code.script import WriteScript
    from tuitrain.tui.hosts.going_on import More
    from tuitrain.tui.launch.recipe_file import RecipeFile


class TuitrainApp(NavigatedApp):
    """The app. It returns when the person quits and the run, if one was training, has ended or is another process's; its exit code is
    then 0. It also returns when its terminal has gone, and then the run may go on: see `leaving`.

    Args:
        session: hosts the run.
        sampler: says what the devices do.
        launch: what the launcher begins with.
        runs_dir: where the runs are kept.
        start_at_once: start `launch` without waiting for Enter.
        recipe_file: what `launch` was read from.
        resume: with `start_at_once`, the folder of the run that goes on with `launch`.
        attach: the folder of a kept or live run to open at once.
        capture: where the process's prints come from; it must be entered around `run`.
        download: fetches CIFAR-10; without it the app offers no download. Its thread is cancelled when the app closes: `fetch.join` waits.
        write_script: writes a run as a script; without it the app shows no code. `scripts.join` waits for its threads.
        cpu_only: says, after a look at the disk, whether torch is built for the CPU only; without it the GPUs are offered until a run has
            found that out.
        outside: other processes; the real ones where nothing else is given.
    """

    CSS_PATH = Path(__file__).with_name("tuitrain.tcss")
    TITLE = "tuitrain"
    # Our lines select what they hold by themselves; Textual's way takes a whole pane where it does not know its text.
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        # They are about the terminal, and so work in dialogs and fields too.
        Binding("ctrl+l", "repaint", "Repaint the screen", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "To the shell", show=False, priority=True),
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
        recipe_file: RecipeFile | None = None,
        resume: Path | None = None,
        attach: Path | None = None,
        capture: Capture | None = None,
        download: Download | None = None,
        write_script: WriteScript | None = None,
        cpu_only: Callable[[], bool] | None = None,
        outside: Outside | None = None,
    ) -> None:
        self._ascii = [] if speaks_utf8(os.environ, getattr(sys.__stdout__, "encoding", None)) else [AsciiFilter()]
        super().__init__(RunView(session), sampler, runs_dir, outside or OtherProcesses(), Writer(write_script))
        self.fetch = Fetch(download)
        self.beside = Beside(self, self.view, self.outside, runs_dir)
        self.leaving = Leaving(self, self.beside, self.outside)
        self._launch = launch
        self._start_at_once = start_at_once
        self._recipe_file = recipe_file
        self._resume = resume
        self._open_first = attach
        self._capture = capture
        self._cpu_only = cpu_only
        self._log_before = LogTail()
        self._awaited: object = None
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
        return TrainingScreen(
            self.view, self._sampler, self._launch, self._runs_dir, fetch=self.fetch, log=self._log_before, utf8=not self._ascii
        )

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, and ASCII for terminals that need it."""
        return [*super().get_line_filters(), *self._ascii]

    def on_mount(self) -> None:
        """Listen to the session and to what is printed."""
        self.view.session.subscribe(self._heard)
        self.view.session.screen_attached = True
        self.theme_changed_signal.subscribe(self, lambda _: self._theme_changed())
        if self._capture is not None:
            self._capture.take_prints()
            self._capture.send_to(self._printed)
        if self._start_at_once:
            # An Enter that was typed too early, at the shell, is not to start it too.
            self.hold_keys()
            self.call_after_refresh(self._start_first)
        # Not before the first frame.
        self.call_after_refresh(self.run_worker, self.beside.revive, exit_on_error=False)
        self.call_after_refresh(self.run_worker, self._ask_for_what_torch_is_built, exit_on_error=False)
        if self._open_first is not None:
            self.post_message(OpenRun(self._open_first, clean(self._open_first.name)))

    async def _start_first(self) -> None:
        self.main.start(self._launch, resume=self._resume)
        await self.let_keys_go()

    async def _ask_for_what_torch_is_built(self) -> None:
        if self._cpu_only is not None and await in_thread(self._cpu_only):
            self.main.take_no_gpu("torch is built for the CPU only")

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
        self.fate_changed()
        self.leaving.run_changed()
        self.main.run_changed()
        before, self._awaited = self._awaited, self.view.awaited
        record = self.view.record
        if self._awaited == before and record is not None and record.epochs_fly:
            # The next beat shows it, and what has come until then.
            return
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
            self.run_worker(self._keep_theme, thread=True, exit_on_error=False, group="theme")

    def _keep_theme(self) -> None:
        # A theme that cannot be kept is chosen again the next time.
        with contextlib.suppress(OSError):
            kept_theme.keep(self.theme)

    async def action_quit(self) -> None:
        """Leave at once, or ask first while a run is alive."""
        self.leaving.ask()

    def before_standing_still(self) -> str:
        """A run that trains here stands still with the app."""
        record = self.view.record
        return f"{clean(record.config.title())} stands still with tuitrain; fg goes on.\r\n" if record and self.view.alive else ""

    def if_killed(self) -> str:
        """A run that trains here would end too."""
        record = self.view.record
        run = record.run if record is not None and self.view.alive and not self.view.ended else None
        if record is None or not run:
            return "tuitrain was killed, or it crashed."
        if not record.saved:
            return "tuitrain was killed, or it crashed, and with it a run that had saved nothing yet."
        return f"tuitrain was killed, or it crashed; its run goes on with: tuitrain resume {run}"

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

        opened = OpenedScreen(
            message.path, message.title, outside=self.outside, sampler=self._sampler, look=message.look, sent=lambda: self.sent
        )
        self.push_screen(opened)

    def on_start_beside(self, message: StartBeside) -> None:
        """Start a run in a process of its own."""
        refused = partial(self.main.refused_beside, message.config)
        self.run_worker(self.beside.start(message.config, message.devices, self.main.began_beside, refused), exit_on_error=False)

    def on_launched(self, message: Launched) -> None:
        """Say so where the recipe's file was edited meanwhile."""
        if (file := message.file or self._recipe_file) is not None:
            self.run_worker(self._look_at(file), exit_on_error=False)

    async def _look_at(self, file: RecipeFile) -> None:
        if sentence := await in_thread(file.edited):
            self.say(sentence, wrong=True)

    def on_go_on(self, message: GoOn) -> None:
        """Go on with a kept run, or one that is paused."""
        self.run_worker(self.beside.go_on(message.path), exit_on_error=False)

    def on_new_like(self, message: NewLike) -> None:
        """Fill in the launcher with what another run had."""
        self.run_worker(self._fill_in(message), exit_on_error=False)

    async def _fill_in(self, message: NewLike) -> None:
        from tuitrain.tui.browse.new_like import new_like

        try:
            found = await in_thread(partial(new_like, message.path, weights=message.weights))
        except ConfigError as error:
            self.say(clean(error.reason), wrong=True)
            return
        self.action_launcher()
        self.main.propose(found.config)
        self.say(clean(found.sentence))

    def say(self, sentence: str, *, wrong: bool = False) -> None:
        """Tell the person."""
        self.notify(sentence, severity="warning" if wrong else "information", markup=False, timeout=10 if wrong else 5)

    def go_on_here(self, config: RunConfig, path: Path) -> None:
        """Go on with a kept run, and show it."""
        self.to_main()
        self.main.start(config, resume=path)

    async def ask_to_queue(self, devices: Sequence[str], sentence: str) -> str | None:
        """Ask whether a run is to wait for devices that are in use."""
        from tuitrain.tui.screens.ask import QueueDialog

        return await self.push_screen_wait(QueueDialog(devices, sentence))

    async def ask_for_more(self, more: More) -> int | None:
        """Ask how much longer a finished run is to train."""
        from tuitrain.tui.screens.more import MoreDialog

        return await self.push_screen_wait(MoreDialog(more))
