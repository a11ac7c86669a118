"""The comparison of runs through its keys, on real run folders."""

from __future__ import annotations

import math
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn, settle, started
from kept_runs import resize, until, until_shown
from textual.events import MouseScrollDown
from textual.pilot import Pilot

from tuitrain.events import Eval, Event, Losses, RunEnded, State, Targets
from tuitrain.paths import METRICS
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.process import this_process
from tuitrain.runs.record import RunRecord
from tuitrain.runs.store import MetricsWriter
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.curve.chart import Picture
from tuitrain.tui.curve.metrics import WEIGHTS
from tuitrain.tui.look import LIGHT
from tuitrain.tui.screens import compare as compare_module
from tuitrain.tui.screens.compare import CompareScreen
from tuitrain.tui.screens.help import HelpScreen
from tuitrain.tui.widgets.overlay import Overlay

SIZES = [(80, 24), (120, 40), (200, 60)]
WIDE = (120, 40)
FALLING = [0.4 + 2 * math.exp(-step / 40) for step in range(100)]


def keep(
    runs_dir: Path,
    name: str,
    losses: Sequence[float] = FALLING,
    *,
    accuracies: Sequence[float] = (0.4, 0.6),
    tests: Sequence[float] = (),
    targets: Targets = "classes",
    per_epoch: int = 50,
    live: bool = False,
    seconds: float = 0.5,
    test_samples: int = 100,
    total: int | None = None,
    **config: Any,
) -> Path:
    """A run folder, evaluated after each of its first epochs; `tests` are losses of epochs without an accuracy."""
    chosen = msgspec.structs.replace(seed_cnn(), name=name, **config)
    count = len(losses)
    sizes = {"train_samples": 3200, "test_samples": test_samples, "steps_per_epoch": per_epoch, "total_steps": total or max(count, 1)}
    start = started(recipe=chosen.recipe, data="synthetic", targets=targets, **sizes)
    events: list[Event] = [State(state="running")]
    if count:
        events.append(Losses(first_step=1, epoch=1, losses=tuple(losses), times=tuple(1000 + seconds * step for step in range(count))))
    evaluated = [(loss, math.nan) for loss in tests] or [(1.5 - accuracy, accuracy) for accuracy in accuracies]
    for epoch, (loss, accuracy) in enumerate(evaluated if test_samples else (), 1):
        events.append(Eval(step=min(epoch * per_epoch, count), epoch=epoch, loss=loss, loss_sum=3.0, accuracy=accuracy))
    if not live:
        events.append(RunEnded(state="finished", step=count))
    folder, record = RunFolder.create(runs_dir, chosen, start, {"threads": 2}), RunRecord(chosen)
    writer = MetricsWriter(folder.path / METRICS)
    for event in [start, *events]:
        record.apply(event)
        writer.append([event])
    writer.close()
    status = {"pid": os.getpid(), "pid_started": this_process().pid_started} if live else {}
    folder.write_state(msgspec.structs.replace(folder.status.with_record(record), **status))
    return folder.path


@pytest.fixture
def pair(runs_dir: Path) -> list[Path]:
    """Two runs that differ in their learning rate, one twice as long as the other."""
    return [keep(runs_dir, "short"), keep(runs_dir, "long", [*FALLING, *[0.5] * 100], lr=0.5, accuracies=(0.3, 0.5, 0.7, 0.9))]


def make(session: FakeSession, sampler: FakeSampler) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), Path("runs"))


async def compared(pilot: Pilot[None], paths: Sequence[Path], *texts: str) -> str:
    """The screen with its first reading."""
    app = pilot.app
    assert isinstance(app, TuitrainApp)
    app.push_screen(CompareScreen(app.view, paths))
    await until(pilot, lambda: isinstance(app.screen, CompareScreen))
    return await until_shown(pilot, "Runs and their differences", *(texts or ("same in all",)))


def screen(pilot: Pilot[None]) -> CompareScreen:
    found = pilot.app.screen
    assert isinstance(found, CompareScreen)
    return found


