"""The runs screen through its keys, on real run folders."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from fakes import RUN, FakeOutside, FakeSampler, FakeSession, screen_text, seed_cnn, settle
from kept_runs import here, keep, resize, until, until_shown, until_told
from textual.pilot import Pilot
from textual.screen import Screen

from tuitrain import words
from tuitrain.config import with_changes
from tuitrain.paths import CONFIG
from tuitrain.recipes import to_toml
from tuitrain.runs.label import annotate, rename
from tuitrain.runs.pyramid import Bin
from tuitrain.runs.record import RunRecord
from tuitrain.runs.settings import has_setting, read_settings
from tuitrain.runs.shelf import Shelf
from tuitrain.runs.summary import RunSummary, summarize
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.browse import run_rows, runs_reader
from tuitrain.tui.browse.deletion import delete_each
from tuitrain.tui.browse.run_changes import Outcome
from tuitrain.tui.browse.run_rows import Sketch
from tuitrain.tui.browse.runs_reader import Reading, RunsReader, Wish, Wishes
from tuitrain.tui.screens.ask import Ask
from tuitrain.tui.screens.opened import OpenedScreen
from tuitrain.tui.screens.runs import RunsScreen
from tuitrain.tui.widgets.run_detail import RunDetail
from tuitrain.tui.widgets.run_lines import as_many_as_fit
from tuitrain.tui.widgets.runs_table import RunsTable

SIZES = [(80, 24), (120, 40), (200, 60)]
WIDE = (120, 40)
FIRST, SECOND, THIRD = "20261121-0413-seed-cnn-aaa", "20261120-0413-seed-cnn-bbb", "20261119-0413-seed-cnn-ccc"


@pytest.fixture
def three(runs_dir: Path) -> list[Path]:
    """Three runs, newest first: alpha, beta and gamma."""
    found = []
    for number, (run, name) in enumerate(((FIRST, "alpha"), (SECOND, "beta"), (THIRD, "gamma"))):
        config = msgspec.structs.replace(seed_cnn(), name=name)
        found.append(keep(runs_dir, run, steps=20 * (number + 1), config=config))
    return found


def make(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), runs_dir)


async def opened(pilot: Pilot[None], *texts: str) -> str:
    """The runs screen, with its first list read."""
    await pilot.press("r")
    return await until_shown(pilot, *texts)


def table(pilot: Pilot[None]) -> RunsTable:
    return pilot.app.screen.query_one(RunsTable)


def selected(pilot: Pilot[None]) -> str:
    row = table(pilot).list.selected
    return "" if row is None else row.title


def names(pilot: Pilot[None]) -> list[str]:
    return [row.title for row in table(pilot).list.rows]


# -- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [["n", "r"], ["r", "r"], ["escape", "r"], ["d", "n", "r"]], ids="-".join)
async def test_marks_filter_and_order_are_there_again_wherever_one_has_been(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], keys: list[str]
) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("s", "space", "slash", *"a", "enter", "down")
        await until_shown(pilot, "▣ 1 marked", "s S name")
        left = table(pilot).list
        # Esc first ends the filter.
        if keys[0] == "escape":
            await pilot.press("escape")
        await pilot.press(*keys)
        await until_shown(pilot, "Runs 3 · ▣ 1 marked", "s S name", "Selected")
        assert table(pilot).list is left
        assert left.cursor == 0
        assert left.sought == ("" if keys[0] == "escape" else "a")


@pytest.mark.parametrize("size", SIZES)
async def test_the_table_and_the_selected_run(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], size: tuple[int, int]
) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=size) as pilot:
        text = await opened(pilot, "Runs 3", "alpha", "▇")
        for word in ("state", "name", "step", "loss", "accuracy", "age", "curve", "✓ finished", "beta", "gamma", "62.5 %", "▁"):
            assert word in text
        assert f"run      {FIRST}" in text
        assert "trains   seed-cnn · built-in synthetic data · cpu · single" in text
        assert "started  2026-11-21 04:13 UTC on " in text
        assert "state    ✓ finished · epoch 1, step 20" in text
        assert ("recipe" in text) == (size[0] >= 120)
        assert (SECOND in text) == (size[0] >= 200)
        if size[0] >= 200:
            await until_shown(pilot, " 2.402 ▇", " 1.236 █")
        assert "Enter Open" in text
        lines = text.splitlines()
        assert (len(lines), {len(line) for line in lines}) == (size[1], {size[0]})


async def test_the_detail_says_what_was_changed_and_how_long_it_took(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]
) -> None:
    changed = with_changes(seed_cnn(), {"lr": 0.03, "optimizer": "adam", "name": "delta"})
    keep(runs_dir, "20261122-0413-seed-cnn-ddd", config=changed, running_seconds=3725.4)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 4", " · took 01:02:05", "changed  optimizer adam · lr 0.03")
        await pilot.press("down")
        await until_shown(pilot, "name     alpha")
        assert "changed " not in screen_text(app)


@pytest.mark.parametrize(("size", "state"), [((80, 24), "● stalled"), (WIDE, "● running, stalled")])
async def test_a_run_that_makes_no_steps_is_called_so(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], size: tuple[int, int], state: str
) -> None:
    keep(runs_dir, "20261122-0413-seed-cnn-ddd", **here(stalled_seconds=95.0))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, state, "state    ● running, stalled · epoch 1, step 40, and no step for 95 s")
        await pilot.press("slash", *"stalled", "enter")
        await until_shown(pilot, "1 of 4")


async def test_devices_in_a_row_are_a_range_in_the_column_that_has_room_for_one(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]
) -> None:
    keep(runs_dir, "20261122-0413-seed-cnn-ddd", device=("cuda:2", "cuda:3"))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 4", " cuda:2-3 ")


@pytest.mark.parametrize("size", SIZES)
async def test_a_long_reason_leaves_room_for_what_was_changed(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int]
) -> None:
    reason = "step 96: ValueError while training: " + "the shapes do not fit, " * 8 + "at the end"
    config = msgspec.structs.replace(seed_cnn(), model="nets:late")
    keep(runs_dir, FIRST, config=config, state="failed", error=reason)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=size) as pilot:
        text = await opened(pilot, "Runs 1", "✗ failed · step 96: ValueError", "changed  model nets:late")
        assert "…" in text or "at the end" in text
        await pilot.press("x")
        await until_told(pilot, "seed-cnn does not train any more (failed): there is nothing to stop.")


@pytest.mark.parametrize("size", SIZES)
async def test_no_runs_and_no_folder(session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int]) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=size) as pilot:
        text = await opened(pilot, "No runs yet: n starts one.")
        assert "Selected" not in text
        assert "Filter" not in text
        assert "Sort" not in text
        if size != WIDE:
            return
        await pilot.press("enter", "space", "v", "slash", "e", "a", "D", "y", "s", "up", "down", "pagedown", "end")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.screen is app.main)


async def test_a_folder_that_cannot_be_read_is_a_sentence(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    runs_dir.write_text("a file")
    app = make(session, sampler, Path(os.path.relpath(runs_dir)))
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "cannot be read: Not a directory; --runs-dir or", "TUITRAIN_RUNS names another.")


async def test_states_that_need_words(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    reason = "step 96: CUDA out of memory: tried to allocate 2.00 GiB on a card of 79.15 GiB; a batch of 32 would take half of that"
    keep(runs_dir, FIRST, **here())
    keep(runs_dir, SECOND, state="running", pid=2**22 + 5)
    keep(runs_dir, THIRD, state="failed", error=reason)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        text = await opened(pilot, "● running, detached", "◌ lost", "✗ failed")
        assert f"pid {os.getpid()}" in text
        await pilot.press("down")
        await until_shown(pilot, "◌ lost · The process that trained it is gone")
        await pilot.press("down")
        text = await until_shown(pilot, "✗ failed · step 96: CUDA out of memory")
        assert "take half of that" in text
        assert "…" not in text


async def test_a_long_id_is_told_from_others_by_its_end(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    long = "20261122-0907-transformer-batch-first-k3f"
    keep(runs_dir, long)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(200, 60)) as pilot:
        text = await opened(pilot, "Selected", long)
        assert text.count(long) == 2


@pytest.mark.parametrize("state", ["failed", "lost", "stopped"])
async def test_a_run_that_was_never_saved_is_not_offered_to_go_on(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, state: str
) -> None:
    keep(runs_dir, SECOND, steps=0, state=state)
    keep(runs_dir, THIRD, state=state)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, f"run      {SECOND}")
        await until(pilot, lambda: "R Resume" not in screen_text(app))
        await pilot.press("down")
        await until_shown(pilot, f"run      {THIRD}", "R Resume")
        await pilot.press("up")
        await until(pilot, lambda: "R Resume" not in screen_text(app))


async def test_at_80_columns_detached_stands_in_the_detail(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    keep(runs_dir, FIRST, **here())
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await opened(pilot, "● running ")
        assert "state    ● running, detached" in text


async def test_damaged_runs_are_lost_and_opening_one_gives_its_sentence(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    torn, metrics, gone = keep(runs_dir, FIRST), keep(runs_dir, SECOND), keep(runs_dir, THIRD)
    (torn / "state.json").write_text('{"run"')
    (metrics / "metrics.sqlite").write_bytes(b"SQLite format 3\0torn" * 50)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3", "◌ lost", "state.json is damaged")
        await pilot.press("enter")
        await until_shown(pilot, "✗ 20261121-0413-seed-cnn-aaa: state.json is damaged", "Esc goes back")
        await pilot.press("escape", *["down"] * 2)
        (runs_dir / SECOND).rename(runs_dir / f".{SECOND}")
        (runs_dir / f".{SECOND}").rename(runs_dir / SECOND)
        await pilot.press("up", "enter")
        await until_shown(pilot, f"✗ {SECOND}: metrics.sqlite cannot be read")
        await pilot.press("escape", "down")
        shutil.rmtree(gone)
        await pilot.press("enter")
        await until_shown(pilot, f"✗ {THIRD} is not there any more.")


async def test_the_newest_of_many_runs_show_before_all_are_read(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, whole = Shelf.read, threading.Event()

    def slow(shelf: Shelf) -> list[RunSummary]:
        assert whole.wait(60)
        return read(shelf)

    monkeypatch.setattr(runs_reader, "_FIRST", 2)
    monkeypatch.setattr(Shelf, "read", slow)
    app = make(session, sampler, runs_dir)
    try:
        async with app.run_test(size=WIDE) as pilot:
            text = await opened(pilot, "Runs 3", "alpha", "beta")
            assert "gamma" not in text
            await pilot.press("down", "space")
            whole.set()
            await until_shown(pilot, "Runs 3 · ▣ 1 marked", "gamma")
            assert [row.title for row in table(pilot).list.chosen] == ["beta"]
    finally:
        whole.set()


async def test_few_runs_are_read_once(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_reader, "_FIRST", 3)
    monkeypatch.setattr("tuitrain.tui.screens.base.BEAT_SECONDS", 3600.0)
    shown: list[int] = []
    show = RunsTable.show
    monkeypatch.setattr(RunsTable, "show", lambda self, rows, *rest: (shown.append(len(rows)), show(self, rows, *rest)))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3", "gamma")
        assert shown == [3]


async def test_what_a_reading_runs_into_is_said_once_and_it_reads_on(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, asked, mended = RunsReader.read, threading.Semaphore(0), threading.Event()

    def broken(reader: RunsReader, wish: Wish, own: RunRecord | None) -> Reading:
        if mended.is_set() or not wish.listing:
            return read(reader, wish, own)
        asked.release()
        raise PermissionError(13, "Permission [b]denied[/b]\x1b[2J")

    monkeypatch.setattr(RunsReader, "read", broken)
    said: list[str] = []
    notify = RunsScreen.notify
    monkeypatch.setattr(RunsScreen, "notify", lambda self, text, **how: (said.append(text), notify(self, text, **how)))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("r")
        await until_told(pilot, "This could not be read: [Errno 13] Permission [b]denied[/b]")
        screen = app.screen
        assert isinstance(screen, RunsScreen)
        for _ in range(2):
            await until(pilot, lambda: asked.acquire(blocking=False))
            await until(pilot, lambda: not screen._busy)
            screen._look(listing=True)
        assert len(said) == 1
        mended.set()
        await until(pilot, lambda: not screen._busy)
        screen._look(listing=True)
        await until_shown(pilot, "Runs 3", "alpha", "beta", "gamma")


async def test_the_own_run_is_current_and_enter_goes_to_its_screen(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    keep(runs_dir, RUN, steps=0, **here())
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.begin()
        session.steps(150)
        await settle(pilot)
        text = await opened(pilot, "● running ", "▇")
        assert "detached" not in text
        assert "150" in text
        session.steps(1200)
        app.screen.beat()  # type: ignore[attr-defined]
        await until_shown(pilot, "1,350")
        session.pause()
        await until_shown(pilot, "‖ paused")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main)
        assert app.main.view == "run"


async def test_an_own_run_with_which_another_process_goes_on_is_shown_and_opened_as_its_folder_tells(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path
) -> None:
    path = keep(runs_dir, RUN, steps=0, **here())
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.begin()
        session.steps(150)
        session.stop()
        await settle(pilot)
        await opened(pilot, "■ stopped", " 150 ")
        status = msgspec.json.decode((path / "state.json").read_bytes())
        other = {"pid": os.getppid(), "pid_started": None, "step": 777, "heartbeat": time.time()}
        (path / "state.json").write_bytes(msgspec.json.encode({**status, **other}))
        text = await until_shown(pilot, "● running", " 777 ")
        assert "R Resume" not in text
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, OpenedScreen))


async def test_new_runs_come_and_the_selection_stays(session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("down")
        assert selected(pilot) == "beta"
        keep(runs_dir, "20261122-0413-seed-cnn-new", config=msgspec.structs.replace(seed_cnn(), name="delta"))
        for _ in range(2):
            app.screen.beat()  # type: ignore[attr-defined]
        await until_shown(pilot, "Runs 4", "delta")
        assert selected(pilot) == "beta"
        shutil.rmtree(three[1])
        app.screen.on_screen_resume()  # type: ignore[attr-defined]
        await until_shown(pilot, "Runs 3")
        assert selected(pilot) in ("alpha", "gamma")


HOSTILE = "[red]x[/] 深層 🔥 \x1b[2J\x9b\u202ereversed"


@pytest.mark.parametrize("size", SIZES)
async def test_strings_from_outside_are_shown_as_they_are(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int]
) -> None:
    path = keep(runs_dir, FIRST, name=HOSTILE, host=HOSTILE, error=HOSTILE, device=(HOSTILE,), strategy=HOSTILE)
    (path / "label.json").write_bytes(msgspec.json.encode({"note": HOSTILE}))
    broken = runs_dir / f"20200101-0000-{HOSTILE.replace('/', '')}"
    broken.mkdir()
    (broken / "run.toml").touch()
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=size) as pilot:
        text = await opened(pilot, "name     [red]x[/] 深層 🔥 ·[2J··reversed", "note     [red]x[/]")
        assert not any(char in text for char in "\x1b\x9b\u202e")
        await pilot.press("down", "enter")
        text = await until_shown(pilot, "state.json cannot be read")
        assert not any(char in text for char in "\x1b\x9b\u202e")


async def test_plain_terminals_get_ascii_only(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "linux")
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3", "v finished")
        await pilot.press("space", "slash", "a")
        await until_shown(pilot, "# 1 marked")
        assert screen_text(app).replace("\n", "").isascii()


# -- moving, sorting, filtering -----------------------------------------------------------------------------------------


async def test_moving_by_keys_and_mouse(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    first = keep(runs_dir, "20260101-0000-seed-cnn-000")
    for number in range(1, 60):
        (runs_dir / f"20260101-0000-seed-cnn-{number:03}").mkdir()
        shutil.copy(first / "state.json", runs_dir / f"20260101-0000-seed-cnn-{number:03}")
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 60")

        def place() -> int:
            return table(pilot).list.cursor

        for keys, expected in (
            (["down", "j"], 2),
            (["up", "k", "k"], 0),
            (["pagedown"], table(pilot).list.page - 1),
            (["pageup"], 0),
            (["end"], 59),
            (["home"], 0),
        ):
            await pilot.press(*keys)
            assert place() == expected
        assert await pilot.click(RunsTable, offset=(10, 5))
        assert place() == 3
        assert isinstance(app.screen, RunsScreen), "one click only selects"
        await pilot.click(RunsTable, offset=(10, 1))
        assert place() == 3, "the headings are no run"
        await pilot._post_mouse_events([_scroll_down()], RunsTable, offset=(10, 5))
        assert table(pilot).list.top == 3
        assert place() in range(3, 3 + table(pilot).list.page)
        await resize(pilot, 80, 30)
        await pilot.press("end")
        await resize(pilot, 80, 24)
        await until(pilot, lambda: "▸" in screen_text(app))


async def test_a_double_click_opens(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    for number in range(2):
        keep(runs_dir, f"20260101-0000-seed-cnn-{number:03}")
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 2")
        second = table(pilot).list.rows[1].title
        assert await pilot.double_click(RunsTable, offset=(10, 3))
        await until(pilot, lambda: isinstance(app.screen, OpenedScreen))
        await until_shown(pilot, second)


def _scroll_down() -> type:
    from textual.events import MouseScrollDown

    return MouseScrollDown


async def test_sorting_names_the_order(session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3", "s S newest")
        orders = {}
        for _ in range(6):
            await pilot.press("s")
            orders[table(pilot).list.sort] = names(pilot)
            await until_shown(pilot, f"s S {table(pilot).list.sort}")
        assert orders["name"] == ["alpha", "beta", "gamma"]
        assert orders["most steps"] == ["gamma", "beta", "alpha"]
        assert orders["lowest loss"] == ["gamma", "beta", "alpha"]
        assert list(orders) == ["name", "state", "most steps", "lowest loss", "best accuracy", "longest"]
        assert selected(pilot) == "alpha"
        await pilot.press("s")
        await until_shown(pilot, "s S newest")


async def test_an_order_turned_round_and_back(session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3", "s S newest")
        await pilot.press("S")
        await until_shown(pilot, "s S newest, reversed")
        assert names(pilot) == ["gamma", "beta", "alpha"]
        assert selected(pilot) == "alpha"
        await pilot.press("S")
        assert names(pilot) == ["alpha", "beta", "gamma"]
        await pilot.press("S", "s")
        await until_shown(pilot, "s S name")
        assert names(pilot) == ["alpha", "beta", "gamma"], "another order begins its usual way round"


async def test_filtering_as_one_types(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    annotate(three[2], "with warm-up")
    monkeypatch.setattr("tuitrain.tui.screens.base.BEAT_SECONDS", 3600.0)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("slash", *"warm")
        text = await until_shown(pilot, "1 of 3")
        assert names(pilot) == ["gamma"]
        assert "name     gamma" in text
        await pilot.press("q", "n")
        await until_shown(pilot, "0 of 3", "No run holds “warmqn”")
        await pilot.press("backspace", "backspace", "enter")
        await until_shown(pilot, "/ warm", "1 of 3")
        assert not table(pilot).searching
        await pilot.press("escape")
        await until(pilot, lambda: len(names(pilot)) == 3)
        assert selected(pilot) == "gamma"
        assert isinstance(app.screen, RunsScreen)
        await pilot.press("r")
        await until(pilot, lambda: app.screen is app.main)


async def test_filtering_by_words_of_the_settings(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    for run, changes in (
        (FIRST, {"name": "one", "model": "resnet18", "optimizer": "adam"}),
        (SECOND, {"name": "two", "model": "resnet18", "precision": "bf16"}),
        (THIRD, {"name": "three", "data": "/data/Pets"}),
    ):
        keep(runs_dir, run, config=with_changes(seed_cnn(), changes))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3")
        for typed, found in (
            ("resnet18", ["one", "two"]),
            ("Resnet ADAM", ["one"]),
            ("bf16 lr=0.01", ["two"]),
            ("pets", ["three"]),
            ("sgd", ["two", "three"]),
            ("one adam", ["one"]),
        ):
            await pilot.press("slash", *typed)
            await until(pilot, lambda found=found: names(pilot) == found)  # type: ignore[misc]
            await pilot.press("enter", "escape")
            await until(pilot, lambda: len(names(pilot)) == 3)
        for typed in ("resnet19", "none", "auto", "0.01", "true"):
            await pilot.press("slash", *typed)
            await until_shown(pilot, f"No run holds “{typed}”. Esc")
            await pilot.press("escape")


async def test_filtering_by_settings(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    for number, (lr, optimizer) in enumerate(((0.01, "adam"), (0.1, "adamw"), (0.01, "sgd"))):
        config = msgspec.structs.replace(seed_cnn(), name=optimizer, lr=lr, optimizer=optimizer)
        keep(runs_dir, f"2026112{number}-0413-seed-cnn-aa{number}", config=config)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3")
        for typed, found in (("lr=1e-2", ["sgd", "adam"]), ("lr=.01 Optimizer=ADAM", ["adam"]), ("optimizer=adam", ["adamw", "adam"])):
            await pilot.press("slash", *typed)
            await until(pilot, lambda found=found: names(pilot) == found)  # type: ignore[misc]
            await pilot.press("enter", "escape")
            await until(pilot, lambda: len(names(pilot)) == 3)
        await pilot.press("slash", *"lr=7")
        await until_shown(pilot, "No run holds “lr=7”. Esc")
        await pilot.press("escape", "slash", *"momentun=0.9")
        await until_shown(pilot, "momentun is no setting. Did you mean", "'momentum'? Esc")


# -- marks and comparing ------------------------------------------------------------------------------------------------


async def test_marked_runs_are_compared(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[list[Path]] = []

    class CompareScreen(Screen[None]):
        def __init__(self, run: object, paths: list[Path]) -> None:
            super().__init__()
            compared.append(list(paths))

    module = ModuleType("tuitrain.tui.screens.compare")
    module.CompareScreen = CompareScreen  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tuitrain.tui.screens.compare", module)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("v")
        await until_told(pilot, "Mark two runs or more with space")
        await pilot.press("space")
        await until_shown(pilot, "▣ 1 marked")
        assert selected(pilot) == "beta"
        await pilot.press("v")
        assert not compared
        await pilot.press("space", "slash", *"gamma", "enter", "v")
        await until(pilot, lambda: len(compared) == 1)
        assert compared == [three[:2]]
        app.pop_screen()
        await pilot.press("escape", "home", "space")
        await until_shown(pilot, "▣ 1 marked")


@pytest.mark.parametrize("away", [("v", "r"), ("v", "g", "escape", "r"), ("g", "escape"), ("d", "r")])
async def test_marks_and_filter_outlast_a_look_elsewhere(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], away: tuple[str, ...]
) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3")
        screen = app.screen
        await pilot.press("space", "space", "slash", *"a", "enter")
        await until_shown(pilot, "▣ 2 marked")
        for key in away:
            await pilot.press(key)
        await until_shown(pilot, "▣ 2 marked", "Selected")
        assert app.screen is screen
        assert len(app.screen_stack) == 2


async def test_the_keys_are_where_they_were_after_the_terminal_was_too_small(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]
) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3", "▸ ▢ ✓ finished    alpha")
        await resize(pilot, 60, 15)
        await until_shown(pilot, "tuitrain needs 72×20")
        await until(pilot, lambda: app.screen.focused is None)
        await resize(pilot, *WIDE)
        await until_shown(pilot, "alpha")
        await until(pilot, lambda: app.screen.focused is table(pilot))
        await pilot.press("down", "slash", *"be")
        await until_shown(pilot, "/ be", "1 of 3")
        await resize(pilot, 60, 15)
        await until_shown(pilot, "tuitrain needs 72×20")
        await resize(pilot, *WIDE)
        await until_shown(pilot, "/ be")
        await pilot.press(*"ta")
        await until_shown(pilot, "/ beta", "1 of 3")
        await pilot.press("escape")
        await until(pilot, lambda: names(pilot) == ["alpha", "beta", "gamma"])


async def test_more_than_eight_are_too_many(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    first = keep(runs_dir, "20260101-0000-seed-cnn-000")
    for number in range(1, 9):
        shutil.copytree(first, runs_dir / f"20260101-0000-seed-cnn-{number:03}")
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 9")
        await pilot.press(*["space"] * 9, "v")
        await until_told(pilot, "9 runs are marked, and 8 at most are compared.")


# -- names, notes, deleting, copying ------------------------------------------------------------------------------------


async def test_renaming_and_noting(session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("down", "e")
        await until_shown(pilot, "Another name", "empty: its first name · Enter keeps it · Esc leaves it")
        await pilot.press(*"-2 [b]", "enter")
        await until_shown(pilot, "name     beta-2 [b]")
        await until(pilot, lambda: names(pilot) == ["alpha", "beta-2 [b]", "gamma"])
        await pilot.press("a", *"warm up", "enter")
        await until_shown(pilot, "note     warm up")
        assert msgspec.json.decode((three[1] / "label.json").read_bytes()) == {"name": "beta-2 [b]", "note": "warm up"}
        await pilot.press("e", *"lost", "escape")
        await until_shown(pilot, "name     beta-2 [b] ")
        assert isinstance(app.screen, RunsScreen)
        await pilot.press("e", *["backspace"] * 10, "enter")
        await until_shown(pilot, "name     beta ")
        assert app.screen.focused is table(pilot)


async def test_a_name_for_a_run_that_has_gone_meanwhile_is_a_sentence(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]
) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("e", "x")
        shutil.rmtree(three[0])
        await pilot.press("enter")
        await until_told(pilot, f"{FIRST} is not there any more.")
        await until_shown(pilot, "Runs 2")


async def test_a_name_can_be_left_where_the_last_run_has_gone_meanwhile(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    path = keep(runs_dir, FIRST)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 1", "Selected")
        await pilot.press("e", "x")
        shutil.rmtree(path)
        await until_shown(pilot, "No runs yet", "Another name")
        await pilot.press("y", "escape")
        text = await until_shown(pilot, "Esc Close")
        assert "Selected" not in text
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)


@pytest.mark.parametrize(("kept", "title"), [(True, "warm"), (False, "seed-cnn")])
async def test_the_own_run_gets_its_new_name_at_once_where_it_can_be_kept(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, kept: bool, title: str
) -> None:
    folder = keep(runs_dir, RUN, steps=0, **here())
    if not kept:
        (folder / "label.json").mkdir()
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.begin()
        session.steps(20)
        await opened(pilot, "● running")
        await pilot.press("e", *"warm", "enter")
        await (until_shown(pilot, "name     warm") if kept else until_told(pilot, "label.json cannot be written"))
        assert session.record is not None
        assert session.record.config.title() == title


async def test_a_note_that_cannot_be_kept_is_not_typed_twice(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]
) -> None:
    in_the_way = three[0] / "label.json"
    in_the_way.mkdir()
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("a", *"long", "enter")
        await until_told(pilot, "label.json cannot be written")
        await until_told(pilot, "a shows what was typed again.")
        # It is that run's note, and no other's.
        await pilot.press("down", "a", "x", "escape", "up", "e", "escape")
        in_the_way.rmdir()
        await pilot.press("a", "y", "enter")
        await until_shown(pilot, "note     longy")


async def test_a_change_that_fails_as_nobody_foresaw_says_so(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ValueError("an [odd] disk")

    monkeypatch.setattr("tuitrain.tui.browse.run_changes.copy_command", broken)
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("y")
        await until_told(pilot, "This did not work: an [odd] disk.")


async def test_deleting_asks_and_enter_keeps(session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("down", "D")
        text = await until_shown(pilot, "Delete beta?", "▸ Keep it")
        assert SECOND in text
        assert "cannot be undone" in text
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        assert three[1].exists()
        await pilot.press("D", "escape")
        assert three[1].exists()
        await pilot.press("D", "down")
        await until_shown(pilot, "▸ Delete it")
        await pilot.press("enter")
        await until_told(pilot, f"Deleted {SECOND}.")
        await until_shown(pilot, "Runs 2")
        assert os.listdir(runs_dir).count(SECOND) == 0
        assert selected(pilot) == "gamma"


@pytest.mark.parametrize(("words", "kept"), [("Keep it", True), ("Delete it", False)])
async def test_a_click_takes_an_answer(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], words: str, kept: bool
) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("D")
        lines = (await until_shown(pilot, "Delete alpha?", words)).splitlines()
        title = next(y for y, line in enumerate(lines) if "Delete alpha?" in line)
        await pilot.click(offset=(lines[title].index("Delete"), title))
        assert isinstance(app.screen, Ask), "a click beside the answers takes none"
        row = next(y for y, line in enumerate(lines) if y > title and words in line)
        await pilot.click(offset=(lines[row].index(words), row))
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and three[0].exists() == kept)


async def test_a_run_that_goes_while_one_is_asked_about_it_takes_no_copy_with_it(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]
) -> None:
    copy = three[1].with_name(f"{SECOND}-backup")
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("down", "D")
        await until_shown(pilot, "Delete beta?")
        three[1].rename(copy)
        await pilot.press("down")
        await until_shown(pilot, "▸ Delete it")
        await pilot.press("enter")
        await until_told(pilot, f"{SECOND} is not there any more.")
        assert copy.exists()


async def test_a_live_run_is_not_deleted(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    path = keep(runs_dir, FIRST, **here())
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        assert "D Delete" not in await opened(pilot, "● running")
        await pilot.press("D")
        await until_told(pilot, f"{FIRST} is running (pid {os.getpid()} on {socket.gethostname()}); stop it first.")
        assert not isinstance(app.screen, Ask)
        assert path.exists()


async def test_marked_runs_are_deleted_together_and_those_that_train_stay(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]
) -> None:
    live = keep(runs_dir, "20261122-0413-seed-cnn-ddd", config=msgspec.structs.replace(seed_cnn(), name="delta"), **here())
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 4")
        await pilot.press("space", "space", "down", "space", "slash", *"a", "enter", "D")
        text = await until_shown(pilot, "Delete 2 marked runs?", "▸ Keep them", "  Delete 2 marked")
        assert "alpha, gamma. Not deleted, because running: delta." in text
        assert "cannot be undone" in text
        assert "Delete only" not in text, "gamma is selected and marked"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.press("D", "escape")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        assert all(path.exists() for path in three)
        await pilot.press("D", "down", "enter")
        await until_told(pilot, "Deleted 2 runs.")
        await until_shown(pilot, "▣ 1 marked")
        assert [path.exists() for path in (live, *three)] == [True, False, True, False]


async def test_marked_runs_that_a_filter_hides_are_counted_and_the_selected_one_may_be_meant(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]
) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("space", "space", "slash", *"gamma", "enter", "D")
        text = await until_shown(pilot, "Delete 2 marked runs?", "alpha, beta. The filter hides 2 of them.")
        assert "Delete only the selected one: gamma" in text
        await pilot.press("up", "enter")
        await until_told(pilot, f"Deleted {THIRD}.")
        assert [path.exists() for path in three] == [True, True, False]


async def test_of_marked_runs_that_all_train_one_is_named(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    for run in (FIRST, SECOND):
        keep(runs_dir, run, **here())
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 2")
        await pilot.press("space", "space", "D")
        await until_told(pilot, f"None of the 2 marked runs can be deleted. {FIRST} is running (pid {os.getpid()} on ")
        assert isinstance(app.screen, RunsScreen)


def test_a_marked_run_that_has_gone_is_named_and_the_others_are_deleted(runs_dir: Path, three: list[Path]) -> None:
    runs = [summarize(path, time.time()) for path in three]
    shutil.rmtree(three[1])
    told = delete_each(runs, FakeOutside(), lambda progress: True, lambda: False)
    assert told == Outcome(f"Deleted 2 of 3 runs. {SECOND} is not there any more.", wrong=True)
    assert not any(path.exists() for path in three)


def test_who_leaves_the_app_does_not_wait_for_all_marked_runs_to_be_deleted(runs_dir: Path, three: list[Path]) -> None:
    runs = [summarize(path, time.time()) for path in three]
    ends = iter([False, True])
    told = delete_each(runs, FakeOutside(), lambda progress: True, lambda: next(ends))
    assert told == Outcome("Deleted 1 run.")
    assert [path.exists() for path in three] == [False, True, True]


async def test_copying_the_equal_line(session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]) -> None:
    (three[1] / "run.toml").unlink()
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3")
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == "tuitrain run seed-cnn --name alpha")
        await pilot.press("down", "y")
        await until_told(pilot, "run.toml cannot be read")


async def test_enter_opens_and_escape_comes_back_to_the_same_run(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]
) -> None:
    rename(three[2], "omega")
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, "Runs 3", "omega")
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, OpenedScreen))
        await until_shown(pilot, "omega · built-in synthetic data")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        assert selected(pilot) == "omega"


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    ("key", "screen"), [("o", "LogScreen"), ("w", "ParametersScreen"), ("p", "PredictionsScreen"), ("i", "AnalysisScreen")]
)
async def test_what_is_about_a_run_is_about_the_selected_one(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path], key: str, screen: str, own: bool
) -> None:
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=WIDE) as pilot:
        if own:
            keep(runs_dir, RUN, steps=0, **here())
            await pilot.press("enter")
            session.begin()
            session.steps(150)
            await settle(pilot)
        await opened(pilot, "alpha", "gamma")
        while selected(pilot) != ("seed-cnn" if own else "gamma"):
            await pilot.press("down")
        await pilot.press(key)
        await until(pilot, lambda: type(app.screen).__name__ == screen)
        below = app.screen_stack[-2]
        if own:
            assert below is app.main
        else:
            assert isinstance(below, OpenedScreen)
            assert below.opened.path == three[2]
            assert app.subject is below.opened


async def test_every_key_is_safe_while_something_is_typed(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, three: list[Path]
) -> None:
    app = make(session, sampler, runs_dir)
    keys = ["down", "pageup", "pagedown", "D", "v", "space", "tab", "y", "s", "n", "r"]
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "Runs 3")
        for opener in ("slash", "e"):
            await pilot.press(opener, *keys, "escape", "escape")
            if app.screen is app.main:
                await opened(pilot, "Runs 3")
        await resize(pilot, 60, 20)
        await until_shown(pilot, "tuitrain needs 72×20")
        assert app.is_running
    assert all(path.exists() for path in three)


# -- pure parts -----------------------------------------------------------------------------------------------------------


def test_the_same_curves_are_read_once_and_the_list_after_what_is_under_way() -> None:
    wishes, narrow, wide = Wishes(), Wish((), 10, None, (0, 0)), Wish((), 20, None, (0, 0))
    listing = msgspec.structs.replace(narrow, listing=True)
    assert wishes.add(narrow, busy=False) == narrow
    assert wishes.add(narrow, busy=False) is None
    assert wishes.add(wide, busy=False) == wide
    assert wishes.add(listing, busy=True) is None
    assert wishes.add(narrow, busy=False) == listing, "what could not be read then is read now"
    assert wishes.add(narrow, busy=False) is None
    assert [wishes.add(listing, busy=False) for _ in range(2)] == [listing, listing]


def test_what_is_drawn_of_a_run_stays_until_another_one_is_selected() -> None:
    detail = RunDetail()
    first, second = (run_rows.row_of(RunSummary(path=Path(run), run=run, state="running")) for run in "ab")
    detail.show(first)
    detail.sketch, detail.changed = Sketch(("▁",)), "lr 0.03"
    detail.show(msgspec.structs.replace(first, step=7))
    assert (detail.sketch, detail.changed) == (Sketch(("▁",)), "lr 0.03")
    detail.show(second)
    assert (detail.sketch, detail.changed) == (None, "")


def test_ages_have_one_unit_and_six_cells() -> None:
    minute, hour, day = 60, 3600, 86400
    ages = {
        0: "now", 59: "now", 60: "1 min", hour - 1: "59 min", hour: "1 h", day: "1 d", 13 * day: "13 d", 20 * day: "2 w", 800 * day: "2 y",
    }  # fmt: skip
    assert {seconds: words.age(seconds) for seconds in ages} == ages
    assert words.age(None) == "-"
    every = [*range(0, 2 * day, minute), *range(0, 3000 * day, day)]
    assert all(len(words.age(seconds)) <= 6 for seconds in every)


def test_a_sparkline_has_gaps_where_nothing_was_finite() -> None:
    bins = [Bin(x, y, y, y) for x, y in ((1, 8.0), (2, 4.0), (4, 1.0))]
    assert run_rows.sketch(bins, 4, 4, 1).lines == ("▇▄ ▁",)
    assert run_rows.sketch(bins, 4, 8, 1).lines == ("▇▇▄▄  ▁▁",)
    assert run_rows.sketch([Bin(1, 2, 2, 2)], 1, 3, 1).lines == ("▁▁▁",)
    assert run_rows.sketch([], 0, 3, 1).lines == ()
    assert run_rows.sketch([Bin(1, 2, 2, 2)], 1, 2, 2).lines == ("  ", "▁▁")
    tall = run_rows.sketch(bins, 4, 4, 2)
    assert (tall.lines, tall.high, tall.low) == (("▇   ", "█▇ ▁"), 8.0, 1.0)
    many = [Bin(100 * x + 50, 1, 100.0 - x, 200) for x in range(100)]
    assert run_rows.sketch(many, 10_000, 8, 1).lines == ("▇▆▅▄▄▃▂▁",)


def test_the_filter_finds_every_word_anywhere(runs_dir: Path) -> None:
    summaries = [
        RunSummary(path=runs_dir / run, run=run, name=name, recipe="seed-cnn", state=state, device=("cuda:1",), data="cifar10", note=note)
        for run, name, state, note in (("2026-a", "Beta", "finished", "warm-up"), ("2025-b", "", "running", ""))
    ]
    rows = [run_rows.row_of(summary) for summary in summaries]
    for sought, expected in {
        "": 2, "seed BETA": 1, "cuda:1": 2, "CIFAR-10": 2, "cifar10 up": 1, "detached": 1, "2025": 1, "finished beta": 1, "beta running": 0,
    }.items():  # fmt: skip
        assert len(run_rows.arranged(rows, "newest", sought)) == expected, sought


def test_a_setting_is_found_as_set_takes_it(tmp_path: Path) -> None:
    config = with_changes(seed_cnn(), {"data": "/data/My=Set", "max_steps": None, "note": "lr = 7\n[x]\nseed = 9"})
    settings = read_settings(keep(tmp_path, FIRST, config=config))
    for wanted in ("batch_size=64", "batch-size=64.0", "data=my=set", "max_steps=none", "lr=0.01", "lr=1e-2", "shuffle=false", "seed=0"):
        assert has_setting(settings, wanted), wanted
    for wanted in ("batch_size=6", "lr=0.0", "lr=7", "seed=9", "max_steps=3", "torch=2", "torch=", "optimise=n", "optimizer=adam"):
        assert not has_setting(settings, wanted), wanted
    for wanted in ("max_steps=none", "max_steps="):
        assert not has_setting(read_settings(tmp_path / "gone"), wanted)


@pytest.mark.parametrize("size", SIZES)
async def test_how_long_runs_took_is_a_column_where_there_is_room_and_an_order(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int]
) -> None:
    for run, name, seconds in ((FIRST, "alpha", 65.0), (SECOND, "beta", 3725.4), (THIRD, "gamma", None)):
        keep(runs_dir, run, config=msgspec.structs.replace(seed_cnn(), name=name), running_seconds=seconds)
    live = msgspec.structs.replace(seed_cnn(), name="delta")
    keep(runs_dir, "20261122-0413-seed-cnn-ddd", config=live, **here(running_seconds=9000.0))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=size) as pilot:
        text = await opened(pilot, "Runs 4", "gamma")
        heading, *lines = text[text.index("state") :].splitlines()
        rows = {name: line for line in lines for name in ("alpha", "beta") if name in line}
        taken = {name: [clock for clock in ("00:01:05", "01:02:05") if clock in line] for name, line in rows.items()}
        assert taken == ({"alpha": [], "beta": []} if size[0] == 80 else {"alpha": ["00:01:05"], "beta": ["01:02:05"]})
        assert ("took" in heading) == (size[0] > 80)
        assert "02:30:00" not in text, "it still trains"
        await pilot.press(*"ssssss")
        await until_shown(pilot, "s S longest")
        assert names(pilot) == ["beta", "alpha", "delta", "gamma"]
        await pilot.press("S")
        assert names(pilot) == ["alpha", "beta", "delta", "gamma"]


def test_how_long_a_run_took_fits_its_column() -> None:
    taken = [run_rows.took(seconds) for seconds in (None, 0.4, 65.9, 359_999.0, 360_000.0, 86_400_000.0)]
    assert taken == ["-", "00:00:00", "00:01:05", "99:59:59", "4.2 d", "1,000.0 d"]


def test_turned_round_what_has_no_number_still_comes_last(runs_dir: Path) -> None:
    numbers = (("a", 0.5), ("b", None), ("c", 0.25), ("d", float("nan")))
    rows = [run_rows.row_of(RunSummary(path=runs_dir / run, run=run, loss=loss)) for run, loss in numbers]
    assert [row.summary.run for row in run_rows.arranged(rows, "lowest loss", "")] == ["c", "a", "b", "d"]
    assert [row.summary.run for row in run_rows.arranged(rows, "lowest loss", "", reverse=True)] == ["a", "c", "b", "d"]


def test_a_name_with_an_equals_sign_is_found_by_it(runs_dir: Path) -> None:
    rows = [run_rows.row_of(RunSummary(path=runs_dir / name, run=name, name=name)) for name in ("lr=0.1", "lr=0.2")]
    assert [row.title for row in run_rows.arranged(rows, "newest", "lr=0.1")] == ["lr=0.1"]


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("longest_id", [0, 31, 41, 200])
@pytest.mark.parametrize("most_steps", [0, 9_999_999])
def test_columns_fill_every_width(detached: bool, longest_id: int, most_steps: int) -> None:
    for width in range(70, 300):
        columns = run_rows.columns(width, detached=detached, longest_id=longest_id, most_steps=most_steps)
        assert next(column.width for column in columns if column.name == "step") >= len(run_rows.steps(most_steps))
        assert sum(column.width for column in columns) + len(columns) - 1 == width if width >= 73 else True
        assert columns[-1].name == "curve"


def test_numbers_of_steps_fit_their_column() -> None:
    assert [run_rows.steps(count) for count in (0, 7, 9_999_999, 12_345_678, 9_999_999_999)] == [
        "-",
        "7",
        "9,999,999",
        "12.3 M",
        "10,000.0 M",
    ]


# -- what tells runs apart --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "cell"), zip(SIZES, ["seed-cnn lr 0.03 ", "seed-cnn lr 0.03 … ", "seed-cnn lr 0.03 · epochs 2 … "], strict=True)
)
async def test_behind_a_name_stands_in_what_a_run_differs_from_its_recipe(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int], cell: str
) -> None:
    changed = with_changes(seed_cnn(), {"lr": 0.03, "epochs": 2, "max_steps": 120})
    keep(runs_dir, FIRST, config=changed)
    keep(runs_dir, SECOND, config=with_changes(seed_cnn(), {"name": "beta", "seed": 7}))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, cell, "beta seed 7 ")


async def test_what_differs_is_read_again_when_it_is_something_else(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    keep(runs_dir, FIRST, config=with_changes(seed_cnn(), {"epochs": 2}))
    app = make(session, sampler, runs_dir)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, "seed-cnn epochs 2 ")
        for text, shown in ((to_toml(with_changes(seed_cnn(), {"epochs": 30})), "seed-cnn epochs 30 "), ("no TOML", "seed-cnn     ")):
            (runs_dir / FIRST / CONFIG).write_text(text)
            app.screen.on_screen_resume()  # type: ignore[attr-defined]
            await until_shown(pilot, shown)


@pytest.mark.parametrize(
    ("changes", "cells", "shown"),
    [
        ("lr 0.03", 7, "lr 0.03"),
        ("lr 0.03 · epochs 2", 18, "lr 0.03 · epochs 2"),
        ("lr 0.03 · epochs 2", 17, "lr 0.03 …"),
        ("lr 0.03 · epochs 2", 9, "lr 0.03 …"),
        ("lr 0.03 · epochs 2", 8, "lr 0.03"),
        ("lr 0.03 · epochs 2 · seed 4", 20, "lr 0.03 · epochs 2 …"),
        ("lr 0.03 · epochs 2", 6, "lr …"),
        ("batch size 128 · epochs 2", 13, "batch size …"),
        ("batch size 128 · epochs 2", 11, "batch …"),
        ("checkpoint every steps 10", 8, "checkpoint …"),
    ],
)
def test_of_what_differs_no_half_a_number_is_shown(changes: str, cells: int, shown: str) -> None:
    assert as_many_as_fit(changes.split(" · "), cells) == shown
