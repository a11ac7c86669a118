"""Every screen on an emulated terminal: other sizes while it runs, hostile and wide strings from outside, terminals without UTF-8."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import msgspec
import pyte
import pytest
from fakes import FakeSampler, FakeSession, card, screen_text, seed_cnn
from kept_runs import resize, until
from rich.cells import cell_len
from test_terminal import OnTerminal
from textual.pilot import Pilot
from tour import KEPT, SCREENS, bring, go, keep_three, parameters, strike

from tuitrain.config import RunConfig
from tuitrain.devices import ProcessSample
from tuitrain.events import Notice
from tuitrain.runs.label import annotate
from tuitrain.tui.app import TuitrainApp

SIZES = [(80, 24), (60, 15), (72, 20), (200, 60), (80, 23)]
FIRST = (200, 60)
CONTROLS = "\x1b[2J\x1b]52;c;eA==\x07\x9b3;1H\x00\r\n\x07\x85\u202e\u2066"
MARKUP = "[red]x[/][/bold][@click=app.quit]y[/]"
WIDE = "深層学習👩‍👩‍👧🙂é́́"
HOSTILE = {"controls": CONTROLS, "markup": MARKUP, "wide": WIDE, "long": "深x" * 1000}
"""The long one fills more than a whole screen."""
_MADE_HERE = re.compile(r"\x1b\[[0-9]*[AB]\x08{0,3}|\x1b\[[0-9;]*[CDHm]|[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def make(session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int], *, emulate: bool) -> OnTerminal:
    app = OnTerminal(session, sampler, size)
    app._runs_dir = runs_dir
    if not emulate:
        app.stream = mock.create_autospec(pyte.Stream, instance=True)
    session.clock = lambda: 0.0
    return app


async def settled(pilot: Pilot[None]) -> list[str]:
    """The lines of the screen once what it shows has come to rest."""
    before = ""
    while (text := screen_text(pilot.app)) != before or not text:
        before = text
        await pilot._wait_for_screen()
    return text.split("\n")


def check_frame(lines: list[str], size: tuple[int, int]) -> None:
    """Each line is exactly as wide as the terminal, and every frame closes at its edge."""
    assert len(lines) == size[1]
    for line in lines:
        assert cell_len(line) == size[0], line
        if line[0] in "│├╭╰":
            assert line[-1] in "│┤╮╯", line


# -- other sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCREENS)
async def test_resizing_while_events_come(session: FakeSession, tmp_path: Path, name: str) -> None:
    keep_three(tmp_path / "runs")
    app = make(session, FakeSampler(card(0)), tmp_path / "runs", FIRST, emulate=True)
    async with app.run_test(size=FIRST) as pilot:
        await bring(pilot, session, "running")
        await go(pilot, name)
        for size in SIZES:
            app.terminal = pyte.Screen(*size)
            app.stream = pyte.Stream(app.terminal)
            await resize(pilot, *size)
            session.steps(7)
            session.say(Notice(text="a notice"))
            lines = await settled(pilot)
            check_frame(lines, size)
            await until(pilot, lambda: app.shown() == screen_text(app))
            if size[0] < 72:
                assert "tuitrain needs 72×20; this terminal is 60×15." in lines[1]
            else:
                assert "q Quit" in lines[-1]
                assert not any("tuitrain needs" in line for line in lines)


# -- strings from outside -------------------------------------------------------------------------------------------------


def hostile_machine(text: str) -> FakeSampler:
    """Devices and processes with such names."""
    process = ProcessSample(pid=1, name=text, user=text, memory=2**30)
    return FakeSampler(card(0, name=text, processes=(process,)), card(1, cuda_index=None, status="hidden", reason=text), error=text)


def hostile_runs(runs_dir: Path, text: str) -> None:
    """Kept runs with such names, notes, values and folders."""
    config = msgspec.structs.replace(seed_cnn(), name=text, note=text)
    paths = keep_three(runs_dir, config, msgspec.structs.replace(config, model=text[:200] + ":make"), seed_cnn())
    annotate(paths[2], text)
    (paths[0] / "log.txt").write_text(text + "\n" + text, encoding="utf-8", errors="surrogatepass")
    damaged = runs_dir / (text.replace("/", "").replace("\x00", "")[:40] + "x")
    damaged.mkdir()
    (damaged / "state.json").write_text("{")


@pytest.mark.parametrize(("kind", "size"), [*((kind, (80, 24)) for kind in HOSTILE), ("wide", (120, 40))])
async def test_hostile_strings_on_every_screen(session: FakeSession, tmp_path: Path, kind: str, size: tuple[int, int]) -> None:
    text = HOSTILE[kind]
    hostile_runs(tmp_path / "runs", text)
    app = make(session, hostile_machine(text), tmp_path / "runs", size, emulate=False)
    async with app.run_test(size=size) as pilot:
        app.main._launcher.form.set_text("name", text)
        await strange_run(pilot, session, text)
        check_frame(await settled(pilot), size)
        for name in SCREENS:
            await visit(pilot, name)
            check_frame(await settled(pilot), size)
            await explained(pilot)
        await visit(pilot, "runs")
        await pilot.press("D")
        check_frame(await settled(pilot), size)
        await pilot.press("escape", "y")
        await pilot.pause()
        for written in app.written:
            assert _MADE_HERE.sub("", written) == ""


async def explained(pilot: Pilot[None]) -> None:
    """`?` and back."""
    home = pilot.app.screen
    await strike(pilot, "question_mark")
    await until(pilot, lambda: pilot.app.screen is not home)
    await strike(pilot, "question_mark")
    await until(pilot, lambda: pilot.app.screen is home)


async def strange_run(pilot: Pilot[None], session: FakeSession, text: str) -> None:
    """A run that failed with such names, lines and an error."""
    app = pilot.app
    assert isinstance(app, TuitrainApp)
    config: RunConfig = msgspec.structs.replace(seed_cnn(), name=text, note=text)
    session.start(config)
    app.main.show("run")
    session.begin(device=(text[:300] or "cpu",))
    await bring_more(pilot, session, text)
    app._printed(text)
    session.end("failed", f"step 1: {text}")


async def bring_more(pilot: Pilot[None], session: FakeSession, text: str) -> None:
    """Parameters, classes and notices of such names."""
    from test_predictions import evaluation

    session.say(parameters(text[:400]), Notice(text=text, level="warning"))
    session.steps(30)
    session.evaluate()
    session.say(evaluation(classes=(text, *"abcdefghi")))
    await pilot.pause()


async def visit(pilot: Pilot[None], name: str) -> None:
    """A screen, where the kept runs have strange names."""
    app = pilot.app
    with mock.patch("tour.RUN_TEXTS", {"runs": ("Runs 4",), "compare": ("1 ", "left out")}):
        if await go(pilot, name):
            await until(pilot, lambda: isinstance(app.screen, SCREENS[name]))


# -- terminals without UTF-8 ----------------------------------------------------------------------------------------------


@pytest.fixture(params=[{"LANG": "C"}, {"TERM": "linux"}], ids=str)
def plain(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in request.param.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("plain")
async def test_only_ascii_reaches_a_terminal_without_utf8(session: FakeSession, tmp_path: Path) -> None:
    keep_three(tmp_path / "runs", *(msgspec.structs.replace(seed_cnn(), name=name) for name in ("alpha 深", "beta é", "gamma")))
    app = make(session, FakeSampler(card(0, name="GPU 深")), tmp_path / "runs", (80, 24), emulate=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await bring(pilot, session, "running")
        for name in SCREENS:
            if not await go(pilot, name):
                continue
            await settled(pilot)
            await explained(pilot)
            for key in (*(("m", "enter", "m") if name == "predictions" else ("right",)), "ctrl+p"):
                await strike(pilot, key)
                await settled(pilot)
            await strike(pilot, "escape")
            await until(pilot, lambda name=name: isinstance(app.screen, SCREENS[name]))  # type: ignore[misc]
        await visit_dialogs(pilot)
        said = "".join(app.written)
        assert said.isascii(), sorted({char for char in said if not char.isascii()})
        assert KEPT[0] in said


async def visit_dialogs(pilot: Pilot[None]) -> None:
    """A filter, a question, an editor and a toast."""
    await strike(pilot, "r")
    await settled(pilot)
    await pilot.press("slash", "a", "escape", "D", "escape", "e", "x", "escape", "v", "q", "escape")
    await settled(pilot)
