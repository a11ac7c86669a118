"""The log screen through its keys: follow and scroll, search, save; and that all prints come there."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import RUN, FakeSampler, FakeSession, screen_text, seed_cnn, settle
from kept_runs import until_shown
from textual import events
from textual.pilot import Pilot

from tuitrain.events import Notice
from tuitrain.runs.logtail import LOG_LINES, LogTail
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.log_text import LogText, Search, cut
from tuitrain.tui.screens.log import LogScreen
from tuitrain.tui.widgets.log import LogView
from tuitrain.tui.widgets.prompt import Prompt
from tuitrain.tui.widgets.save_prompt import SavePrompt

SIZES = [(80, 24), (120, 40), (200, 60)]
SMALL = (80, 24)
HOSTILE = "[/]深層[bold red]\x1b]52;c;eA==\x1b\\\x9b2J\u202e[@click=app.quit]x[/]"
NAME = f"{RUN}-log.txt"


def make(session: FakeSession, sampler: FakeSampler) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), Path("runs"))


async def opened(pilot: Pilot[None], session: FakeSession, *texts: str) -> LogView:
    """The log screen of a run that said `texts`."""
    await pilot.press("enter")
    session.begin()
    session.say(*(Notice(text=text) for text in texts))
    await settle(pilot)
    await pilot.press("o")
    await pilot.pause()
    return pilot.app.screen.query_one(LogView)


def reversed_texts(view: LogView) -> list[str]:
    """What stands in reverse video."""
    return [text for strip in view._shown for text, style, _ in strip if style is not None and style.reverse]


def marked(view: LogView) -> list[str]:
    """The lines that the mark of the present match stands at."""
    return [strip.text.strip("│ ") for strip in view._shown if "▸" in strip.text]


# -- scrolling --------------------------------------------------------------------------------------------------------


async def test_an_empty_log_says_what_comes_here(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    for size in SIZES:
        async with app.run_test(size=size) as pilot:
            await pilot.press("o")
            await pilot.pause()
            assert "Nothing yet: notices, and what libraries print, come here." in screen_text(app)
            await pilot.press(*"/x", "enter", "greater_than_sign", "less_than_sign", "escape", "up", "home", "end", "pageup", "escape")
            await pilot.pause()
            assert app.screen is app.main
        app = make(session, sampler)


async def test_the_wheel_and_the_keys_scroll_and_new_lines_do_not_move_the_view(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        view = await opened(pilot, session, *(f"notice {index}." for index in range(100)))
        assert "following" in screen_text(app)
        for kind, back in ((events.MouseScrollUp, 3), (events.MouseScrollUp, 6), (events.MouseScrollDown, 3)):
            view.post_message(kind(view, 5, 5, 0, 0, 0, False, False, False))
            await pilot.pause()
            assert view.back == back
        assert "3 rows back · End follows" in screen_text(app)
        assert "notice 96." in screen_text(app)
        assert "notice 97." not in screen_text(app)
        session.say(Notice(text="something new"))
        await pilot.pause()
        assert "notice 96." in screen_text(app)
        assert "notice 97." not in screen_text(app)
        assert "4 rows back" in screen_text(app)
        await pilot.press("down", "down", "down")
        await pilot.pause()
        assert " 1 row back · End follows" in screen_text(app)
        await pilot.press("up", "up", "up", "pageup", "up")
        assert view.back == 4 + view.body_height() - 1 + 1
        await pilot.press("end")
        await pilot.pause()
        assert "something new" in screen_text(app)


async def test_what_one_has_scrolled_back_to_stays_in_view_at_another_width(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        view = await opened(pilot, session, *(f"notice {index}: {'long ' * 20}" for index in range(100)))
        await pilot.press("pageup", "pageup")
        (lowest,) = [
            number for number in range(100) if f"notice {number}:" in screen_text(app) and f"notice {number + 1}:" not in screen_text(app)
        ]
        for size in ((120, 40), (200, 60), SMALL):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert f"notice {lowest}:" in screen_text(app)
            assert f"notice {lowest + 1}:" not in screen_text(app)
        assert 0 < view.back < view._farthest


# -- searching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_a_search_highlights_counts_and_goes_from_match_to_match(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int]
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        lines = [f"Needle {index}" if index % 50 == 0 else f"hay {index}" for index in range(200)]
        view = await opened(pilot, session, *lines)
        await pilot.press("slash", *"nEEDle")
        await pilot.pause()
        # The newest first, wherever it is; 0, 50, 100, 150 match.
        assert "4 of 4 · ↓ ↑ Enter keeps it" in screen_text(app)
        assert "Needle" in reversed_texts(view)
        assert marked(view)[0].endswith("Needle 150")
        for key, place, number in (("up", 3, 100), ("up", 2, 50), ("down", 3, 100), ("down", 4, 150), ("down", 1, 0), ("up", 4, 150)):
            await pilot.press(key)
            await pilot.pause()
            assert f"{place} of 4" in screen_text(app)
            assert marked(view)[0].endswith(f"Needle {number}")
        await pilot.press("enter", "less_than_sign")
        await pilot.pause()
        assert "3 of 4 · > next  < previous  Esc ends" in screen_text(app)
        assert marked(view)[0].endswith("Needle 100")
        await pilot.press("greater_than_sign", "greater_than_sign")
        await pilot.pause()
        assert marked(view)[0].endswith("Needle 0")
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, LogScreen)
        assert not reversed_texts(view)
        assert "Esc ends" not in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main


async def test_no_match_says_so_and_new_lines_are_searched(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, session, "one", "two")
        await pilot.press("slash", *"three")
        await pilot.pause()
        assert "no line has it" in screen_text(app)
        session.say(Notice(text="three"))
        await until_shown(pilot, "1 of 1")
        # Letters are text while one types: nothing was opened, started or left.
        assert isinstance(app.screen, LogScreen)
        assert app.screen.query_one(Prompt).text == "three"
        assert session.asked == []
        # The search is kept for another look, and its text for another change.
        await pilot.press("enter", "slash", "x")
        await pilot.pause()
        assert "no line has it" in screen_text(app)


async def test_what_is_too_old_to_be_shown_is_not_said_to_be_nowhere(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, session, "the oldest line", *(f"line {index}" for index in range(LOG_LINES)))
        await pilot.press("home")
        await pilot.pause()
        assert "older lines are only in the file · 1,980 rows back · End follows" in screen_text(app)
        await pilot.press("down")
        await pilot.pause()
        assert " 1,979 rows back · End follows" in screen_text(app)
        assert "older lines" not in screen_text(app)
        await pilot.press("slash", *"oldest")
        await pilot.pause()
        assert "none of the newest 2,000 lines has it" in screen_text(app)


async def test_where_the_match_goes_with_the_oldest_lines_the_next_one_comes_into_view(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        view = await opened(pilot, session, *(f"Needle {index}" if index in (0, 100) else f"hay {index}" for index in range(LOG_LINES)))
        await pilot.press("slash", *"needle", "down", "enter")
        await pilot.pause()
        assert marked(view)[0].endswith("Needle 0")
        session.say(Notice(text="one more"))
        await settle(pilot)
        assert "1 of 1" in screen_text(app)
        assert marked(view)[0].endswith("Needle 100")


async def test_a_match_over_the_end_of_a_row_is_highlighted_in_both(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        view = await opened(pilot, session, "深" * 60 + " end " + "x" * 10)
        await pilot.press("slash", *"end")
        await pilot.pause()
        assert reversed_texts(view) == ["end"]
        view.find("深" * 60)
        await pilot.pause()
        assert sorted(reversed_texts(view), key=len) == ["深" * 28, "深" * 32]


async def test_hostile_lines_and_searches_stay_text(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        view = await opened(pilot, session, HOSTILE, "a (.*)[ b")
        for text, found in (("(.*)[", "(.*)["), ("[/]深", "[/]深"), ("[@click", "[@click")):
            view.find(text)
            await pilot.pause()
            assert reversed_texts(view) == [found]
        assert not set("\x1b\x9b\u202e") & set(screen_text(app))
        await pilot.press("slash")
        app.screen.query_one("Prompt Input").insert_text_at_cursor("[red]深[/red]")  # type: ignore[attr-defined]
        await until_shown(pilot, "no line has it")
        await pilot.press("enter")
        await pilot.pause()
        assert "search [@click[red]深[/red]" in screen_text(app)


# -- saving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_saving_takes_the_whole_file_of_the_run(
    session: FakeSession, sampler: FakeSampler, tmp_path: Path, size: tuple[int, int]
) -> None:
    whole = "".join(f"2026-11-21T04:13:00.000Z info line {index}\n" for index in range(LOG_LINES * 2))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.txt").write_text(whole, encoding="utf-8")
    app = make(session, sampler)
    async with app.run_test(size=size, notifications=True) as pilot:
        await opened(pilot, session, "in memory")
        assert session.record is not None
        session.record.path = tmp_path / "run"
        await pilot.press("s")
        await pilot.pause()
        assert f"save as {NAME}" in screen_text(app)
        assert "Enter saves · Esc cancels" in screen_text(app)
        await pilot.press("enter")
        await until_shown(pilot, "Saved:")
        assert (tmp_path / NAME).read_text(encoding="utf-8") == whole
        assert app.focused is app.screen.query_one(LogView)


async def test_a_file_that_is_there_is_overwritten_only_by_a_second_enter(
    session: FakeSession, sampler: FakeSampler, tmp_path: Path
) -> None:
    (tmp_path / NAME).write_text("precious", encoding="utf-8")
    (tmp_path / f"{NAME}x").write_text("precious too", encoding="utf-8")
    app = make(session, sampler)
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await opened(pilot, session, "in memory")
        await pilot.press("s", "enter")
        await until_shown(pilot, "it exists: Enter again overwrites it")
        # Another name asks anew.
        await pilot.press("x", "enter")
        await until_shown(pilot, "it exists: Enter again overwrites it")
        assert (tmp_path / f"{NAME}x").read_text(encoding="utf-8") == "precious too"
        await pilot.press("backspace", "enter")
        await until_shown(pilot, "it exists: Enter again overwrites it")
        assert (tmp_path / NAME).read_text(encoding="utf-8") == "precious"
        await pilot.press("enter")
        await until_shown(pilot, "Saved:")
    assert "info in memory\n" in (tmp_path / NAME).read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [NAME, f"{NAME}x"]


async def test_a_slow_disk_takes_no_line_away_that_is_typed_since(
    session: FakeSession, sampler: FakeSampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def slow(name: str, **_: object) -> Path:
        assert answers.wait(60)
        return tmp_path / name

    monkeypatch.setattr("tuitrain.tui.screens.log.save_log", slow)
    app = make(session, sampler)
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await opened(pilot, session, "in memory")
        await pilot.press("s", "enter", "escape", "s", "x")
        answers.set()
        await until_shown(pilot, "Saved:")
        await pilot.press("y")
        prompt = app.screen.query_one(SavePrompt)
        assert (prompt.editing, prompt.text) == (True, f"{NAME}xy")


async def test_what_cannot_be_saved_says_why(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, session, "in memory")
        await pilot.press("s")
        editor = app.screen.query_one("Prompt Input")
        for name, said in (
            ("d", "this is a folder: add a file's name"),
            ("no/such/folder.txt", "not saved: No such file or directory"),
            ("n" * 300, "not saved: File name too long"),
            ("  ", "a file needs a name"),
        ):
            editor.value = name  # type: ignore[attr-defined]
            await pilot.pause()
            assert said not in screen_text(app)
            await pilot.press("enter")
            await until_shown(pilot, said)
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, LogScreen)
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []


# -- where prints go --------------------------------------------------------------------------------------------------


def test_prints_of_c_code_and_of_other_processes_land_in_the_log_and_not_on_the_screen() -> None:
    program = """
        import asyncio, ctypes, os, subprocess, sys
        from pathlib import Path
        from fakes import FakeSampler, FakeSession, screen_text, seed_cnn
        from tuitrain.tui.app import TuitrainApp
        from tuitrain.capture import Capture

        async def main(capture):
            app = TuitrainApp(FakeSession(), FakeSampler(), seed_cnn(), Path("runs"), capture=capture)
            async with app.run_test(size=(80, 24)) as pilot:
                os.write(1, b"one from a descriptor\\n")
                os.write(2, b"two \\x1b[31mfrom\\x1b[0m stderr\\n")
                ctypes.CDLL(None).puts(b"three from C")
                ctypes.CDLL(None).fflush(None)
                subprocess.run([sys.executable, "-c", "print('four from a child')"], check=True)
                await pilot.press("o")
                for _ in range(500):
                    app.screen.beat()
                    await pilot.pause(0.01)
                    text = screen_text(app)
                    if all(word in text for word in ("one from", "two from", "three from", "four from")):
                        return True
            return False

        with Capture() as capture:
            found = asyncio.run(main(capture))
        print("found" if found else "lost")
    """
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests' / 'tui'}"},
    )
    assert (done.stdout, done.stderr) == ("found\n", "")


# -- the text behind --------------------------------------------------------------------------------------------------


async def test_another_run_s_log_takes_the_place_of_a_longer_one_with_what_is_looked_for(
    session: FakeSession, sampler: FakeSampler
) -> None:
    shown = [LogTail(), LogTail(), LogTail()]
    for index in range(100):
        shown[0].add("info", f"needle {index}")
    shown[2].add("info", "hay")
    shown[2].add("info", "the needle")
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        app.push_screen(LogScreen(app.view, lambda: shown[0]))
        await pilot.pause()
        await pilot.press("slash", *"needle", "enter", "pageup")
        for matches, text in ((0, "no line has it"), (1, "1 of 1")):
            del shown[0]
            await pilot.resize_terminal(80, 23 + matches)
            await pilot.pause()
            view = app.screen.query_one(LogView)
            assert (view.back, len(view.search.matches)) == (0, matches)
            await until_shown(pilot, text)
        assert marked(view)[0].endswith("the needle")


def filled(count: int) -> LogTail:
    log = LogTail()
    for index in range(count):
        log.add("info", f"line {index}")
    return log


def test_lines_keep_their_numbers_when_the_oldest_are_dropped() -> None:
    log, text, search = filled(LOG_LINES), LogText(), Search()
    assert text.update(log, 20) == LOG_LINES
    search.find("line 5", text, 7)
    assert search.at == 5
    for index in range(LOG_LINES, LOG_LINES + 6):
        log.add("info", f"line {index}")
    assert text.update(log, 20) == 6
    search.update(text)
    assert (text.first, len(text)) == (6, LOG_LINES)
    assert text.line(6).text == "line 6"
    assert search.matches[0] == 50
    assert search.at == 50
    assert text.update(log, 20) == 0


def test_another_width_or_log_begins_anew() -> None:
    log, text = filled(3), LogText()
    text.update(log, 20)
    assert text.update(log, 4) == 6
    assert [text.row(index) for index in range(2)] == [(0, "line", 0, True), (0, "0", 5, False)]
    assert text.update(filled(1), 4) == 2
    assert len(text) == 2


def test_what_is_printed_keeps_its_indentation_and_is_found_where_it_is() -> None:
    log, text = LogTail(), LogText()
    log.add("output", "    return inner()")
    log.add("output", "           ^^^^^")
    text.update(log, 40)
    assert [text.row(index) for index in range(2)] == [(0, "    return inner()", 0, True), (1, "           ^^^^^", 0, True)]
    text.update(log, 14)
    assert [text.row(index) for index in range(2)] == [(0, "    return", 0, True), (0, "inner()", 11, False)]


def test_more_at_once_than_is_kept() -> None:
    log, text = filled(1), LogText()
    text.update(log, 20)
    for index in range(LOG_LINES + 10):
        log.add("info", f"new {index}")
    text.update(log, 20)
    assert (text.first, len(text), text.line(text.first).text) == (11, LOG_LINES, "new 10")


def test_cutting_a_piece_at_what_was_found() -> None:
    assert cut("abcdef", 10, [(8, 11), (12, 13), (15, 99)]) == [("a", True), ("b", False), ("c", True), ("de", False), ("f", True)]
    assert cut("abc", 0, []) == [("abc", False)]
    assert cut("abc", 5, [(0, 5), (8, 9)]) == [("abc", False)]
    condition: Callable[[str], list[tuple[int, int]]] = Search().spans
    assert condition("anything") == []
