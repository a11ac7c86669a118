"""Text that the mouse is drawn over, and Ctrl+C."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn
from kept_runs import until, until_shown
from rich.segment import Segment
from test_log_screen import opened
from textual.events import MouseDown, MouseEvent, MouseMove, MouseUp
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input
from tour import keep_three

from tuitrain.events import Notice
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.selected import Selected
from tuitrain.tui.widgets.filtered_table import FilteredTable
from tuitrain.tui.widgets.lines import Lines

SIZES = [(80, 24), (120, 40), (200, 60)]
PATH = "/data/run-1/log.txt"


async def mouse(pilot: Pilot[None], kind: type[MouseEvent], x: int, y: int, button: int = 1) -> None:
    """As the terminal tells of it: of what a `Pilot` posts Textual makes no clicks."""
    driver = pilot.app._driver
    assert driver is not None
    driver.process_message(kind(None, x, y, 0, 0, button, False, False, False, screen_x=x, screen_y=y))
    await pilot.pause()


async def draw(pilot: Pilot[None], start: tuple[int, int], *others: tuple[int, int]) -> None:
    """Draw the mouse from `start` over `others`."""
    await mouse(pilot, MouseDown, *start)
    for place in others:
        await mouse(pilot, MouseMove, *place)
    await mouse(pilot, MouseUp, *(others or (start,))[-1])


def place_of(app: TuitrainApp, text: str) -> tuple[int, int]:
    """Column and line of a text on the screen."""
    ((x, y),) = [(line.index(text), y) for y, line in enumerate(screen_text(app).splitlines()) if text in line]
    return x, y


def marked(app: TuitrainApp) -> str:
    """What stands in reverse video because it is selected."""
    lines = app.screen.query(Lines)
    return "".join(
        text
        for one in lines
        if one.text_selected is not None
        for y in range(one.size.height)
        for text, style, _ in one.render_line(y)
        if style is not None and style.reverse
    )


@pytest.fixture
def app(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), tmp_path / "runs")


@pytest.mark.parametrize("size", SIZES)
async def test_a_text_is_selected_and_ctrl_c_copies_it_once_and_then_quits(
    app: TuitrainApp, session: FakeSession, size: tuple[int, int]
) -> None:
    async with app.run_test(size=size, notifications=True) as pilot:
        await opened(pilot, session, f"saved as {PATH} just now")
        x, y = place_of(app, PATH)
        await draw(pilot, (x, y), (x + 3, y), (x + len(PATH) - 1, y))
        assert marked(app) == PATH
        await pilot.press("ctrl+c")
        await until_shown(pilot, "copied")
        assert app.clipboard == PATH
        assert marked(app) == ""
        await pilot.press("ctrl+c")
        await until_shown(pilot, "▸ Stop and save")


async def test_lines_are_copied_without_the_frame_and_only_those_of_the_pane_where_it_began(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, "one", "two", "three")
        x, y = place_of(app, "one")
        # Upwards and out of the pane, and so beyond its last line.
        await draw(pilot, place_of(app, "two"), (x + 1, y), (x, y))
        await pilot.press("ctrl+c")
        assert [line.split()[-1] for line in app.clipboard.splitlines()] == ["one", "t"]
        assert "│" not in app.clipboard
        await draw(pilot, (x, y), (x, 23), (79, 23))
        await pilot.press("ctrl+c")
        assert app.clipboard.split()[0] == "one"
        assert app.clipboard.split()[-1] == "three"


async def test_what_was_selected_is_copied_when_other_lines_have_taken_its_place(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, *(f"line {index:02}" for index in range(60)))
        x, y = place_of(app, "line 55")
        await draw(pilot, (x, y), (x + 6, y))
        assert marked(app) == "line 55"
        session.say(Notice(text="something new"))
        await until_shown(pilot, "something new")
        assert marked(app) == ""
        await pilot.press("ctrl+c")
        assert app.clipboard == "line 55"


async def test_a_click_elsewhere_or_another_selection_ends_one_and_a_click_selects_nothing(
    app: TuitrainApp, session: FakeSession, tmp_path: Path
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "batch size")
        form, devices = place_of(app, "batch size"), place_of(app, "cpu  ")
        await draw(pilot, form, (form[0] + 9, form[1]))
        assert marked(app) == "batch size"
        await draw(pilot, devices, (devices[0] + 2, devices[1]))
        assert marked(app) == "cpu"
        await draw(pilot, form)
        assert marked(app) == ""
        await draw(pilot, form, form)
        assert marked(app) == ""
        await pilot.press("ctrl+c")
        await until(pilot, lambda: bool(app._exit))
        assert app.clipboard == ""


async def test_drawing_the_mouse_is_no_click(app: TuitrainApp, session: FakeSession, tmp_path: Path) -> None:
    keep_three(tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Runs 3")
        x, y = place_of(app, "beta")
        table = app.screen.focused
        assert isinstance(table, FilteredTable)
        before = table.list.cursor
        await draw(pilot, (x, y), (x + 3, y))
        assert marked(app) == "beta"
        assert table.list.cursor == before
        await draw(pilot, (x, y))
        assert table.list.cursor != before


async def test_blanks_are_not_copied_over_what_the_clipboard_has(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, "a text")
        app.copy_to_clipboard("precious")
        x, y = place_of(app, "a text")
        await draw(pilot, (x + 20, y), (x + 25, y))
        await pilot.press("ctrl+c")
        assert app.clipboard == "precious"
        assert app.screen is not app.main


async def test_ctrl_c_copies_from_a_dialog_and_leaves_it_where_nothing_is_selected(app: TuitrainApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        await until_shown(pilot, "this help")
        x, y = place_of(app, "this help")
        await draw(pilot, (x, y), (x + 8, y))
        await pilot.press("ctrl+c")
        assert app.clipboard == "this help"
        assert app.screen is not app.main
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.screen is app.main)


async def test_lines_that_have_just_become_more_are_selected_as_far_as_one_sees_them(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        view = await opened(pilot, session, "one", "two", "three")
        x, y = place_of(app, "one")
        await mouse(pilot, MouseDown, x, y)
        # As where the terminal has become larger and nothing was drawn since.
        view._shown = view._shown[: y - view.region.y + 2]
        await mouse(pilot, MouseMove, x, y + 9)
        view.redraw_all()
        await pilot.pause()
        await pilot.press("ctrl+c")
        assert [line.split()[-1] for line in app.clipboard.splitlines()] == ["one", "t"]


async def test_a_field_in_the_lines_selects_by_itself(app: TuitrainApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "batch size")
        await pilot.press(*"/precious")
        await until_shown(pilot, "/precious")
        field = app.focused
        assert isinstance(field, Input)
        x, y = field.content_region.offset
        await draw(pilot, (x, y), (x + 2, y), (x + 4, y))
        assert field.selected_text == "/pre"
        assert marked(app) == ""


async def test_a_selection_that_is_never_ended_leaves_the_mouse_to_others(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, "a text")
        x, y = place_of(app, "a text")
        for away in ("resize", "key"):
            await mouse(pilot, MouseDown, x, y)
            await mouse(pilot, MouseMove, x + 2, y)
            if away == "resize":
                await pilot.resize_terminal(60, 15)
                await until_shown(pilot, "tuitrain needs")
                await pilot.resize_terminal(80, 24)
            else:
                await pilot.press("r", "o")
            await until_shown(pilot, "a text")
            assert app.mouse_captured is None
            await draw(pilot, (x, y), (x + 5, y))
            assert marked(app) == "a text"


async def test_a_button_whose_end_the_terminal_did_not_tell_is_pressed_elsewhere(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, "a text")
        x, y = place_of(app, "a text")
        # The keys, one line at the end of the screen, still wait for it.
        await mouse(pilot, MouseDown, x, 23)
        await draw(pilot, (x, 0), (x, y))
        await draw(pilot, (x, y), (x + 5, y))
        assert marked(app) == "a text"


def test_wide_characters_are_selected_whole() -> None:
    shown = [Strip([Segment("│ 深層 abc │")])]
    selected = Selected.between(Offset(3, 0), Offset(7, 0), shown, lambda y: range(2, 10))
    assert selected.columns(0, range(2, 10)) == range(3, 8)
    assert selected.text.endswith("層 a")
