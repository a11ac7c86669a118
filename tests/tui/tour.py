"""A way to every screen in every state of a run, for the tests that hold for all of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
from fakes import FakeSession, seed_cnn
from kept_runs import keep, until, until_shown
from test_predictions import CLASSES, evaluation
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import ModalScreen

from tuitrain.config import RunConfig
from tuitrain.events import Notice, Parameter, Parameters, Phases, StepTimes
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.analysis import AnalysisScreen
from tuitrain.tui.screens.code import CodeScreen
from tuitrain.tui.screens.compare import CompareScreen
from tuitrain.tui.screens.doctor import DoctorScreen
from tuitrain.tui.screens.gpu_card import GpuCardScreen
from tuitrain.tui.screens.gpus import GpusScreen
from tuitrain.tui.screens.log import LogScreen
from tuitrain.tui.screens.opened import OpenedScreen
from tuitrain.tui.screens.parameters import ParametersScreen
from tuitrain.tui.screens.predictions import PredictionsScreen
from tuitrain.tui.screens.preflight import PreflightScreen
from tuitrain.tui.screens.runs import RunsScreen
from tuitrain.tui.screens.settings import SettingsScreen
from tuitrain.tui.screens.training import TrainingScreen

SIZES = [(80, 24), (120, 40), (200, 60)]
STATES = ("none", "preparing", "early", "running", "paused", "finished", "failed")
SCREENS = {
    "launcher": TrainingScreen,
    "training": TrainingScreen,
    "runs": RunsScreen,
    "opened": OpenedScreen,
    "settings": SettingsScreen,
    "compare": CompareScreen,
    "predictions": PredictionsScreen,
    "parameters": ParametersScreen,
    "analysis": AnalysisScreen,
    "log": LogScreen,
    "code": CodeScreen,
    "gpus": GpusScreen,
    "gpu card": GpuCardScreen,
    "doctor": DoctorScreen,
    "preflight": PreflightScreen,
}
KEPT = ("20261121-0413-seed-cnn-aaa", "20261120-0413-seed-cnn-bbb", "20261119-0413-seed-cnn-ccc")

RUN_TEXTS = {"runs": ("Runs 3",), "compare": ("1 alpha", "2 beta")}
"""What the screens of kept runs show when they have read them."""


def keep_three(runs_dir: Path, *configs: RunConfig) -> list[Path]:
    """Three kept runs, newest first; without `configs` they are alpha, beta and gamma."""
    configs = configs or tuple(msgspec.structs.replace(seed_cnn(), name=name) for name in ("alpha", "beta", "gamma"))
    return [
        keep(runs_dir, run, steps=20 * (place + 1), config=config) for place, (run, config) in enumerate(zip(KEPT, configs, strict=True))
    ]


def parameters(name: str = "conv1.weight") -> Parameters:
    """Of a network with more layers than a screen has lines."""
    rows = tuple(Parameter(name=f"{name}{place}", shape=(32, 3, 5, 5), count=2400, device="cpu", trainable=True) for place in range(70))
    return Parameters(rows=rows, warnings=(f"{name}: layers in a plain list are not registered.",))


def step_times() -> StepTimes:
    """Of as many replicas as do not fit on a small screen."""
    part = Phases(forward=0.1, backward=0.2)
    phases = Phases(data=0.1, forward=0.8, backward=1.6, communication=0.1, update=0.1, other=0.1)
    return StepTimes(strategy="split", devices=("cpu",) * 8, steps=100, samples=6400, phases=phases, replicas=(part,) * 8)


async def strike(pilot: Pilot[None], *keys: str) -> None:
    """Press keys as fast as a person's terminal may send them; `Pilot.press` waits between them until the processor rests."""
    driver = pilot.app._driver
    assert driver is not None
    assert isinstance(pilot.app, TuitrainApp)
    for key in keys:
        event = Key(key, key if len(key) == 1 else None)
        event.set_sender(pilot.app)
        driver.send_message(event)
        await pilot._wait_for_screen()
    # The last one may wait for those before it.
    while pilot.app._typed:
        await pilot._wait_for_screen()
    await pilot._wait_for_screen()


async def bring(pilot: Pilot[None], session: FakeSession, state: str, *, classes: tuple[str, ...] = CLASSES) -> None:
    """The app's own run into `state`, as a person would see it on the main screen."""
    app = pilot.app
    assert isinstance(app, TuitrainApp)
    if state == "none":
        return
    session.start(app.main._launcher.form.config)
    app.main.show("run")
    if state not in ("preparing",):
        session.begin()
    if state in ("running", "paused", "finished", "failed"):
        session.say(parameters(), step_times())
        session.steps(160)
        session.evaluate()
        session.say(evaluation(classes=classes), Notice(text="a notice"))
        session.steps(40)
    if state == "paused":
        session.pause()
    elif state == "finished":
        session.end()
    elif state == "failed":
        session.end("failed", "step 200: the loss is NaN; a smaller lr may help.")
    await pilot._wait_for_screen()


async def go(pilot: Pilot[None], name: str) -> bool:
    """To a screen by its keys from wherever one is; `False` where it does not exist without a run."""
    app = pilot.app
    assert isinstance(app, TuitrainApp)
    there = app.view.record is not None
    if not there and name in ("training", "predictions", "parameters", "analysis"):
        return False
    if name == "preflight" and app.view.alive:
        return False
    await pilot.pause()
    while not isinstance(app.screen, RunsScreen):
        # What a key before this one began may be over only now: a dialog that comes late has the keys.
        before = app.screen
        await strike(pilot, "escape" if isinstance(before, ModalScreen) else "r")
        await until(pilot, lambda before=before: app.screen is not before)
    if name in ("launcher", "training"):
        await strike(pilot, "n" if name == "launcher" else "t")
    elif name in ("log", "predictions", "parameters", "analysis", "code"):
        await strike(pilot, "t" if there else "n")
        await until(pilot, lambda: app.screen is app.main)
        await strike(pilot, {"log": "o", "predictions": "p", "parameters": "w", "analysis": "i", "code": "C"}[name])
        if name == "code":
            await until_shown(pilot, "one device")
    elif name == "preflight":
        await strike(pilot, "n")
        await until(pilot, lambda: app.screen is app.main and app.main.view == "launch")
        await strike(pilot, "p")
        await until_shown(pilot, "Enter takes", "e Again")
    elif name == "doctor":
        await strike(pilot, "d")
        await until_shown(pilot, "counted by torch")
    elif name in ("gpus", "gpu card"):
        await strike(pilot, "g")
        await until(pilot, lambda: isinstance(app.screen, GpusScreen))
        if name == "gpu card":
            await strike(pilot, "enter")
    else:
        if app.screen._table.list.sought:
            # R and Enter lead from the list to the run, a moment later: a filter that was typed meanwhile stays.
            await strike(pilot, "escape")
        await until_shown(pilot, *RUN_TEXTS["runs"], "Overlay")
        if name in ("opened", "settings"):
            await strike(pilot, "enter")
            await until_shown(pilot, "s Settings")
        if name == "settings":
            await strike(pilot, "s")
        if name == "compare":
            assert isinstance(app.screen, RunsScreen)
            runs = app.screen._table.list
            # Space takes a mark away again that an earlier key has set.
            await strike(pilot, "home", *("down" if row.key in runs.marked else "space" for row in runs.rows[:2]), "v")
            await until_shown(pilot, *RUN_TEXTS["compare"])
    await until(pilot, lambda: isinstance(app.screen, SCREENS[name]))
    return True
