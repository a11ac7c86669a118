"""The doctor's screen through its keys, with a made-up doctor."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import msgspec
import psutil
import pytest
from fake_doctor import HEALTHY, REDUCED, SHM, TWO_GPUS, VISIBLE, FakeDoctor, counts, ok
from fakes import FakeSampler, FakeSession, card, screen_text, seed_cnn
from kept_runs import resize, until, until_shown, until_told
from rich.cells import cell_len
from textual.pilot import Pilot

from tuitrain.devices.doctor.model import Check, Report
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.examination import MachineDoctor
from tuitrain.tui.screens import doctor as doctor_screen
from tuitrain.tui.screens.ask import Question
from tuitrain.tui.screens.doctor import DoctorScreen
from tuitrain.tui.screens.parameters import ParametersScreen
from tuitrain.tui.widgets.doctor_report import DoctorReport

SIZES = [(80, 24), (120, 40), (200, 60)]
SMALL, WIDE = SIZES[:2]
RUNGS = ("on the PCI bus", "known to the driver", "may be opened", "seen by NVML", "left by CUDA_VISIBLE_DEVICES", "counted by torch")


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> FakeDoctor:
    fake = FakeDoctor()
    monkeypatch.setattr(doctor_screen, "MachineDoctor", lambda: fake)
    return fake


@pytest.fixture
def app(session: FakeSession, doctor: FakeDoctor) -> TuitrainApp:
    return TuitrainApp(session, FakeSampler(card(0), card(1)), seed_cnn(), Path("runs"))


def screen_of(pilot: Pilot[None]) -> DoctorScreen:
    screen = pilot.app.screen
    assert isinstance(screen, DoctorScreen)
    return screen


def report_of(pilot: Pilot[None]) -> DoctorReport:
    return screen_of(pilot).query_one(DoctorReport)


async def opened(pilot: Pilot[None], doctor: FakeDoctor) -> str:
    """The screen with its report."""
    await pilot.press("d")
    wanted = doctor.reports[0]
    assert isinstance(wanted, Report)
    return await until_shown(pilot, wanted.conclusion.split()[0], RUNGS[0])


def rungs(text: str) -> list[str]:
    return [line for line in text.split("\n") if any(rung in line for rung in RUNGS)]


# -- while it looks ------------------------------------------------------------------------------------------------------


async def test_it_says_at_once_what_it_looks_at_and_never_shows_an_empty_pane(app: TuitrainApp, doctor: FakeDoctor) -> None:
    doctor.gate = threading.Event()
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("d")
        text = await until_shown(pilot, "looking at: torch, in a process of its own …")
        assert "the PCI bus" in text
        assert "a run trains on" in text
        # No key that needs a report does anything yet.
        await pilot.press("y", "Y", "s", "a", "e", "enter", "up", "down", "pagedown", "home", "space")
        await pilot.pause()
        assert isinstance(app.screen, DoctorScreen)
        assert app.clipboard == ""
        assert doctor.asked == ["examine"]
        doctor.gate.set()
        await until_shown(pilot, "counted by torch")
        assert "looking at" not in screen_text(app)


async def test_leaving_stops_the_examination_and_its_thread(app: TuitrainApp, doctor: FakeDoctor) -> None:
    doctor.gate = threading.Event()
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("d")
        await until_shown(pilot, "looking at: torch")
        examination = screen_of(pilot)._examination
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)
        await until(pilot, lambda: examination.join(0))
        assert doctor.stopped
        assert examination.report is None, "what a stopped examination says is not to be believed"


async def test_leaving_ends_the_process_that_asks_torch(
    session: FakeSession, sampler: FakeSampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging_torch: Path
) -> None:
    monkeypatch.setattr(doctor_screen, "MachineDoctor", MachineDoctor)
    app = TuitrainApp(session, sampler, seed_cnn(), tmp_path / "runs")
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("d")
        await until(pilot, hanging_torch.exists)
        pid = int(hanging_torch.read_text())
        assert os.getpriority(os.PRIO_PROCESS, pid) >= 10
        await pilot.press("escape")
        await until(pilot, lambda: not psutil.pid_exists(pid))


async def test_quitting_in_the_middle_stops_it_too(app: TuitrainApp, doctor: FakeDoctor) -> None:
    doctor.gate = threading.Event()
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("d")
        await until_shown(pilot, "looking at: torch")
        examination = screen_of(pilot)._examination
        await pilot.press("q")
    assert examination.join(60)
    assert doctor.stopped


async def test_it_waits_for_the_first_answer_of_nvml(session: FakeSession, doctor: FakeDoctor) -> None:
    sampler = FakeSampler()
    sampler.taken = None
    app = TuitrainApp(session, sampler, seed_cnn(), Path("runs"))
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("d")
        await until_shown(pilot, "looking at: what NVML says …")
        assert doctor.asked == []
        sampler.devices, sampler.taken = (card(0),), 0.0
        await until_shown(pilot, "counted by torch")
        assert doctor.snapshot is not None
        assert len(doctor.snapshot.devices) == 1
        assert doctor.runs_dir == Path("runs")


async def test_a_doctor_that_breaks_is_a_sentence_and_can_be_asked_again(app: TuitrainApp, doctor: FakeDoctor) -> None:
    doctor.reports = [RuntimeError("no \x1b[31mproc\nmore"), TWO_GPUS]
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("d")
        await until_shown(pilot, "The examination failed (RuntimeError: no", "e examines again")
        await pilot.press("e")
        text = await until_shown(pilot, "counted by torch")
        assert "failed" not in text


# -- the report ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_the_conclusion_comes_first_then_the_ladder_then_the_worst(
    app: TuitrainApp, doctor: FakeDoctor, size: tuple[int, int]
) -> None:
    async with app.run_test(size=size) as pilot:
        text = await opened(pilot, doctor)
        lines = text.split("\n")
        assert all(cell_len(line) == size[0] for line in lines)
        assert "✗ This machine has 2 GPUs and torch counts 1" in lines[2]
        ladder = rungs(text)[:6]
        assert [rung for rung, line in zip(RUNGS, ladder, strict=True) if rung in line] == list(RUNGS)
        columns = {line.index("●") for line in ladder}
        assert len(columns) == 1, "the counts stand under one another"
        assert [line[: columns.copy().pop()].split()[-1] for line in ladder] == ["2", "2", "2", "2", "1", "1"]
        assert ["lost here" in line for line in ladder] == [False] * 4 + [True, False]
        order = [text.index(f"{glyph} {verdict}") for glyph, verdict in (("✗", "problem  "), ("!", "warning"), ("✓", "ok"))]
        assert order == sorted(order)
        assert "1 problem · 1 warning · 15 ok" in lines[1]
        for words in ("looked at", "found", "mend       $ export CUDA_VISIBLE_DEVICES=0,1 "):
            assert words in text


async def test_a_healthy_machine_is_not_alarmed(app: TuitrainApp, doctor: FakeDoctor) -> None:
    on_purpose = msgspec.structs.replace(HEALTHY, counts=counts(2, 2, 1, 1, 1, 1, notes={2: "this container was given 1 of them"}))
    doctor.reports = [on_purpose]
    async with app.run_test(size=SMALL) as pilot:
        text = await opened(pilot, doctor)
        assert "✓ All is well" in text
        assert "← 1 fewer" in text
        assert "looked at" not in text, "there is nothing that one must see of what is in order"
        assert "this container was given 1 of them" in text
        for word in ("lost", "✗", "problem", "warning"):
            assert word not in text


async def test_a_step_that_nobody_can_count_is_not_zero(app: TuitrainApp, doctor: FakeDoctor) -> None:
    doctor.reports = [msgspec.structs.replace(TWO_GPUS, counts=counts(2, None, 2, 2, 1, None))]
    async with app.run_test(size=SMALL) as pilot:
        ladder = rungs(await opened(pilot, doctor))
        assert "n/a" in ladder[1]
        assert "lost" not in ladder[1]
        assert "lost" not in ladder[2], "it is compared with the last step that was counted"
        assert "1 lost here" in ladder[4]
        assert "n/a" in ladder[5]


async def test_enter_opens_and_closes_and_the_arrows_scroll_to_every_check(app: TuitrainApp, doctor: FakeDoctor) -> None:
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, doctor)
        assert "looked at" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert "looked at" not in screen_text(app)
        await pilot.press("enter", "down")
        await pilot.pause()
        assert report_of(pilot).selected == SHM
        assert "docker run --shm-size=8g" in screen_text(app)
        assert "▸! warning" in screen_text(app)
        for check in TWO_GPUS.checks:
            await pilot.press("down")
            await pilot.pause()
            assert "▸" in screen_text(app), check.title
            assert "looked at" in screen_text(app)
        assert report_of(pilot).selected == TWO_GPUS.checks[-1]
        await pilot.press("home")
        await pilot.pause()
        assert report_of(pilot).selected == VISIBLE
        await pilot.press("up")
        await pilot.pause()
        assert "This machine has 2 GPUs" in screen_text(app)


async def test_a_report_longer_than_its_pane_says_how_much_lies_below(app: TuitrainApp, doctor: FakeDoctor) -> None:
    async with app.run_test(size=SMALL) as pilot:
        text = await opened(pilot, doctor)
        found = re.search(r"↓ (\d+) more ─╮", text)
        assert found is not None
        await pilot.press("end")
        await until(pilot, lambda: " more ─╮" not in screen_text(app))
        await pilot.press("home", "up")
        await until_shown(pilot, found[0])
        width, height = SMALL
        await resize(pilot, width, height + int(found[1]) - 1)
        await until_shown(pilot, "↓ 1 more ─╮")
        await resize(pilot, width, height + int(found[1]))
        await until(pilot, lambda: " more ─╮" not in screen_text(app))


async def test_beside_the_report_the_selected_check_is_always_open(app: TuitrainApp, doctor: FakeDoctor) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, doctor)
        assert report_of(pilot).check_action("open", ()) is False
        before = screen_text(app)
        assert "y copies the command" in before
        await pilot.press("enter")
        await pilot.pause()
        assert screen_text(app) == before
        await pilot.press("down")
        await until_shown(pilot, "Start the container with:", "$ docker run --shm-size=8g IMAGE ", "y copies the command ")
        await pilot.press("down")
        await until_shown(pilot, "580.95.05, for CUDA up to 13.0", "/proc/driver", "✓ ok ─")
        assert "y copies" not in screen_text(app)


async def test_a_click_selects_a_check(app: TuitrainApp, doctor: FakeDoctor) -> None:
    async with app.run_test(size=WIDE) as pilot:
        lines = (await opened(pilot, doctor)).split("\n")
        row = next(place for place, line in enumerate(lines) if "torch's build" in line)
        await pilot.click("#doctor-report", offset=(10, row - 1))
        await pilot.pause()
        selected = report_of(pilot).selected
        assert selected is not None
        assert selected.check == "torch-build"
        await resize(pilot, 120, 24)
        await pilot.press("end")
        await pilot.pause()
        text = screen_text(app)
        row = next(place for place, line in enumerate(text.split("\n")) if "▸" in line)
        await pilot.click("#doctor-report", offset=(10, row - 1))
        await pilot.pause()
        assert screen_text(app) == text, "beside the report it is open already"


@pytest.mark.parametrize("size", [*SIZES, (81, 25), (119, 24), (400, 24)])
async def test_long_and_hostile_words_break_no_line(app: TuitrainApp, doctor: FakeDoctor, size: tuple[int, int]) -> None:
    nasty = "x\x1b]52;c;eA==\x07\u202e深[red]y[/] " * 30 + "w" * 500
    check = Check(check="nasty", title=nasty, looked_at=nasty, found=f"{nasty}\n\n{nasty}", verdict="problem", mend=nasty)
    doctor.reports = [Report(conclusion=f"Odd: {nasty}", counts=counts(40, 3, 3, 3, 3, 3, notes={0: nasty, 1: nasty}), checks=(check, SHM))]
    async with app.run_test(size=size) as pilot:
        await pilot.press("d")
        await until_shown(pilot, "✗ Odd: x")
        for keys in ((), ("down",), ("up", "end"), ("home", "enter")):
            await pilot.press(*keys)
            await pilot.pause()
            lines = screen_text(app).split("\n")
            assert len(lines) == size[1]
            assert all(cell_len(line) == size[0] for line in lines)
            assert not any(char in screen_text(app) for char in "\x1b\x07\u202e")


# -- what one does with it -----------------------------------------------------------------------------------------------


async def test_y_copies_the_command_and_Y_the_whole_report(app: TuitrainApp, doctor: FakeDoctor) -> None:
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, doctor)
        await pilot.press("y")
        assert app.clipboard == "export CUDA_VISIBLE_DEVICES=0,1"
        await pilot.press("Y")
        assert app.clipboard == doctor.as_text(TWO_GPUS)
        await pilot.press("down", "y")
        assert app.clipboard == "docker run --shm-size=8g IMAGE", "the words around it are not for a shell"
        await pilot.press("Y", "end")
        await pilot.pause()
        assert screen_of(pilot).check_action("copy_mend", ()) is False
        await pilot.press("y")
        assert app.clipboard == doctor.as_text(TWO_GPUS), "there is nothing to mend in what is in order"


@pytest.mark.parametrize(
    ("mend", "shown", "copied"),
    [
        ("Make the window larger.", ("mend       Make the window larger. ", "y copies the words"), "Make the window larger."),
        ("`unset A`, or: `export A=0`", ("mend       $ unset A ", "  or: $ export A=0 ", "y copies the first command"), "unset A"),
        (f"`sudo apt install {'x' * 40}`; then reboot.", ("$ sudo apt install", "  then reboot. "), f"sudo apt install {'x' * 40}"),
    ],
)
async def test_what_y_copies_can_be_pasted(app: TuitrainApp, doctor: FakeDoctor, mend: str, shown: tuple[str, ...], copied: str) -> None:
    doctor.reports = [msgspec.structs.replace(TWO_GPUS, checks=(msgspec.structs.replace(SHM, mend=mend),))]
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, doctor)
        await until_shown(pilot, *shown)
        await pilot.press("y")
        assert app.clipboard == copied


async def test_s_saves_the_report_and_asks_before_it_overwrites(app: TuitrainApp, doctor: FakeDoctor, tmp_path: Path) -> None:
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, doctor)
        await pilot.press("s")
        await until_shown(pilot, "save as", "tuitrain-doctor.txt", "Enter saves")
        # Letters are text now, and no keys.
        await pilot.press(*"ae", "enter")
        await until_told(pilot, "tuitrain-doctor.txtae")
        written = tmp_path / "tuitrain-doctor.txtae"
        assert written.read_text() == doctor.as_text(TWO_GPUS)
        assert doctor.asked == ["examine"]
        written.write_text("mine")
        await until(pilot, lambda: not screen_of(pilot)._prompt.editing)
        await pilot.press("s", *"ae", "enter")
        await until_shown(pilot, "it exists: Enter again overwrites it")
        assert written.read_text() == "mine"
        await pilot.press("x", "backspace", "enter")
        await until_shown(pilot, "it exists: Enter again overwrites it")
        await pilot.press("enter")
        await until(pilot, lambda: not screen_of(pilot)._prompt.editing)
        assert written.read_text() == doctor.as_text(TWO_GPUS)
        assert screen_of(pilot).focused is report_of(pilot)


async def test_a_save_that_is_called_off_or_has_no_name_writes_nothing(app: TuitrainApp, doctor: FakeDoctor, tmp_path: Path) -> None:
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, doctor)
        before = sorted(tmp_path.iterdir())
        await pilot.press("s", "ctrl+u", "enter")
        await until_shown(pilot, "a file needs a name")
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, DoctorScreen)
        assert "save as" not in screen_text(app)
        assert sorted(tmp_path.iterdir()) == before


async def test_examining_again_keeps_the_old_report_until_the_new_one_comes(app: TuitrainApp, doctor: FakeDoctor) -> None:
    fewer = msgspec.structs.replace(TWO_GPUS, checks=(ok("new", "New", "x"), *TWO_GPUS.checks[1:3]))
    doctor.reports = [TWO_GPUS, fewer, HEALTHY]
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, doctor)
        await pilot.press("down")
        doctor.gate = threading.Event()
        await pilot.press("e", "e")
        text = await until_shown(pilot, "─ looking at: torch, in a process of its own")
        assert "counted by torch" in text
        doctor.gate.set()
        await until_shown(pilot, "1 problem · 2 ok")
        assert doctor.asked == ["examine", "examine"], "a second key while one looks asks for nothing"
        selected = report_of(pilot).selected
        assert selected is not None
        assert selected == VISIBLE, "the selected check is gone: the worst one is selected"
        await pilot.press("e")
        await until_shown(pilot, "✓ All is well")


async def test_the_all_reduce_is_asked_for_and_joins_the_report(app: TuitrainApp, doctor: FakeDoctor) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, doctor)
        await pilot.press("a")
        await until_shown(pilot, "Test it, 30 s at most")
        assert isinstance(app.screen, Question)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, DoctorScreen))
        assert doctor.asked == ["examine"]
        await pilot.press("a")
        await until_shown(pilot, "Test it, 30 s at most")
        await pilot.press("enter")
        await until_shown(pilot, "2 ranks over gloo on the CPU")
        assert doctor.asked == ["examine", "all-reduce"]
        doctor.reduced = msgspec.structs.replace(REDUCED, verdict="problem", found="Rank 1 did not answer for 30 s.")
        await pilot.press("a", "enter")
        text = await until_shown(pilot, "Rank 1 did not answer for 30 s.", "2 problems")
        assert "2 ranks over gloo" not in text


async def test_leaving_stops_an_all_reduce(app: TuitrainApp, doctor: FakeDoctor) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, doctor)
        doctor.gate = threading.Event()
        await pilot.press("a", "enter")
        await until_shown(pilot, "looking at: how the devices talk, 30 s at most")
        examination = screen_of(pilot)._examination
        await pilot.press("d")
        await until(pilot, lambda: app.screen is app.main and examination.join(0))
        assert doctor.stopped


async def test_it_works_while_a_run_trains_and_d_opens_it_from_anywhere(app: TuitrainApp, session: FakeSession, doctor: FakeDoctor) -> None:
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("enter")
        session.begin()
        session.steps(50)
        await pilot.press("w", "d")
        await until_shown(pilot, "counted by torch")
        session.steps(50)
        await pilot.pause()
        assert session.asked == []
        await pilot.press("o", "d")
        await until_shown(pilot, "counted by torch")
        assert sum(isinstance(screen, DoctorScreen) for screen in app.screen_stack) == 1
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ParametersScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)


async def test_nothing_is_sent_while_nothing_changes(app: TuitrainApp, doctor: FakeDoctor) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, doctor)
        refreshed: list[object] = []
        report = report_of(pilot)
        report.refresh = lambda *regions, **_: refreshed.extend(regions)  # type: ignore[method-assign, assignment]
        for _ in range(3):
            screen_of(pilot).beat()
            report.redraw()
        assert refreshed == []
