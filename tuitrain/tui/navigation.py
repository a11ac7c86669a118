"""The keys that lead from screen to screen, and the palette, which offers every key."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import ThemeProvider

from tuitrain.tui.code.writer import Writer
from tuitrain.tui.hosts.outside import Outside
from tuitrain.tui.run_view import RunLike, RunView, log_of
from tuitrain.tui.sampler import SamplerLike
from tuitrain.tui.screens.base import PaneScreen
from tuitrain.tui.screens.training import TrainingScreen
from tuitrain.tui.terminal.in_turn import KeysInTurnApp
from tuitrain.tui.terminal.lasting import LastingApp
from tuitrain.tui.toasts import ToastingApp
from tuitrain.tui.widgets.keybar import key_name

if TYPE_CHECKING:
    from tuitrain.tui.browse.run_list import RunList
    from tuitrain.tui.code.script import Subject


class NavigatedApp(KeysInTurnApp[None], ToastingApp[None], LastingApp[None]):
    """An app whose screens lie over its main one; those that the first frame does not need are imported when they open.

    Args:
        view: the run of the app's own session.
        sampler: says what the devices do.
        runs_dir: where the runs are kept.
        outside: other processes.
        scripts: writes runs as scripts.
    """

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
        # What nvitop, btop, htop and W&B LEET open it with.
        Binding("h,f1", "help", show=False),
    ]

    def __init__(self, view: RunView, sampler: SamplerLike, runs_dir: Path, outside: Outside, scripts: Writer) -> None:
        super().__init__()
        self.view = view
        self.outside = outside
        self.scripts = scripts
        self._sampler = sampler
        self._runs_dir = runs_dir
        self._runs: RunList | None = None

    # -- what one looks at ----------------------------------------------------------------------------------------------

    @property
    def main(self) -> TrainingScreen:
        """The main screen, also while a dialog lies over it."""
        screen = self.screen_stack[0]
        assert isinstance(screen, TrainingScreen)
        return screen

    @property
    def front(self) -> PaneScreen | None:
        """The whole screen that one sees, also while a dialog lies over it; while the app closes there may be none."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, PaneScreen)), None)

    @property
    def subject(self) -> RunLike:
        """The run that the person looks at: the one of the topmost screen that is about a run."""
        front = self.front
        return self.view if front is None else front.run

    def to_main(self) -> None:
        """Close every screen over the main one."""
        while self.screen is not self.main:
            self.screen.dismiss()

    def _back_to(self, kind: type[PaneScreen]) -> bool:
        """Close what lies over the screen of that kind; whether there is one."""
        if not any(isinstance(screen, kind) for screen in self.screen_stack):
            return False
        while not isinstance(self.screen, kind):
            self.screen.dismiss()
        return True

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys mean something now."""
        front = self.front
        launching = front is self.main and self.main.view == "launch"
        about_a_run = self.subject.record is not None and not launching
        works = {
            "launcher": not launching,
            "training": self.view.record is not None and (launching or front is not self.main),
            "parameters": about_a_run,
            "predictions": about_a_run,
            "analysis": about_a_run,
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
        self.to_main()
        self.main.show("launch")

    def action_training(self) -> None:
        """Show the run of this app."""
        self.to_main()
        self.main.show("run")

    def action_runs(self) -> None:
        """Show the runs that are kept."""
        from tuitrain.tui.browse.run_list import RunList
        from tuitrain.tui.screens.runs import RunsScreen

        if not self._back_to(RunsScreen):
            self.to_main()
            # With its marks, filter and order, wherever one has been since.
            self._runs = self._runs or RunList()
            self._runs.begin_anew()
            self.push_screen(RunsScreen(self.view, self._runs_dir, outside=self.outside, runs=self._runs))

    def action_gpus(self) -> None:
        """Show what the cards do, and who is on them."""
        from tuitrain.tui.screens.gpus import GpusScreen

        if not self._back_to(GpusScreen):
            self.push_screen(GpusScreen(self.view, self._sampler, self.main.own_cards))

    def action_doctor(self) -> None:
        """Say what is wrong with this machine's GPUs."""
        from tuitrain.tui.screens.doctor import DoctorScreen

        if not self._back_to(DoctorScreen):
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

        front = self.front
        shown = None if front is None else front.shown_run()
        subject: Subject | None = self.main.proposal() if shown is None else shown
        if subject is None:
            self.notify("A field of the launcher is not right yet: see the sentence beside it.", severity="warning")
        else:
            self.push_screen(CodeScreen(self.subject, subject, self.main.machine.named, self.scripts))

    def action_log(self) -> None:
        """Show the whole log of the run."""
        from tuitrain.tui.screens.log import LogScreen

        subject = self.subject
        self.push_screen(LogScreen(subject, self.main.current_log if subject is self.view else partial(log_of, subject)))

    def action_command_palette(self) -> None:
        """Offer every key by name."""
        from tuitrain.tui.screens.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(self.screen))

    def search_themes(self) -> None:
        """Offer the themes by name."""
        from tuitrain.tui.screens.palette import SteadyPalette

        self.push_screen(SteadyPalette(providers=[ThemeProvider], placeholder="Search for themes…"))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers: every key that works now, and the themes."""
        from textual.widgets import Input  # which the palette brings too

        offered = {"screen.copy_text", "command_palette"}
        for key, active in screen.active_bindings.items():
            binding, node = active.binding, active.node
            # How one moves in a text is known.
            if isinstance(node, Input):
                continue
            if active.enabled and key != "ctrl+q" and binding.description and binding.action not in offered:
                offered.add(binding.action)
                # Only the title is searched, and a person types the word that the footer shows.
                title = f"{binding.description}: {binding.tooltip}" if binding.tooltip else binding.description
                yield SystemCommand(title, f"key {key_name(key)}", partial(self.run_action, binding.action, node))
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)
