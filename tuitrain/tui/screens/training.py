"""The main screen: what the machine offers on the left, the launcher or the run on the right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import ActiveBinding, Binding, BindingType
from textual.widget import Widget

from tuitrain.config import ConfigError, RunConfig
from tuitrain.recipes import command_line
from tuitrain.runs.logtail import LogTail
from tuitrain.tui.curve.chart import load as load_plotext
from tuitrain.tui.launch.fetch import Fetch
from tuitrain.tui.launch.hints import Machine
from tuitrain.tui.launch.neighbours import Neighbours
from tuitrain.tui.launch.starts import Start, Starts
from tuitrain.tui.layout import View
from tuitrain.tui.messages import GoOn, Launched, StartBeside
from tuitrain.tui.own_memory import OwnCards
from tuitrain.tui.run_view import RunView
from tuitrain.tui.sampler import SamplerLike
from tuitrain.tui.screens.base import NEW_LIKE, Help, PaneScreen
from tuitrain.tui.widgets.body import Body
from tuitrain.tui.widgets.choices import Choices
from tuitrain.tui.widgets.curve import Curve
from tuitrain.tui.widgets.devices import Devices
from tuitrain.tui.widgets.launcher import Launcher
from tuitrain.tui.widgets.log import LogPane
from tuitrain.tui.widgets.progress import Progress
from tuitrain.tui.widgets.replicas import Replicas
from tuitrain.tui.widgets.strategy import Strategy

if TYPE_CHECKING:
    from tuitrain.session.preflight.plans import Plan


class TrainingScreen(PaneScreen):
    """Panes that read the run's record and the sampler at their own pace.

    Args:
        view: the run.
        sampler: the devices.
        launch: what the launcher begins with.
        runs_dir: where the runs are kept.
        fetch: downloads CIFAR-10.
        log: the log to show now.
        utf8: whether the terminal shows braille.
    """

    AUTO_FOCUS = "#launcher"
    ABOUT = "The launcher, and the run that trains here."
    FIRST: ClassVar[tuple[str, ...]] = (
        *("start", "start_other", "pause", "go_on", "stop", "checkpoint", "training", "open", "pick", "fetch", "further", "last_launch"),
        *("resume", "launcher", "runs", "metric", "move", "zoom", "copy"),
    )
    STARTING: ClassVar[Help] = (
        ("", "Starting"),
        ("Enter  b", "start what the launcher shows: here, in the background"),
        ("↑ ↓ Tab", "move between fields and panes"),
        ("space ← →", "choose or edit (0-9 and / type at once); the next choice"),
        ("+  -  s", "a device more or less, and the next strategy that fits"),
        ("f  u  m", "fetch CIFAR-10 (170 MB), the last launch, more settings"),
        ("p  y", "preflight, copy the equal tuitrain run line"),
    )
    TRAINING: ClassVar[Help] = (
        ("", "Training"),
        ("space  c  x", "pause or go on, write a checkpoint, stop with one"),
        ("R  u  U", "go on with it; a new run like it, or from its weights"),
        *Curve.KEYS,
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", "Start"),
        Binding("enter", "start_other", "Start in background"),
        Binding("space", "pause", "Pause"),
        Binding("space", "go_on", "Go on"),
        Binding("x", "stop", "Stop"),
        Binding("c", "checkpoint", "Checkpoint"),
        Binding("R", "resume", "Resume", tooltip="Go on with this run from its newest checkpoint"),
        Binding("b", "start_beside", "In background", tooltip="Start in a process of its own, which outlives this one"),
        Binding("f", "fetch", "CIFAR-10", tooltip="Fetch CIFAR-10, or cancel that"),
        Binding("plus", "more", "Devices", key_display="+/-", tooltip="Train on one device more"),
        Binding("minus", "fewer", "A device less", show=False),
        Binding("s", "strategy", "Strategy", tooltip="Take the next strategy that fits the devices"),
        Binding("u", "last_launch", "Last launch"),
        Binding("m", "further", "Settings", tooltip="Show more settings, such as the optimizer, or put them away"),
        Binding("p", "preflight", "Preflight", tooltip="Measure what more devices would bring"),
        Binding("y", "copy", "Copy command"),
        *NEW_LIKE,
    ]

    def __init__(
        self, view: RunView, sampler: SamplerLike, launch: RunConfig, runs_dir: Path, *, fetch: Fetch, log: LogTail, utf8: bool
    ) -> None:
        super().__init__(view)
        self.view: View = "launch"
        self._run = view
        self._log_before = log
        self._seen: object = None
        self.own_cards = OwnCards(view)
        self._devices = Devices(sampler, self.own_cards)
        self._strategy = Strategy()
        self._log = LogPane(self.current_log)
        self._launcher = Launcher(
            launch, machine=lambda: self._devices.machine, busy=lambda: view.alive, fetch=fetch, neighbours=Neighbours(runs_dir)
        )
        self._choices = Choices(self._devices, self._strategy, self._launcher)
        self._starts = Starts(view, self._launcher)
        self._progress = Progress(view)
        self._curve = Curve(view, braille=utf8)
        self._replicas = Replicas(view)
        self._body = Body(self._devices, self._strategy, self._log, self._launcher, self._progress, self._curve, self._replicas)

    def panes(self) -> Iterable[Widget]:
        """The panes; which of them show is decided by `place_panes`."""
        return (self._body,)

    def on_mount(self) -> None:
        """The devices and the strategy of the first proposal."""
        self._choices.follow()

    # -- keeping up ---------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """What the devices do, and the run; for the launcher, which others train."""
        if self.view == "launch":
            self._launcher.look_around()
        self._devices.look()
        self._choices.follow()
        # The threads of a run end a moment after its last word, and say nothing more.
        self.run_changed()
        self._redraw_run()

    def run_changed(self) -> None:
        """New data: redraw at once where a person waits for it (a state, the first step, an evaluation); the rest keeps its pace."""
        if (seen := self._run.awaited) == self._seen:
            return
        self._seen = seen
        if (refusal := self._starts.look()) is not None:
            self._show_refusal(refusal)
        self._redraw_run()
        self.refresh_bindings()

    def _redraw_run(self) -> None:
        record = self._run.record
        started = record.started if self.view == "run" and record else None
        self._devices.in_use = started.device if started else None
        self._strategy.in_use = (started.strategy, len(started.device)) if started else None
        self.rearrange()
        side = (self._devices, self._strategy, self._log)
        for pane in (self._header, *side, self._launcher, self._progress, self._replicas, self._too_small):
            if pane.display:
                pane.redraw()
        if self._curve.due() or self._run.ended:
            self._curve.redraw()

    def current_log(self) -> LogTail:
        """The log of the run that is shown, or what was printed before there was one."""
        record = self._run.record
        return self._log_before if record is None else record.log

    def help_lines(self) -> Help:
        """What one looks at first; the other half after it."""
        return (*self.STARTING, *self.TRAINING) if self.view == "launch" else (*self.TRAINING, *self.STARTING)

    def place_panes(self, width: int, height: int) -> None:
        """Give every pane its rows."""
        self._body.resize_panes(width, height, self.view)

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys mean something now."""
        run, takes = self.view == "run", self._run.takes
        choosing = not run and not self._launcher.editing
        works = {
            "start": not run and not self._run.alive,
            "pause": run and takes("pause"),
            "go_on": run and takes("resume"),
            "stop": run and takes("stop"),
            "start_other": not run and self._run.alive,
            "start_beside": not run,
            "checkpoint": run and takes("checkpoint"),
            "resume": run and self._run.goes_on,
            "fetch": not run and self._launcher.offers_fetch,
            "preflight": not run,
            "more": choosing,
            "fewer": choosing and bool(self._devices.picked),
            "strategy": choosing and self._strategy.several_fit,
            "last_launch": not run and self._launcher.last_launch is not None,
            "further": choosing,
            "new_like": isinstance(self.shown_run(), Path),
            "log_scale": run and self._curve.check_action("log_scale", ()) is True,
        }
        return works.get(action, True)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """While a field of the launcher is edited, Enter with the word for what it does then."""
        bindings = super().active_bindings
        if self._launcher.editing and (enter := bindings.get("enter")) is not None:
            bindings["enter"] = enter._replace(binding=replace(enter.binding, description=self._launcher.enter_does, show=True))
        return bindings

    def action_start(self) -> None:
        """Start what the launcher holds: here, or beside the run that trains here."""
        if self._run.alive:
            self.action_start_beside()
        elif self._may_start():
            self.start(self._launcher.form.config)

    def action_start_other(self) -> None:
        """Start another run than the one that trains here."""
        self.action_start_beside()

    def action_start_beside(self) -> None:
        """Start what the launcher holds in a process of its own, or queue it."""
        if self._may_start():
            config = self._launcher.form.config
            self.post_message(StartBeside(config, self._devices.machine.takes(config)))

    def _may_start(self) -> bool:
        form = self._launcher.form
        if not self._fields_are_right():
            return False
        if self._launcher.waits_for_data:
            self.notify("CIFAR-10 is still on its way: Enter starts when it is there.", severity="warning")
            return False
        form.accept()
        self.post_message(Launched(form.recipe_file))
        return True

    def _fields_are_right(self) -> bool:
        if not self._launcher.form.ready:
            self.notify("A field is not right yet: see the sentence beside it.", severity="warning")
        return self._launcher.form.ready

    def start(self, config: RunConfig, *, resume: Path | None = None) -> None:
        """Start `config`, or go on so with the run in folder `resume`, and show it."""
        # plotext comes while the run prepares, so that the first curve does not hold the keys up.
        self.run_worker(load_plotext, thread=True, exit_on_error=False)
        # A refusal that comes as fast as the last one leaves nothing else changed.
        self._seen = None
        try:
            self._starts.start(Start(config, resume))
        except ConfigError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        self.show("run")

    def began_beside(self, config: RunConfig) -> None:
        """A run in the background has begun, or waits for its turn."""
        self._launcher.launched(config)

    def refused_beside(self, config: RunConfig, sentence: str) -> None:
        """A run in the background was refused."""
        self._launcher.refuse(config, sentence, Start(config).refused(sentence))
        self._launcher.redraw()

    def action_pause(self) -> None:
        """Wait at the next step."""
        self._run.session.pause()

    def action_go_on(self) -> None:
        """Go on."""
        self._run.session.resume()

    def action_stop(self) -> None:
        """Stop at the next step, with a checkpoint."""
        self._run.session.stop()
        self.run_changed()

    def action_checkpoint(self) -> None:
        """A checkpoint at the next step."""
        self._run.session.checkpoint()
        self.notify(f"A checkpoint is written {'now' if self._run.state == 'paused' else 'at the next step'}.")

    def action_resume(self) -> None:
        """Go on with the run from its newest checkpoint."""
        record = self._run.record
        if record is None or record.path is None:
            self.notify("It ended before it had a folder: n starts it anew.", severity="warning")
            return
        self.post_message(GoOn(record.path))

    def action_fetch(self) -> None:
        """Download CIFAR-10 beside everything else, or cancel that."""
        self._launcher.toggle_fetch()

    def action_more(self) -> None:
        """One device, or one replica, more."""
        self._devices.take_next()

    def action_fewer(self) -> None:
        """One less."""
        self._devices.drop_last()

    def action_strategy(self) -> None:
        """Another strategy that fits the chosen devices."""
        self._strategy.take_next()

    def action_last_launch(self) -> None:
        """Show the last launch in the launcher."""
        self._launcher.use_last_launch()

    def propose(self, config: RunConfig) -> None:
        """Have the launcher hold a configuration."""
        self._launcher.hold(config)

    def action_further(self) -> None:
        """Show the launcher's further rows, or put them away."""
        self._launcher.toggle_further()

    def action_preflight(self) -> None:
        """Measure the strategies and numbers of devices with what the launcher holds."""
        if self._run.alive:
            self.notify("A run is training, and beside it no measurement would be right: p works when it has ended.", severity="warning")
            return
        if not self._fields_are_right():
            return
        from tuitrain.tui.screens.preflight import PreflightScreen

        free = [int(name.removeprefix("cuda:")) for name in self._devices.machine.freest]
        self.app.push_screen(PreflightScreen(self._run, self._launcher.form.config, free, self._take_plan))

    def _take_plan(self, plan: Plan) -> None:
        """The launcher takes what the preflight found."""
        self._choices.take_plan(plan)
        self._show_choices()

    def shown_run(self) -> Path | RunConfig | None:
        """The run, while it is shown."""
        return super().shown_run() if self.view == "run" else None

    @property
    def machine(self) -> Machine:
        """The devices that a start could take."""
        return self._devices.machine

    def proposal(self) -> RunConfig | None:
        """What the launcher holds; `None` while a field is not right."""
        return self._launcher.form.config if self._launcher.form.ready else None

    def action_log_scale(self) -> None:
        """Another axis of the curve, for the palette; the keys of the curve are its own."""
        self._curve.action_log_scale()

    def action_copy(self) -> None:
        """Copy the equal command line."""
        record = self._run.record
        if self.view == "run" and record:
            self.copy(command_line(record.config))
        elif self._fields_are_right():
            self.copy(self._launcher.form.command())

    def show(self, view: View) -> None:
        """Switch the right side between the launcher and the run."""
        self.view = view
        if view == "launch":
            self._launcher.look_at_disk()
        # In the run's view space pauses, whatever was focused before.
        self._devices.can_focus = self._strategy.can_focus = view == "launch"
        with self.app.batch_update():
            self._redraw_run()
            (self._launcher if view == "launch" else self._curve).focus()
            self.refresh_bindings()

    def _show_refusal(self, sentence: str) -> None:
        if self.view == "run":
            self.show("launch")
        else:
            self._show_choices()
        if self.app.screen is not self:
            self.notify(sentence, severity="warning", markup=False, timeout=10)

    def on_launcher_start(self, event: Launcher.Start) -> None:
        """Enter in a field."""
        self.action_start()

    def on_launcher_changed(self, event: Launcher.Changed) -> None:
        """What the keys can do may have changed, and what the panes on the left show as chosen."""
        self._show_choices()

    def on_launcher_no_gpu(self, event: Launcher.NoGpu) -> None:
        """The launcher promises none any more."""
        self.take_no_gpu("torch cannot use the GPUs here")

    def take_no_gpu(self, reason: str) -> None:
        """Offer no GPU from now on, and say why."""
        self._devices.barred = reason
        self._choices.redraw()
        self.rearrange()

    def on_devices_picked(self, event: Devices.Picked) -> None:
        """The launcher takes the devices, and with them a strategy that fits."""
        reason = self._choices.take_devices(event.devices)
        if reason is not None:
            self.notify(f"The strategy is auto again: {reason}.")
        self._show_choices()

    def on_strategy_picked(self, event: Strategy.Picked) -> None:
        """The launcher takes the strategy."""
        self._choices.take_strategy(event.strategy)
        self._show_choices()

    def _show_choices(self) -> None:
        self._choices.redraw()
        self.refresh_bindings()