def overlay(pilot: Pilot[None]) -> Overlay:
    return pilot.app.screen.query_one(Overlay)


async def pressed(pilot: Pilot[None], *keys: str) -> str:
    """The screen after keys, once it shows what they ask for."""
    await pilot.press(*keys)
    await until(pilot, lambda: not screen(pilot)._busy)
    await pilot.pause()
    return screen_text(pilot.app)


def chart(text: str) -> str:
    """The part above the table."""
    return text[: text.index("Runs and their differences")]


# -- what it shows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_curves_over_the_table(session: FakeSession, sampler: FakeSampler, pair: list[Path], size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        text = await compared(pilot, pair, "2 long")
        assert len(text.splitlines()) == size[1]
        for words in (
            "Train loss over steps",
            "1 short   2 long",
            "smoothing 0.9",
            "state",
            "✓ finished",
            "best accuracy",
            "60.0 %",
            "90.0 %",
        ):
            assert words in text
        for words in ("last loss", "0.500", "100/100", "200/200", "running time"):
            assert words in text
        legend = text.index("1 short   2 long")
        assert chart(text)[legend + 20 :].count("1") >= 2
        assert text.count("Esc Close") == 1
        seen = text.splitlines()
        while screen(pilot).check_action("scroll", ()) and "0 rows below" not in text:
            text = await pressed(pilot, "pagedown")
            seen += text.splitlines()
        assert "same in all: recipe seed-cnn, model seed-cnn" in "\n".join(seen)
        assert any(line.startswith("│ lr ") and "0.01" in line and "0.5" in line for line in seen)
        rows = [line.strip("│ ").split("  ")[0] for line in seen]
        assert rows.index("last loss") < rows.index("lr") < rows.index("steps"), "what may be why stands under what came of it"


