"""What really goes to the terminal: the bytes of each update, played back on an emulated one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import pyte
import pytest
from fake_script import fake_script
from fakes import FakeSampler, FakeSession, card, screen_text, seed_cnn, settle
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_runs import until
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from textual._compositor import CompositorUpdate
from textual.app import App, ComposeResult
from textual.driver import Driver
from textual.geometry import Region, Size
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from tuitrain.events import Notice
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.strips import Cell, Row, cells
from tuitrain.tui.terminal.painting import Pieces
from tuitrain.tui.terminal.thrift import Shadow, ThriftyApp, ThriftyUpdate
from tuitrain.tui.widgets.lines import Lines, Pane

SIZE = (120, 40)
_SAFE = re.compile(r"\x1b\[[0-9]*[AB]\x08{0,3}|\x1b\[[0-9;]*[CDHm]|[^\x00-\x1f\x7f-\x9f]")


class OnTerminal(TuitrainApp):
    """The app with an emulated terminal behind it. Runs take no time: a clock may tick between what was painted and what is compared."""

    def __init__(self, session: FakeSession, sampler: FakeSampler, size: tuple[int, int] = SIZE) -> None:
        session.clock = lambda: 1000.0
        super().__init__(session, sampler, seed_cnn(), Path("runs"), write_script=fake_script)
        self.terminal = pyte.Screen(*size)
        self.stream = pyte.Stream(self.terminal)
        self.written: list[str] = []

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, CompositorUpdate) and not self._batch_count:
            update = self.thrifty(renderable)
            assert isinstance(update, CompositorUpdate)
            text = update.render_segments(self.console)
            self.written.append(text)
            self.stream.feed(text)
        super()._display(screen, renderable)

    def shown(self) -> str:
        return "\n".join(self.terminal.display)

    def since_last(self) -> int:
        count = sum(len(text.encode()) for text in self.written)
        self.written.clear()
        return count


async def test_the_terminal_shows_what_the_screen_holds(session: FakeSession) -> None:
    app = OnTerminal(session, FakeSampler(card(0), card(1)))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert app.shown() == screen_text(app)
        await pilot.press("down", "space", "enter")
        session.begin()
        for index in range(12):
            session.steps(37)
            if index % 3 == 0:
                session.evaluate()
            await settle(pilot)
            assert app.shown() == screen_text(app)
        await pilot.press("l", "plus", "space")
        await settle(pilot)
        assert app.shown() == screen_text(app)
        await pilot.press("question_mark")
        await pilot.press("question_mark", "n")
        await settle(pilot)
        assert app.shown() == screen_text(app)


@pytest.mark.parametrize(("size", "budget"), [((120, 40), 1000), ((80, 24), 500)])
async def test_steady_training_stays_within_its_bytes(session: FakeSession, size: tuple[int, int], budget: int) -> None:
    app = OnTerminal(session, FakeSampler(card(0)), size)
    async with app.run_test(size=size) as pilot:
        await pilot.press("enter")
        session.begin()
        session.steps(1010)
        await settle(pilot)
        app.since_last()
        seconds = 20
        for _ in range(seconds):
            for _ in range(2):
                session.steps(20)
                app.main.beat()
                await pilot.pause()
        spent = app.since_last()
        assert 50 * seconds < spent < budget * seconds


async def test_nothing_is_written_when_nothing_changes(session: FakeSession, sampler: FakeSampler) -> None:
    app = OnTerminal(session, sampler)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("enter")
        session.begin()
        session.steps(50)
        session.end()
        await settle(pilot)
        app.since_last()
        for _ in range(10):
            app.main.beat()
            await pilot.pause()
        assert app.since_last() == 0


async def test_no_string_from_outside_reaches_the_terminal_as_a_command(session: FakeSession) -> None:
    hostile = "x\x1b[2J\x1b]52;c;eA==\x07\x9b3;1H\x00\r\n\u202e[/red]"
    app = OnTerminal(session, FakeSampler())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("enter")
        session.begin()
        session.say(Notice(text=hostile, level="warning"))
        app._printed(hostile)
        session.end("failed", "step 1: \x1b[31mred\x07")
        await settle(pilot)
        await pilot.press("o")
        await pilot.pause()
        for text in app.written:
            assert _SAFE.sub("", text) == ""
            assert "\u202e" not in text


async def test_no_color_is_obeyed(session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = OnTerminal(session, sampler)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("enter")
        session.begin()
        session.steps(30)
        await settle(pilot)
        colours = set(re.findall(r"[34]8;2;(\d+);(\d+);(\d+)", "".join(app.written)))
        assert all(red == green == blue for red, green, blue in colours)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("key", ["", "question_mark", "q", "r"])
async def test_whole_screens_are_painted_as_textual_would(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch, key: str, plain: bool
) -> None:
    if plain:
        monkeypatch.setenv("NO_COLOR", "1")
    app = OnTerminal(session, sampler)
    async with app.run_test(size=SIZE) as pilot:
        session.start(seed_cnn())
        session.begin()
        session.steps(30)
        await pilot.press("t", *filter(None, [key]))
        await settle(pilot)
        update = app.screen._compositor.render_full_update()
        assert isinstance(update, Pieces)
        shown: list[list[Cell]] = [[] for _ in range(SIZE[1])]
        for x, y, strip in update.pieces:
            assert x == len(shown[y])
            shown[y] += cells(strip)
        assert shown == [cells(strip) for strip in app.screen._compositor.render_strips()]


# -- one widget -------------------------------------------------------------------------------------------------------


class Clock(Lines):
    """Two lines of which one character changes, and what was asked to be painted."""

    value = 0

    def content(self, width: int, height: int) -> list[Strip]:
        return [Row("the same as ever").strip(width), Row(f"深 step {self.value}").strip(width)]

    def __init__(self) -> None:
        super().__init__()
        self.painted: list[tuple[Region, ...]] = []

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Clock:
        if self.is_mounted and repaint:
            self.painted.append(regions)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)


class Framed(Pane):
    """A pane with a title that is too long for it."""

    def heading(self) -> tuple[Row, Row]:
        return Row("深層" * 30), Row("right")

    def body(self, width: int, height: int) -> list[Strip]:
        return [Row("x").strip(width)] * 50


class OneWidget(App[None]):
    CSS = "Clock { height: 2; } Framed { height: 4; }"

    def compose(self) -> ComposeResult:
        yield Clock()
        yield Framed()


async def test_a_redraw_paints_only_the_lines_that_changed() -> None:
    app = OneWidget()
    async with app.run_test(size=(40, 10)) as pilot:
        clock = app.query_one(Clock)
        await pilot.pause()
        clock.painted.clear()
        clock.redraw()
        assert clock.painted == []
        clock.value = 7
        clock.redraw()
        assert clock.painted == [(Region(0, 1, 40, 1),)]
        await pilot.pause()
        assert "step 7" in screen_text(app)


async def test_a_frame_keeps_its_corners_whatever_its_title() -> None:
    app = OneWidget()
    async with app.run_test(size=(40, 10)) as pilot:
        frame = app.query_one(Framed)
        frame.place(first=True, last=True)
        await pilot.pause()
        lines = [frame.render_line(y).text for y in range(4)]
        assert lines[0].startswith("╭ 深層")
        assert lines[0].endswith("╮")
        assert lines[1:] == [f"│ x{' ' * 36}│", f"│ x{' ' * 36}│", f"╰{'─' * 38}╯"]
        for width in (0, 1, 2, 3, 4, 7):
            assert all(line.cell_length == width for line in frame.content(width, 4))


class Sent(ThriftyApp[None]):
    """An app on a terminal that keeps what it is sent."""

    CSS = OneWidget.CSS

    def compose(self) -> ComposeResult:
        yield Clock()
        yield Input(classes="editor")

    async def text(self, pilot: Pilot[None], act: Callable[[], object]) -> str:
        """What is sent because of `act`."""
        driver, self._driver = self._driver, mock.create_autospec(Driver, instance=True, is_headless=False, is_inline=False)
        try:
            act()
            await pilot.pause()
            return "".join(call.args[0] for call in self._driver.write.call_args_list)
        finally:
            self._driver = driver


def _set(clock: Clock, value: int) -> None:
    clock.value = value
    clock.redraw()


async def test_a_digit_costs_a_move_and_the_digit() -> None:
    app = Sent()
    async with app.run_test(size=(40, 10)) as pilot:
        clock, field = app.query_one(Clock), app.query_one(Input)
        app.set_focus(None)
        await app.text(pilot, clock.redraw_all)
        await app.text(pilot, lambda: _set(clock, 1))
        assert await app.text(pilot, lambda: _set(clock, 2)) == "\x1b[2;9H2"
        assert await app.text(pilot, lambda: _set(clock, 2)) == ""
        await app.text(pilot, field.focus)
        x, y = field.cursor_screen_offset
        assert (await app.text(pilot, lambda: _set(clock, 3))).endswith(f"3\x1b[{y + 1};{x + 1}H"), "an input method needs the cursor"


async def test_only_a_large_update_is_put_between_marks() -> None:
    app = Sent()
    async with app.run_test(size=(200, 60)) as pilot:
        app.set_focus(None)
        app._sync_available = True
        clock = app.query_one(Clock)
        await app.text(pilot, clock.redraw_all)
        assert "2026" not in await app.text(pilot, lambda: _set(clock, 4))
        whole = await app.text(pilot, app.action_repaint)
        assert whole.startswith("\x1b[?2026h")
        assert whole.endswith("\x1b[?2026l")


async def test_a_changed_cell_has_only_its_own_widget_drawn(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    app = OnTerminal(session, FakeSampler(card(0)))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        drawn: list[tuple[str | None, int]] = []
        render = Widget.render_lines

        def noted(widget: Widget, crop: Region) -> list[Strip]:
            drawn.append((widget.id, crop.height))
            return render(widget, crop)

        monkeypatch.setattr(Widget, "render_lines", noted)
        app.main.query_one("#header").refresh(Region(3, 0, 1, 1))
        app.main.query_one("#devices").refresh(Region(5, 2, 1, 2))
        await until(pilot, lambda: len(drawn) >= 2)
        assert sorted(drawn) == [("devices", 2), ("header", 1)]


_INKS = (Style(), Style(color="#ff0000"), Style(color="#00ff00", bold=True), Style(color="#ff0000", bgcolor="#0000ff"))
_CONSOLE = Console(width=12, height=4, color_system="truecolor", force_terminal=True)


def update(shadow: Shadow, lines: Sequence[Sequence[tuple[str, int]]]) -> str:
    """What is sent so that the terminal shows `lines`, each of characters and their places in `_INKS`."""
    pieces = [(0, y, Strip([Segment(text, _INKS[ink]) for text, ink in line])) for y, line in enumerate(lines)]
    return ThriftyUpdate(shadow, pieces).render_segments(_CONSOLE)


def test_scattered_changes_set_each_colour_once() -> None:
    shadow = Shadow()
    shadow.resize(Size(12, 4))
    update(shadow, [[("....", 1), ("....", 2), ("....", 1)]] * 4)
    sent = update(shadow, [[("x...", 1), ("x...", 2), ("x...", 1)]] * 4)
    assert sent.count("m") == 1  # the other colour is the one that was written in last
    assert sent.count("x") == 12


def test_numbers_under_each_other_cost_a_step_down_or_up_each() -> None:
    shadow = Shadow()
    shadow.resize(Size(20, 4))
    update(shadow, [[(".1.............1....", 1)]] * 3)
    sent = update(shadow, [[(".2.............2....", 1)]] * 3)
    assert sent == "\x1b[1;2H2\x1b[B\b2\x1b[B\b2\x1b[13C2\x1b[A\b2\x1b[A\b2"


def test_behind_the_last_column_and_behind_wide_characters_nobody_knows_where_the_cursor_is() -> None:
    shadow = Shadow()
    shadow.resize(Size(12, 4))
    update(shadow, [[("a..........a", 1)], [("日........a.", 1)], [("..........a.", 1)]])
    sent = update(shadow, [[("a..........b", 1)], [("本........b.", 1)], [("..........b.", 1)]])
    assert sent == "\x1b[2;1H本\x1b[1;12Hb\x1b[2;11Hb\x1b[B\bb"


_cells = st.tuples(st.sampled_from("ab ."), st.integers(0, 3))
_line = st.lists(_cells, min_size=12, max_size=12) | st.lists(_cells, min_size=10, max_size=10).map(lambda line: [*line, ("日", 1)])


@settings(max_examples=60)
@given(st.lists(st.lists(_line, min_size=4, max_size=4), min_size=2, max_size=3))
def test_whatever_order_is_sent_the_terminal_shows_the_same(frames: list[list[list[tuple[str, int]]]]) -> None:
    terminal, shadow = pyte.Screen(12, 4), Shadow()
    shadow.resize(Size(12, 4))
    stream = pyte.Stream(terminal)
    for lines in frames:
        stream.feed(update(shadow, lines))
        for y, line in enumerate(lines):
            x = 0
            for text, ink in line:
                cell, style = terminal.buffer[y][x], _INKS[ink]
                assert cell.data == text
                assert cell.bg == ("0000ff" if style.bgcolor else "default")
                if text != " ":
                    assert (cell.fg, cell.bold) == (style.color.name.lstrip("#") if style.color else "default", bool(style.bold))
                x += 2 if text == "日" else 1
