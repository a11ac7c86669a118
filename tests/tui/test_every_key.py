"""Every key on every screen in every state of a run: none crashes, none that the footer shows is dead, and there is always a way back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fake_script import fake_script
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn
from kept_runs import until, until_shown
from textual.binding import ActiveBinding
from textual.command import CommandPalette
from textual.pilot import Pilot
from tour import SCREENS, bring, go, keep_three, strike

from tuitrain.config import with_changes
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.ask import QuitDialog
from tuitrain.tui.screens.help import HelpScreen

SIZE = (80, 24)
ALWAYS = ("escape", "tab", "shift+tab", "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "space", *"0123456789")
ELSEWHERE = ("n", "t", "r", "g", "d", "o", "w", "p", "i", "C", "question_mark", "ctrl+l")
"""Keys that work everywhere, and lead to another screen."""
ELSEWHERE_LEADS = (
    *(("n", "launcher"), ("t", "training"), ("r", "runs"), ("g", "gpus"), ("d", "doctor")),
    *(("o", "log"), ("w", "parameters"), ("p", "predictions"), ("i", "analysis"), ("C", "code")),
)
WAYS_OUT = ("q", "ctrl+q", "ctrl+c", "ctrl+p")
TRIES = 10
WALK = 150
NOTHING_YET = (
    *("the curve begins with the first step", "comes with the first evaluation"),
    *("The parameters come", "The parameters of this run are not"),
)
"""What stands where a key would do something, and says why it does nothing."""


@pytest.fixture
def app(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> TuitrainApp:
    keep_three(tmp_path / "runs")
    session.clock = lambda: 0.0
    return TuitrainApp(session, sampler, with_changes(seed_cnn(), {"device": "cpu,cpu"}), tmp_path / "runs", write_script=fake_script)


def main_app(pilot: Pilot[None]) -> TuitrainApp:
    assert isinstance(pilot.app, TuitrainApp)
    return pilot.app


def active(pilot: Pilot[None]) -> dict[str, ActiveBinding]:
    """The bindings of the screen, without those that leave the app."""
    return {key: one for key, one in pilot.app.screen.active_bindings.items() if key not in WAYS_OUT and not one.binding.system}


async def back(pilot: Pilot[None]) -> None:
    """Esc leads to the main screen, from anywhere."""
    app = main_app(pilot)
    for _ in range(8):
        # What a key before began must be over: a field that opens between the look and Esc is closed by it, and nothing seems to change.
        await pilot.pause()
        if app.screen is app.main and not app.main._launcher.editing:
            return
        here = app.screen, screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda here=here: (app.screen, screen_text(app)) != here)  # type: ignore[misc]
    raise AssertionError(f"Esc does not lead back:\n{screen_text(app)}")


@pytest.mark.parametrize("state", ["none", "early", "running", "failed"])
async def test_every_key_is_safe_on_every_screen(app: TuitrainApp, session: FakeSession, state: str) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, state)
        for name in SCREENS:
            if await go(pilot, name):
                own = [key for key in (*app.screen._bindings.key_to_bindings, *active(pilot)) if key not in (*WAYS_OUT, *ELSEWHERE)]
                await strike(pilot, *dict.fromkeys((*own, *ALWAYS)), "ctrl+p")
                await strike(pilot, "escape", "escape")
                await back(pilot)
        await strike(pilot, "q")
        await until(pilot, lambda: isinstance(app.screen, QuitDialog) or app._exit)
        assert app._exit == (session.state in ("idle", "ended"))


@pytest.mark.parametrize("state", ["none", "running"])
async def test_a_walk_over_all_keys_leads_back(app: TuitrainApp, session: FakeSession, state: str) -> None:
    dice = random.Random(state)
    keys: dict[str, None] = dict.fromkeys((*ALWAYS, *ELSEWHERE, "enter"))
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, state)
        for name in ("runs", "log", "compare"):
            await go(pilot, name)
            keys |= dict.fromkeys(active(pilot))
        for _ in range(5):
            await strike(pilot, *dice.choices(list(keys), k=WALK // 5))
            if not session.record or session.state == "ended":
                continue
            session.steps(3)
        await back(pilot)
        assert app.is_running


# -- the footer says nothing that does nothing ----------------------------------------------------------------------------


def fingerprint(pilot: Pilot[None], session: FakeSession) -> tuple[object, ...]:
    """All that a person could notice, or the session."""
    app = main_app(pilot)
    # A sentence that is said again takes the place of the one before.
    told = tuple(one.identity for one in app._notifications)
    return (app.screen, screen_text(app), app.focused, told, len(session.asked), len(session.started), app.clipboard)


def shown(pilot: Pilot[None]) -> dict[str, ActiveBinding]:
    """What a footer of any width shows."""
    return {key: one for key, one in active(pilot).items() if one.binding.show and one.enabled and one.binding.description}


def siblings(pilot: Pilot[None], key: str) -> list[str]:
    """The key and those beside it: where one can go no further up, one can go down."""
    bindings = active(pilot)
    action = bindings[key].binding.action.partition("(")[0]
    return [key, *(other for other, one in bindings.items() if other != key and one.binding.action.partition("(")[0] == action)]


async def does_something(pilot: Pilot[None], session: FakeSession, key: str) -> bool:
    """Whether the key, or one of its siblings, changes anything that one notices, or the screen says why not."""
    for one in siblings(pilot, key):
        before = fingerprint(pilot, session)
        await strike(pilot, one)
        for _ in range(TRIES):
            if fingerprint(pilot, session) != before:
                return True
            await pilot.pause(0.02)
    return any(sentence in screen_text(pilot.app) for sentence in NOTHING_YET)


@pytest.mark.parametrize("state", ["none", "early", "running", "paused"])
async def test_no_key_in_the_footer_is_dead(app: TuitrainApp, session: FakeSession, state: str) -> None:
    names = list(SCREENS) if state == "running" else [name for name in SCREENS if name not in ("runs", "opened", "settings", "compare")]
    dead = []
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, state)
        for name in names:
            if not await go(pilot, name):
                continue
            home = app.screen
            for key in [key for key in shown(pilot) if key not in ELSEWHERE]:
                if app.screen is not home:
                    await back(pilot)
                    await go(pilot, name)
                    home = app.screen
                if key in shown(pilot) and not await does_something(pilot, session, key):
                    dead.append(f"{name}: {key} {shown(pilot)[key].binding.description}\n{screen_text(app)}")
            if session.state == "ended" and state not in ("finished", "failed"):
                await again(pilot, session, state)
    assert not dead


async def again(pilot: Pilot[None], session: FakeSession, state: str) -> None:
    """The state that a key has ended."""
    await back(pilot)
    await bring(pilot, session, state)


@pytest.mark.parametrize("state", ["none", "early"])
async def test_the_keys_of_everywhere_lead_where_they_say(app: TuitrainApp, session: FakeSession, state: str) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await bring(pilot, session, state)
        for key, name in ELSEWHERE_LEADS:
            await back(pilot)
            binding = active(pilot).get(key)
            if binding is None or not binding.enabled or binding.binding.action != name:
                continue
            await strike(pilot, key)
            await until(pilot, lambda name=name: isinstance(app.screen, SCREENS[name]))  # type: ignore[misc]
            if name in ("launcher", "training"):
                view = {"launcher": "launch", "training": "run"}[name]
                await until(pilot, lambda view=view: app.main.view == view)  # type: ignore[misc]
        await strike(pilot, "question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await strike(pilot, "question_mark", "ctrl+p")
        await until_shown(pilot, "Search for commands", "key ")
        assert isinstance(app.screen, CommandPalette)