async def test_a_loss_that_is_no_finite_number_is_not_called_another(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> None:
    paths = [keep(tmp_path, "well"), keep(tmp_path, "gone", [2.0, math.inf], accuracies=())]
    async with make(session, sampler).run_test(size=WIDE) as pilot:
        text = await compared(pilot, paths, "2 gone")
        (line,) = [line for line in text.splitlines() if line.startswith("│ last loss")]
        assert line.split() == ["│", "last", "loss", "0.568", "not", "finite", "│"]


async def test_equal_configurations(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        text = await compared(pilot, [keep(runs_dir, "same"), keep(runs_dir, "same")], "same in all")
        assert "the configurations are equal" in text
        first, second = (f"same {path.name.rpartition('-')[2]}" for path in sorted(runs_dir.iterdir()))
        assert first in text
        assert second in text


@pytest.mark.parametrize("size", SIZES)
async def test_eight_runs_with_hostile_names(session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int]) -> None:
    names = ["[red]x[/]", "長い名前の実験", "evil\x1b[31m\u202e", "👩‍🚀 launch", "a" * 70, "plain", "b c d", "tiny"]
    paths = [keep(runs_dir, name, FALLING[: 100 - 9 * index], note=name, lr=0.1 + index) for index, name in enumerate(names)]
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        text = await compared(pilot, paths, "8 tiny")
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "1 [red]x[/]" in text
        assert "2 長い名前" in text
        assert "3 evil·[31m·" in text
        assert all(line[0] in " │╭├╰" for line in text.splitlines())
        curves = chart(text)[text.index("┤") :]
        assert all(str(number) in curves for number in range(1, 9))


async def test_runs_that_do_not_fit_are_reached_sideways(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    paths = [keep(runs_dir, f"run {number}", lr=number / 10) for number in range(1, 8)]
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await compared(pilot, paths, "runs 1–4 of 7")
        assert "3 run 3" in text[text.index("Runs and") :]
        text = await pressed(pilot, "right")
        assert "runs 2–5 of 7" in text
        text = await pressed(pilot, *["right"] * 4)
        assert "runs 4–7 of 7" in text
        assert "7 run 7" in text[text.index("Runs and") :]
        await resize(pilot, 200, 60)
        assert "of 7" not in await until_shown(pilot, "same in all")
        await resize(pilot, 80, 24)
        await until_shown(pilot, "runs 1–4 of 7")
        await pressed(pilot, *["right"] * 4)
        text = await pressed(pilot, *["left"] * 4, "z", "left")
        assert "runs 1–4 of 7" in text
        assert "More runs" not in text


async def test_long_values_are_broken_and_not_lost(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    folder = "/data/" + "very-long-folder-name/" * 3
    paths = [
        keep(runs_dir, "one", data=f"{folder}first"),
        keep(runs_dir, "two", data=f"{folder}second"),
        keep(runs_dir, "three", data="x" * 900, note="seven " * 60),
    ]
    app = make(session, sampler)
    async with app.run_test(size=(120, 60)) as pilot:
        text = await compared(pilot, paths)
        columns = [line[2:-2] for line in text.splitlines() if line.startswith("│")]
        assert any("first" in line and "second" in line for line in columns)
        assert "x…" in text
        assert "seven" in text
        assert "sevense" not in text


# -- keys -------------------------------------------------------------------------------------------------------------


async def test_a_and_m_choose_what_is_drawn_over_what(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        text = await compared(pilot, pair)
        assert "Train loss over steps" in text
        assert "+/- smoothing" in text
        assert "200  │" in chart(screen_text(app))
        text = await pressed(pilot, "a")
        assert "Train loss over epochs" in text
        assert screen(pilot)._reading is not None
        assert screen(pilot)._reading.axis.high == 4
        text = await pressed(pilot, "a")
        assert "Train loss over time since the first step" in text
        assert "1:30" in chart(text)
        text = await pressed(pilot, "a", "m")
        assert "Test loss over steps" in text
        assert "+/- smoothing" not in text
        text = await pressed(pilot, "m")
        assert "Test accuracy in % over steps" in text
        assert "100┤" in text
        assert "linear" not in text
        assert "Train loss over steps" in await pressed(pilot, "m")


async def test_log_scale_and_smoothing(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        linear = chart(await compared(pilot, pair))
        text = await pressed(pilot, "l")
        assert "l log" in text
        assert chart(text) != linear.replace("l linear", "l log   ")
        assert "l linear" in await pressed(pilot, "l")
        assert "smoothing 0.97" in await pressed(pilot, "plus")
        assert f"smoothing {WEIGHTS[-1]}" in await pressed(pilot, *["plus"] * 3)
        assert "no smoothing" in await pressed(pilot, *["minus"] * 6)
        text = await pressed(pilot, "m", "m", "l", "plus")
        assert "Test accuracy" in text


async def test_zooming_and_moving(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair)

        def seen() -> tuple[float, float]:
            reading = screen(pilot)._reading
            assert reading is not None
            return reading.axis.low, reading.axis.high

        assert "Z All" not in screen_text(app)
        text = await pressed(pilot, "z")
        assert "zoomed 2×" in text
        assert "Z All" in text
        assert "1 short: nothing in this range" not in text
        assert seen() == (100, 200)
        text = await pressed(pilot, "z")
        assert seen() == (150, 200)
        assert "1 short: nothing in this range" in text
        assert "1 short: nothing in this range   2 long:   0." in await pressed(pilot, "c")
        await pressed(pilot, "c")
        await pressed(pilot, "left_square_bracket")
        assert seen() == (125, 175)
        await pressed(pilot, "left")
        assert seen() == (112.5, 162.5)
        await pressed(pilot, "home")
        assert seen() == (0, 50)
        await pressed(pilot, "left", "left")
        assert seen() == (0, 50)
        await pressed(pilot, "right")
        assert seen() == (12.5, 62.5)
        await pressed(pilot, "end")
        assert seen() == (150, 200)
        await pressed(pilot, "right", "right_square_bracket")
        assert seen() == (150, 200)
        await pressed(pilot, *["z"] * 9)
        assert seen()[1] - seen()[0] == pytest.approx(200 / 2**10)
        text = await pressed(pilot, "Z")
        assert seen() == (0, 200)
        assert "zoomed" not in text
        await pressed(pilot, "z", "a")
        assert seen() == (0, 4)


async def test_a_cursor_reads_all_curves_at_once(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair)
        await pressed(pilot, "minus", "minus")
        assert " at " not in chart(screen_text(app))
        text = chart(await pressed(pilot, "c", "home"))
        assert "Train loss over steps at step 1 " in text
        assert f"1 short:   {FALLING[0]:.3f}   2 long:   {FALLING[0]:.3f}" in text
        assert "┊" in text
        text = chart(await pressed(pilot, "right", "end"))
        assert "at steps 199–200, mean " in text
        assert "1 short:       -   2 long:   0.500" in text, "a run says nothing beyond its end"
        assert chart(await pressed(pilot, "left")) != text
        text = chart(await pressed(pilot, "m", "m", "end"))
        assert "1 short:  60.0 %   2 long:  90.0 %" in text
        text = chart(await pressed(pilot, "escape"))
        assert " at " not in text
        assert "┊" not in text
        assert isinstance(app.screen, CompareScreen)
        await pressed(pilot, "c", "z", "a")
        assert overlay(pilot).cursor is None, "a place on one axis is none on another"
        await pressed(pilot, "c", "c")
        assert overlay(pilot).cursor is None


async def test_what_is_so_of_several_runs_is_said_once_and_names_are_told_apart(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path
) -> None:
    paths = [keep(runs_dir, f"a rather long name {index}", FALLING[: 100 if index == 1 else 10]) for index in range(6)]
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await compared(pilot, paths, "name 5")
        text = await pressed(pilot, "z", "z", "c")
        legend = " ".join(text.splitlines()[2:4])
        assert re.findall(r"(\d) …[\w ]*? (\d)(:?)", legend) == [(str(index + 1), str(index), ":" * (index == 1)) for index in range(6)]
        assert "1 3 4 5 6 nothing in this range" in text


async def test_a_name_of_any_length_leaves_room_for_what_is_said_of_its_run(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path
) -> None:
    paths = [keep(runs_dir, "n" * 400, FALLING[:10]), keep(runs_dir, "short")]
    app = make(session, sampler)
    async with app.run_test(size=(200, 60)) as pilot:
        await compared(pilot, paths)
        assert "…: nothing in this range" in await pressed(pilot, "z")


@pytest.mark.parametrize("names", [("alexandria", "bologna", "cordoba", "dublin"), ("good", "bad")])
@pytest.mark.parametrize("size", SIZES)
async def test_the_chart_stands_still_when_the_cursor_comes(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int], names: tuple[str, ...]
) -> None:
    """Whether values make the legend longer, or take the place of longer words."""
    diverged = [2.0] * 50 + [1e30] * 5
    paths = [keep(runs_dir, f"a longer name {name}", diverged if name == "bad" else FALLING) for name in names]
    async with make(session, sampler).run_test(size=size) as pilot:
        text = await compared(pilot, paths, "1 a longer")
        await pressed(pilot)

        def axis(text: str) -> tuple[int, list[str]]:
            lines = chart(text).splitlines()
            rows = [(row, line[:7]) for row, line in enumerate(lines) if "┤" in line]
            return len(lines), [f"{row} {label}" for row, label in rows]

        before = axis(screen_text(pilot.app))
        text = await pressed(pilot, "c")
        assert "▲" in text
        assert axis(text) == before
        assert axis(await pressed(pilot, "c")) == before


async def test_the_cursor_says_what_its_values_are(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair)
        await pressed(pilot, "minus", "minus", "c", "z", "z", "z")
        step = round(overlay(pilot).cursor or 0)
        assert f"over steps at step {step} ─" in await pressed(pilot)
        assert f"over steps at step {step}, smoothed 0.6 ─" in await pressed(pilot, "plus")
        assert "mean" not in await pressed(pilot, "m", "m", "Z", "home")
        assert "over steps at step 1 ─" in screen_text(app)
        assert "over epochs at 4.00, mean ─" in await pressed(pilot, "m", "minus", "a", "c", "end")


async def test_a_cursor_begins_where_a_curve_says_something(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        paths = [keep(runs_dir, name, FALLING, accuracies=(0.6,), per_epoch=len(FALLING)) for name in ("one", "two")]
        await compared(pilot, paths, "2 two")
        text = chart(await pressed(pilot, "m", "c"))
        cursor = overlay(pilot).cursor
        assert cursor is not None
        assert cursor > len(FALLING) * 0.9, "the only evaluation is at the end"
        assert "1 one:       -" not in text


async def test_places_in_time_are_told_apart(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair)
        places = set()
        await pressed(pilot, "a", "a", "c")
        for _ in range(4):
            found = re.search(r"over time since the first step at (\S+)", await pressed(pilot, "right"))
            assert found is not None
            places.add(found[1])
        assert len(places) == 4


async def test_zooming_keeps_the_cursor_in_sight(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair)

        def seen() -> tuple[float, float]:
            reading = screen(pilot)._reading
            assert reading is not None
            return reading.axis.low, reading.axis.high

        await pressed(pilot, "c", "z")
        cursor = overlay(pilot).cursor
        assert cursor == pytest.approx(100, abs=2)
        assert seen() == pytest.approx((cursor - 50, cursor + 50))
        await pressed(pilot, "z")
        assert seen() == pytest.approx((cursor - 25, cursor + 25))
        await pressed(pilot, "left_square_bracket", "left_square_bracket")
        assert overlay(pilot).cursor == seen()[1], "what leaves takes the cursor along"
        assert "┊" in chart(screen_text(app))
        low, high = seen()
        await pressed(pilot, "right")
        assert seen() == pytest.approx((low + 12.5, high + 12.5)), "at the edge the next key moves on"
        await pressed(pilot, "Z", "end", "z")
        assert seen() == (100, 200)
        assert screen(pilot)._wanted.end is None, "the newest end is followed"
        await pressed(pilot, "Z", "home", "z", "z")
        assert seen() == (0, 50)
        await pressed(pilot, "left")
        assert seen() == (0, 50)


async def test_the_cursor_passes_every_column_of_a_short_run(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, [keep(runs_dir, name, FALLING[:5], accuracies=()) for name in ("one", "two")], "2 two")
        await pressed(pilot, "c", "home")
        seen = [overlay(pilot).cursor]
        for _ in range(3):
            await pilot.press("right")
            seen.append(overlay(pilot).cursor)
        assert sorted(set(seen)) == seen  # type: ignore[type-var]


async def test_a_click_reads_the_curves(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair)
        picture = overlay(pilot)._picture
        assert isinstance(picture, Picture)
        await pilot.click(Overlay, offset=(WIDE[0] - 2 - picture.columns, 5))
        await until_shown(pilot, "over steps at step 1, smoothed 0.9")
        await pilot.click(Overlay, offset=(WIDE[0] - 3, 5))
        await until_shown(pilot, "over steps at steps 199–200, smoothed 0.9")
        await pilot.press("left")
        await until(pilot, lambda: "at steps 199–200" not in screen_text(app))


async def test_the_table_scrolls(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await compared(pilot, pair, "rows below")
        assert "state" in text
        text = await pressed(pilot, "down")
        assert "│ state" not in text
        assert "1 short" in text[text.index("Runs and") :]
        text = await pressed(pilot, *["pagedown"] * 5)
        assert "0 rows below" in text
        assert " 1 row below" in await pressed(pilot, "up")
        assert "│ state" in await pressed(pilot, *["pageup"] * 5)
        await pilot._post_mouse_events([MouseScrollDown], "#differences", offset=(5, 3))
        await pilot.pause()
        assert "│ state" not in screen_text(app)


async def test_two_runs_are_compared_with_four_keys(session: FakeSession, sampler: FakeSampler, pair: list[Path], runs_dir: Path) -> None:
    app = TuitrainApp(session, sampler, seed_cnn(), runs_dir)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "✓ finished    long", "✓ finished    short")
        await pilot.press("space", "space", "v")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        await until_shown(pilot, "1 long   2 short")
        await pilot.press("v")
        await until(pilot, lambda: type(app.screen).__name__ == "RunsScreen")


@pytest.mark.parametrize("key", ["escape", "v"])
async def test_leaving(session: FakeSession, sampler: FakeSampler, pair: list[Path], key: str) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair)
        await pilot.press(key)
        await until(pilot, lambda: app.screen is app.main)


async def test_help_names_every_key(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await compared(pilot, pair, "1 short")
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        text = screen_text(app)
        assert "Runs beside each other" in text
        assert "…" not in text
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))


async def test_every_key_is_safe_before_anything_is_read(
    session: FakeSession, sampler: FakeSampler, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CompareScreen, "_read", lambda self, *, anew: None)
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(CompareScreen(app.view, [runs_dir / "a", runs_dir / "b", runs_dir / "c"]))
        text = await until_shown(pilot, "reading 3 runs…")
        assert text.count("reading 3 runs…") == 2
        keys = "a m z Z l plus minus left right up down pageup pagedown home end left_square_bracket right_square_bracket".split()
        await pilot.press(*keys)
        assert isinstance(app.screen, CompareScreen)


# -- what is not there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_runs_without_what_is_asked_say_so(session: FakeSession, sampler: FakeSampler, runs_dir: Path, size: tuple[int, int]) -> None:
    paths = [
        keep(runs_dir, "tested"),
        keep(runs_dir, "untested", test_samples=0),
        keep(runs_dir, "stillborn", [], live=True, accuracies=()),
    ]
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        text = await compared(pilot, paths, "1 tested")
        assert "3 stillborn: no step yet" in text
        text = await pressed(pilot, "m", "m")
        assert "2 untested: no test data" in text
        assert "no test data" in text[text.index("best accuracy") :]


async def test_nothing_to_draw_says_what_to_press(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    paths = [keep(runs_dir, name, [0.0, -1.0], test_samples=0) for name in ("one", "two")]
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await compared(pilot, paths, "1 one")
        assert "No value here is above 0" in await pressed(pilot, "l")
        assert "1 one: nothing above 0" in screen_text(app)
        assert "There is nothing to draw yet: m goes on" in await pressed(pilot, "m")


async def test_a_diverged_run_leaves_the_top(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    paths = [keep(runs_dir, "good"), keep(runs_dir, "bad", [2.0] * 50 + [1e30] * 5 + [math.nan] * 5)]
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        assert "2 bad: beyond the top" in await compared(pilot, paths, "1 good")
        assert "e+" not in chart(screen_text(app))


@pytest.mark.parametrize("size", SIZES)
async def test_runs_that_cannot_be_read(session: FakeSession, sampler: FakeSampler, pair: list[Path], size: tuple[int, int]) -> None:
    (pair[0] / "state.json").write_text("{")
    torn = shutil.copytree(pair[1], pair[1].with_name("torn"))
    (torn / METRICS).write_bytes(b"no database at all" * 100)
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        text = await compared(pilot, [*pair, torn, pair[0].with_name("gone")], "2 long")
        assert f"✗ left out: {pair[0].name}: state.json is damaged" in text
        assert "✗ left out: torn: metrics.sqlite cannot be read" in text
        assert "✗ left out: gone is not there any more" in text
        assert "1 short" not in text


async def test_no_run_can_be_read(session: FakeSession, sampler: FakeSampler, runs_dir: Path) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await compared(pilot, [runs_dir / "a", runs_dir / "b"], "No run could be read: Esc goes back.")
        assert "none of these runs could be read" in text
        await pilot.press("m", "a", "z", "right", "down", "escape")
        await until(pilot, lambda: app.screen is app.main)


# -- keeping up -------------------------------------------------------------------------------------------------------


async def test_a_live_run_goes_on(session: FakeSession, sampler: FakeSampler, runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_module, "_REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(compare_module, "_READING_SHARE", 0)
    live = keep(runs_dir, "live", FALLING[:60], live=True, total=1000, accuracies=())
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        text = await compared(pilot, [live, keep(runs_dir, "ended")], "   60/1,000")
        assert "● running, detached" in text
        axis = chart(text).splitlines()[-1]
        writer = MetricsWriter(live / METRICS)
        writer.append([Losses(first_step=61, epoch=1, losses=(0.5,) * 30, times=tuple(1100.0 + step for step in range(30)))])
        writer.close()
        screen(pilot).beat()
        text = await until_shown(pilot, "   90/1,000")
        assert chart(text).splitlines()[-1] == axis
        shutil.rmtree(live)
        screen(pilot).beat()
        await until_shown(pilot, f"✗ left out: {live.name}")


async def test_ended_runs_are_not_read_again(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair)
        screen(pilot)._next_read = 0.0
        wish = screen(pilot)._wish
        screen(pilot).beat()
        assert screen(pilot)._wish == wish
        await until(pilot, lambda: not screen(pilot)._busy)
        assert screen(pilot)._wish == wish


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("live", [False, True])
async def test_an_ended_run_that_is_deleted_meanwhile_is_left_out(
    session: FakeSession,
    sampler: FakeSampler,
    pair: list[Path],
    runs_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    live: bool,
    size: tuple[int, int],
) -> None:
    monkeypatch.setattr(compare_module, "_REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(compare_module, "_READING_SHARE", 0)
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await compared(pilot, [*pair, keep(runs_dir, "third", live=live)], "1 short", "2 long")
        shutil.rmtree(pair[1])
        screen(pilot).beat()
        text = await until_shown(pilot, f"✗ left out: {pair[1].name} is not there any more")
        assert "2 long" not in text
        assert "1 short" in text
        assert "3 third" in text


async def test_an_ended_run_that_goes_on_meanwhile_does_so_here(
    session: FakeSession, sampler: FakeSampler, pair: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_module, "_REFRESH_SECONDS", 0.0)
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair, "✓ finished")
        status = msgspec.json.decode((pair[1] / "state.json").read_bytes())
        process = {"state": "running", "pid": os.getpid(), "pid_started": this_process().pid_started}
        (pair[1] / "state.json").write_bytes(msgspec.json.encode({**status, **process, "heartbeat": time.time()}))
        screen(pilot).beat()
        await until_shown(pilot, "● running, detached")


async def test_the_own_run_comes_from_memory(session: FakeSession, sampler: FakeSampler, pair: list[Path], tmp_path: Path) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.begin(total=1000)
        session.steps(150)
        await settle(pilot)
        assert session.record is not None
        session.record.path = tmp_path / "nowhere"
        text = await compared(pilot, [pair[0], session.record.path], "  150/1,000")
        assert "2 seed-cnn" in text
        assert "running" in text
        session.steps(10)
        screen(pilot)._next_read = 0.0
        screen(pilot).beat()
        await until_shown(pilot, "  160/1,000")


async def test_resizing_and_another_theme(session: FakeSession, sampler: FakeSampler, pair: list[Path]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(200, 60)) as pilot:
        await compared(pilot, pair)
        for size in ((80, 24), (60, 20), (120, 40)):
            await resize(pilot, *size)
            await until(pilot, lambda: not screen(pilot)._busy)
            await pilot.pause()
            assert len(screen_text(app).splitlines()) == size[1]
        assert "1 short   2 long" in screen_text(app)
        app.theme = LIGHT.name
        await pilot.pause()
        styles = {
            segment.style.color.name
            for line in app.screen._compositor.render_strips()
            for segment in line
            if segment.style and segment.style.color
        }
        assert {"#0072b2", "#b35900"} <= styles


async def test_a_terminal_without_utf8_or_colours_has_numbers_on_the_curves(
    session: FakeSession, sampler: FakeSampler, pair: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "C")
    monkeypatch.setenv("NO_COLOR", "1")
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair, "1 short")
        drawn = "".join(line.text for line in overlay(pilot)._last_lines[1:-2])
        assert "*" in drawn
        assert drawn.count("2") > 4
        assert not any("\u2800" <= char <= "\u28ff" for char in drawn)
