"""The code of a run on its screen, with made-up scripts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from fake_script import LONG, fake_script
from fakes import FakeSampler, FakeSession, card, screen_text, seed_cnn, settle
from kept_runs import keep, resize, until, until_shown, until_told
from rich.cells import cell_len
from test_terminal import OnTerminal
from textual.pilot import Pilot
from tour import KEPT, SIZES, keep_three

from tuitrain.config import ConfigError, RunConfig, with_changes
from tuitrain.runs.status import InQueue
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.code.colours import coloured
from tuitrain.tui.code.rows import rows_of
from tuitrain.tui.code.script import WriteScript, code_of, on_one_device
from tuitrain.tui.launch.hints import Machine
from tuitrain.tui.screens.code import CodeScreen
from tuitrain.tui.screens.opened import OpenedScreen
from tuitrain.tui.screens.runs import RunsScreen

SPLIT = {"device": "cpu,cpu", "strategy": "split"}
PATIENCE = 60.0
NAMED = Machine((), (), 2).named


def make(
    session: FakeSession, sampler: FakeSampler, config: RunConfig | None = None, write: WriteScript | None = fake_script
) -> TuitrainApp:
    return TuitrainApp(session, sampler, config or with_changes(seed_cnn(), SPLIT), Path("runs"), write_script=write)


async def to_code(pilot: Pilot[None], *texts: str) -> str:
    await settle(pilot)
    await pilot.press("C")
    return await until_shown(pilot, *(texts or ("one device",)))


def marked(text: str) -> list[str]:
    """The lines of the script that the screen marks, without number and frame."""
    found = (line.removeprefix("│ ")[1:].strip("│ ") for line in text.splitlines() if line[2:4] in ("▌+", "▸+"))
    return [line.removeprefix("+").strip().partition(" ")[2] for line in found]


@pytest.mark.parametrize(("size", "last"), zip(SIZES, (15, 33, 54), strict=True))
async def test_the_launcher_as_a_script_with_marks(session: FakeSession, sampler: FakeSampler, size: tuple[int, int], last: int) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        text = await to_code(pilot)
        assert isinstance(app.screen, CodeScreen)
        lines = text.splitlines()
        assert {len(line) for line in lines} == {size[0]}
        assert "Code  split over cpu ×2" in lines[1]
        assert f"lines 1–{last} of 56" in lines[1]
        assert "split over cpu ×2 takes 4 lines more than one device: + marks the 6 new ones, and 2 fell away." in " ".join(
            " ".join(line.strip("│ ") for line in lines[2:4]).split()
        )
        assert "# seed-cnn: before any run, threads None" in text
        assert marked(text)[:3] == ["names = ['cpu', 'cpu']", "devices = [torch.device(name) for name in names]", "device = devices[0]"]
        assert all(key in lines[-1] for key in ("] [ Next difference", "↑↓ Scroll", "y Copy", "s Save", "Esc Close"))
        # Nothing of a long line is out of sight.
        shown = " ".join(" ".join(line.strip("│ ") for line in lines).split())
        assert " ".join(LONG.split()) in shown


async def test_from_difference_to_difference(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_code(pilot)
        for key, number, first in (
            ("right_square_bracket", 1, "names = "),
            ("right_square_bracket", 2, "def split"),
            ("greater_than_sign", 3, "step(split"),
            ("right_square_bracket", 1, "names = "),
            ("left_square_bracket", 3, "step(split"),
            ("less_than_sign", 2, "def split"),
        ):
            await pilot.press(key)
            text = await until_shown(pilot, f"difference {number} of 3 · lines")
            here = [line for line in text.splitlines() if line[2:4] == "▸+"]
            assert len(here) == 1
            assert first in here[0]


async def test_scrolling_stays_inside(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_code(pilot)
        for key, seen in (
            ("up", "lines 1–15 of 56"),
            ("j", "lines 2–16 of 56"),
            ("k", "lines 1–15 of 56"),
            ("space", "lines 15–31 of 56"),
            ("end", "lines 40–56 of 56"),
            ("pagedown", "lines 40–56 of 56"),
            ("pageup", "lines 24–40 of 56"),
            ("home", "lines 1–15 of 56"),
        ):
            await pilot.press(key)
            await until_shown(pilot, seen)
        await pilot.press("end")
        await resize(pilot, 200, 60)
        await until_shown(pilot, "lines 3–56 of 56")
        await resize(pilot, 80, 24)
        await until_shown(pilot, "lines 3–17 of 56")


async def test_one_device_has_no_marks(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler, seed_cnn())
    async with app.run_test(size=(80, 24)) as pilot:
        text = await to_code(pilot, "single on cpu: the script of one device")
        assert not marked(text)
        assert "difference" not in text.splitlines()[-1]


async def test_auto_is_what_a_start_would_take_now(session: FakeSession) -> None:
    app = make(session, FakeSampler(card(0), card(1)), with_changes(seed_cnn(), {"device": "auto:2"}))
    async with app.run_test(size=(120, 40)) as pilot:
        text = await to_code(pilot, "ddp over cuda:")
        assert "names = ['cuda:" in text


# -- copying and saving -----------------------------------------------------------------------------------------------------


async def test_copy_takes_the_whole_script(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_code(pilot)
        await pilot.press("y")
        await until_told(pilot, "copied")
        assert app.clipboard == fake_script(with_changes(seed_cnn(), SPLIT))


async def test_save_asks_for_a_name(session: FakeSession, sampler: FakeSampler) -> None:
    app, path = make(session, sampler), Path("seed-cnn-split.py")
    async with app.run_test(size=(80, 24)) as pilot:
        await to_code(pilot)
        await pilot.press("s")
        await until_shown(pilot, "save as", "seed-cnn-split.py")
        # Letters are the name's now.
        await pilot.press("C", "backspace", "enter")
        await until_told(pilot, "Saved:")
        assert path.read_text() == fake_script(with_changes(seed_cnn(), SPLIT))
        assert isinstance(app.screen, CodeScreen)
        await until(pilot, lambda: app.focused is not None and app.focused.id == "code-view")
        path.write_text("another")
        await pilot.press("s", "enter")
        await until_shown(pilot, "Enter again overwrites it")
        await pilot.press("escape")
        assert path.read_text() == "another"
        await pilot.press("C")
        await until(pilot, lambda: app.screen is app.main)


# -- what it is of ----------------------------------------------------------------------------------------------------------


async def test_a_kept_run_tells_its_data_and_threads(session: FakeSession, sampler: FakeSampler) -> None:
    keep_three(Path("runs"), *(with_changes(seed_cnn(), {**SPLIT, "name": name}) for name in ("alpha", "beta", "gamma")))
    app = make(session, sampler, seed_cnn())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("r")
        await until_shown(pilot, "Runs 3", "beta")
        await pilot.press("down")
        await pilot.press("C")
        await until_shown(pilot, "# beta: synthetic, threads 2", "split over cpu ×2 takes")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, OpenedScreen) and app.screen.opened.record is not None)
        await pilot.press("C")
        await until_shown(pilot, "# beta: synthetic, threads 2")
        await pilot.press("s")
        await until_shown(pilot, f"{KEPT[1]}-split.py")


async def test_the_run_that_trains(session: FakeSession, sampler: FakeSampler) -> None:
    kept = keep_three(Path("runs"))[0]
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("enter")
        await to_code(pilot, "before any run, threads None")
        await pilot.press("escape")
        session.begin()
        assert session.record is not None
        session.record.path = kept
        await settle(pilot)
        await to_code(pilot, "alpha: synthetic, threads 2")
        session.end("failed", "step 3: the loss is NaN")
        await pilot.press("escape")
        await to_code(pilot, "alpha: synthetic, threads 2")
        await pilot.press("n")
        await to_code(pilot, "before any run, threads None")


@pytest.mark.parametrize(("devices", "where"), [(0, "single on cpu"), (1, "single on cuda:0"), (2, "ddp over cuda:0, cuda:1")])
async def test_a_run_that_waits_is_the_script_of_what_it_would_take_now(session: FakeSession, devices: int, where: str) -> None:
    config = with_changes(seed_cnn(), {"device": "auto:2", "strategy": "auto"})
    queue = InQueue(since=1.0, words="waits for cpu: another run trains there")
    keep(Path("runs"), KEPT[0], steps=0, config=config, state="queued", strategy="auto", queue=queue)
    app = make(session, FakeSampler(*map(card, range(devices))))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("r")
        await until_shown(pilot, "Runs 1")
        text = await to_code(pilot, f"Code  {where}")
        assert ("the script of one device" in text) == (devices < 2)


async def test_a_field_that_is_not_right_is_said(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        app.main._launcher.form.set_text("lr", "fast")
        await settle(pilot)
        await pilot.press("C")
        await until_told(pilot, "A field of the launcher is not right yet")
        assert app.screen is app.main


async def test_without_a_writer_there_is_no_key(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler, write=None)
    async with app.run_test(size=(200, 60)) as pilot:
        await settle(pilot)
        await pilot.press("C")
        await pilot.pause()
        assert app.screen is app.main
        assert "C Code" not in screen_text(app)


# -- what can go wrong ------------------------------------------------------------------------------------------------------


def refusing(error: Exception) -> WriteScript:
    def write(*_: Any) -> str:
        raise error

    return write


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ConfigError("torch is not installed; `tuitrain doctor` helps."), "✗ torch is not installed; `tuitrain doctor` helps."),
        (ConfigError("data: the folder /nowhere does not exist."), "✗ data: the folder /nowhere does not exist."),
        (RuntimeError("bad\x1b[2J [b]\nmore"), "✗ The script cannot be written: bad·[2J [b]."),
        (ValueError(), "✗ The script cannot be written: ValueError."),
    ],
)
async def test_why_there_is_none(session: FakeSession, sampler: FakeSampler, error: Exception, sentence: str) -> None:
    app = make(session, sampler, write=refusing(error))
    async with app.run_test(size=(120, 40)) as pilot:
        await to_code(pilot, sentence)
        await pilot.press("y", "s", "right_square_bracket", "down", "end")
        await pilot.pause()
        assert sentence in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)


async def test_a_run_whose_folder_is_damaged(session: FakeSession, sampler: FakeSampler) -> None:
    (keep_three(Path("runs"))[0] / "state.json").write_text("{")
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("r")
        await until_shown(pilot, "Runs 3")
        while app.screen.query_one("#runs-table").list.selected.summary.run != KEPT[0]:  # type: ignore[attr-defined]
            await pilot.press("down")
        await pilot.press("C")
        await until_shown(pilot, "state.json is damaged")


async def test_closed_before_it_is_written(session: FakeSession, sampler: FakeSampler) -> None:
    going, begun = threading.Event(), threading.Event()

    def slow(*of: Any) -> str:
        begun.set()
        assert going.wait(PATIENCE)
        return fake_script(*of)

    app = make(session, sampler, write=slow)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_code(pilot, "writing the script…")
        assert begun.wait(PATIENCE)
        await pilot.press("y", "s", "right_square_bracket", "end", "escape")
        await until(pilot, lambda: app.screen is app.main)
        assert not app.scripts.join(0)
        going.set()
        assert app.scripts.join(PATIENCE)
        await settle(pilot)
        assert app.screen is app.main


async def test_hostile_scripts(session: FakeSession, sampler: FakeSampler) -> None:
    bad = "x = 'a\x1b[31mb\x07'  # [red]x[/] \u202eright 猫\ny = 1\r\x0c\n\tz = '''\nnever closed"
    app = OnTerminal(session, sampler, (80, 24))
    app.scripts = type(app.scripts)(lambda config, started, environment: bad + config.strategy)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_code(pilot, "[red]x[/]", "never closed")
        assert app.shown() == screen_text(app)
        written = "".join(app.written)
        assert not any(harm in written for harm in ("\x07", "\u202e", "\x1b[31mb"))


# -- the pieces -------------------------------------------------------------------------------------------------------------


def test_colours_change_no_character() -> None:
    script = '"""Doc."""\n\n\nimport os\n\n\nclass A:\n    def f(self):\n        return f"{1 + 2} x"  # why\n'
    lines = coloured(script)
    assert ["".join(piece.text for piece in line) for line in lines] == script.removesuffix("\n").split("\n")
    shades = {piece.text: piece.shade for line in lines for piece in line}
    assert shades['"""Doc."""'] == "dim"
    assert shades["import"] == "primary"
    assert shades["A"] == "strong"
    assert shades["# why"] == "dim"


@pytest.mark.parametrize("text", ["x" * 50, "猫" * 30, "    " + "a " * 40, " " * 40 + "y", "ab " + "c" * 40, ""])
@pytest.mark.parametrize("width", [8, 13, 40])
def test_rows_lose_nothing_and_fit(text: str, width: int) -> None:
    rows = rows_of(coloured(text), width)
    assert "".join(piece.text for row in rows for piece in row.pieces) == text
    assert all(row.indent + sum(cell_len(piece.text) for piece in row.pieces) <= width for row in rows)
    assert [row.first for row in rows] == [True] + [False] * (len(rows) - 1)


def test_several_machines_are_named() -> None:
    several = {"device": "cpu", "strategy": "ddp", "nnodes": "2:3", "rdzv_endpoint": "box:29400"}
    code = code_of(with_changes(seed_cnn(), several), NAMED, fake_script)
    assert code.where == "ddp on cpu on each of 2 to 3 machines"
    assert code.differences


def test_what_one_device_has_too_is_not_marked() -> None:
    config = with_changes(seed_cnn(), SPLIT)
    code = code_of(config, NAMED, fake_script)
    script, plain = code.text.split("\n"), fake_script(on_one_device(config)).split("\n")
    new = {line for one in code.differences for line in range(one.start, one.end)}
    rest = iter(plain)
    assert all(line in rest for number, line in enumerate(script) if number not in new and line.strip())
    assert (code.new, code.gone, code.more) == (6, 2, 4)
    assert code.where == "split over cpu ×2"
    assert not any(not script[line].strip() for one in code.differences for line in (one.start, one.end - 1))
