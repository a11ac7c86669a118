"""The curve through its keys: metrics, zoom, cursor and what stands under it, on a live run and on one that is kept on disk."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import GIB, FakeSampler, FakeSession, screen_text, seed_cnn, settle, started
from kept_runs import resize
from test_terminal import OnTerminal
from textual.pilot import Pilot
from textual.widget import Widget

from tuitrain.events import Eval, GpuSample, Losses, State, Step
from tuitrain.runs import series, tape
from tuitrain.runs.errors import RunError
from tuitrain.runs.pyramid import Bin
from tuitrain.runs.record import RunRecord
from tuitrain.runs.series import Series
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.curve import plot
from tuitrain.tui.curve.later import Later
from tuitrain.tui.curve.metrics import ACCURACY, why_empty
from tuitrain.tui.curve.zoom import Span
from tuitrain.tui.run_view import RunLike, StoredView
from tuitrain.tui.screens.base import PaneScreen
from tuitrain.tui.widgets.curve import Curve

SIZES = [(80, 24), (120, 40), (200, 60)]
WIDE = (120, 40)
START = 1_700_000_000.0  # 22:13:20 UTC
PER_STEP = 0.25
HOSTILE = "[red]深\x1b[2J\u202e🙂[/]"


def make(session: FakeSession, sampler: FakeSampler) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), Path("runs"))


def train(session: FakeSession, count: int, loss: Callable[[int], float] = lambda step: 2.0 / step**0.2) -> None:
    """More steps, four in a second, with a sample of every device each second."""
    record = session.record
    assert record is not None
    first, per_epoch = record.step + 1, record.started.steps_per_epoch if record.started else 100
    steps = range(first, first + count)
    epoch = (first + count - 2) // per_epoch + 1
    losses, times = tuple(loss(step) for step in steps), tuple(START + step * PER_STEP for step in steps)
    session.say(
        Losses(first_step=first, epoch=epoch, losses=losses, times=times),
        Step(step=steps[-1], epoch=epoch, loss=losses[-1], lr=0.01, samples_per_second=41_000.0 + first),
    )


def sample(session: FakeSession, name: str, seconds: Iterable[float], **numbers: int | float | None) -> None:
    values: dict[str, int | float | None] = {"memory_used": 7 * GIB, "utilization": 83, "power": 412.0, "temperature": 61, **numbers}
    session.say(*(GpuSample(time=START + second, device=name, **values) for second in seconds))  # type: ignore[arg-type]


def evaluate(session: FakeSession, loss: float, accuracy: float) -> None:
    assert session.record is not None
    session.say(Eval(step=session.record.step, epoch=session.record.epoch, loss=loss, loss_sum=loss, accuracy=accuracy))


async def begun(pilot: Pilot[None], session: FakeSession, *, steps: int = 800, device: tuple[str, ...] = ("cuda:0",)) -> Curve:
    """A run of 1,000 steps in 10 epochs, 800 of them made."""
    await pilot.press("enter")
    session.begin(total=1000, device=device)
    train(session, steps)
    await settle(pilot)
    return pilot.app.screen.query_one(Curve)


async def shown(pilot: Pilot[None]) -> str:
    """The screen after what a key asked for has been drawn."""
    await pilot.pause()
    await pilot.pause()
    return screen_text(pilot.app)


def curve_lines(app: TuitrainApp) -> list[str]:
    """What stands inside of the curve's frame."""
    curve = app.screen.query_one(Curve)
    return [curve.render_line(y).text[2:-2] for y in range(1, 1 + curve.body_height())]


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_the_first_evaluation_comes_with_the_last_step_of_a_run_that_ends_before_its_first_epoch(session: FakeSession) -> None:
    session.start(seed_cnn())
    session.begin(total=7820)
    record = session.record
    assert record is not None
    for total, first in ((7820, 782), (50, 50)):
        record.started = msgspec.structs.replace(record.started, total_steps=total)
        assert why_empty(ACCURACY, record, ended=False) == f"accuracy comes with the first evaluation, after step {first}"


async def test_m_goes_through_the_metrics_and_each_says_when_it_has_nothing(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session, steps=20)
        await pilot.press("m")
        assert "Accuracy" in await shown(pilot)
        assert "accuracy comes with the first evaluation, after step 100" in screen_text(app)
        await pilot.press("m")
        assert "Learning rate" in await shown(pilot)
        await pilot.press("m")
        assert "Samples/s" in await shown(pilot)
        assert "smoothing 0.9" in screen_text(app)
        await pilot.press("m")
        assert "⠒⠒ train  ● test" in await shown(pilot)


async def test_accuracy_is_in_percent_and_has_neither_log_axis_nor_smoothing(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session, steps=100)
        for accuracy in (0.3, 0.6, 0.55):
            evaluate(session, 1.0, accuracy)
            train(session, 100)
        await pilot.press("m", "l", "plus")
        text = await shown(pilot)
        assert "100┤" in text
        assert text.count("◆") == 2, "one in the legend, one at the best evaluation"
        assert "linear" not in text
        assert "smoothing" not in text
        assert (curve.log_scale, curve.smoothing) == (False, 2)
        await pilot.press("left")
        assert "accuracy 55.0 % · evaluated at step 300" in await shown(pilot)
        await pilot.press("m")
        reading = next(line for line in (await shown(pilot)).splitlines() if "· learning rate" in line)
        assert "step 400 · epoch" in reading
        assert "test" not in reading, "the loss of an evaluation is no learning rate"


async def test_a_run_without_test_data_says_so(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.say(started(data="random", train_samples=100, test_samples=0, steps_per_epoch=4, total_steps=4))
        session.state = "running"
        train(session, 4)
        await settle(pilot)
        await pilot.press("m")
        assert "this run has no test data, so there is no accuracy" in await shown(pilot)
        await pilot.press("m", "m", "m", "left")
        assert "test" not in curve_lines(app)[-1]


async def test_the_best_evaluation_is_marked_and_the_mark_moves(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session, steps=100)
        for loss, dots in ((1.0, 0), (0.5, 1), (0.7, 2), (float("nan"), 2)):
            evaluate(session, loss, 0.5)
            train(session, 100)
            await settle(pilot)
            canvas = "".join(curve_lines(app))
            assert (canvas.count("◆"), canvas.count("●")) == (1, dots)


async def test_epochs_are_marked_on_the_axis(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        assert curve_lines(app)[-2].count("┿") == 10


# -- zoom -------------------------------------------------------------------------------------------------------------


async def test_a_counts_epochs_under_the_curve_and_steps_again(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        before = curve_lines(app)
        assert before[-1].split() == ["0", "200", "400", "600", "800", "1,000"]
        await pilot.press("a")
        assert "over epochs" in await shown(pilot)
        lines = curve_lines(app)
        assert lines[-1].split() == ["0", "2", "4", "6", "8", "10"]
        assert lines[:-1] == before[:-1], "the curve stands where it was"
        await pilot.press("z", "left")
        assert "step 800" in await shown(pilot)
        assert "steps 400–800" in screen_text(app)
        assert curve_lines(app)[-1] != lines[-1]
        await pilot.press("escape", "Z", "a")
        assert "over epochs" not in await shown(pilot)
        assert curve_lines(app) == before


async def test_z_halves_what_is_shown_and_shift_z_goes_back(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        await pilot.press("z")
        assert "steps 400–800" in await shown(pilot)
        await pilot.press("z")
        assert "steps 600–800" in await shown(pilot)
        await pilot.press("left_square_bracket")
        assert "steps 500–700" in await shown(pilot)
        await pilot.press("right_square_bracket", "right_square_bracket")
        assert "steps 600–800" in await shown(pilot), "not beyond the newest step"
        await pilot.press(*["z"] * 9)
        assert "steps 792–800" in await shown(pilot), "never closer than 8 steps"
        await pilot.press("Z")
        assert "steps 792" not in await shown(pilot)


async def test_zoom_is_around_the_cursor_and_the_cursor_pans_at_the_edge(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session)
        await pilot.press("left", *["pageup"] * 4, "z")
        await pilot.pause()
        assert curve.viewport.cursor is not None
        assert curve.viewport.span == Span(curve.viewport.cursor - 200, curve.viewport.cursor + 200)
        low = curve.viewport.span.low
        for key in [*["pageup"] * 4, *["left"] * 12]:
            await pilot.press(key)
            assert curve.viewport.span is not None
            assert curve.viewport.span.low <= curve.viewport.cursor <= curve.viewport.span.high
        assert curve.viewport.span.low < low
        await pilot.press("home")
        assert (curve.viewport.cursor, curve.viewport.span.low) == (1, 1)
        await pilot.press("left", "end")
        assert (curve.viewport.cursor, curve.viewport.span.high) == (800, 800)
        await pilot.press("left_square_bracket")
        assert curve.viewport.cursor == curve.viewport.span.high == 600


async def test_a_zoom_at_the_newest_end_follows_it_and_others_stay(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session)
        await pilot.press("z", "z")
        train(session, 40)
        curve.redraw()
        assert "steps 690–890" in await shown(pilot)
        train(session, 40)
        curve.redraw()
        assert "steps 690–890" in await shown(pilot), "with a quarter of room the axis holds still for a while"
        await pilot.press("left_square_bracket")
        before = curve_lines(app)
        train(session, 100)
        assert not curve.due()
        curve.redraw()
        await pilot.pause()
        assert curve_lines(app) == before


async def test_an_empty_part_says_how_to_get_out(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session, steps=100)
        evaluate(session, 1.0, 0.5)
        train(session, 700)
        await pilot.press("m", "z")
        assert "no accuracy between steps 400 and 800: Z shows everything" in await shown(pilot)
        await pilot.press("left", "z", "left_square_bracket", "Z")
        assert "between steps" not in await shown(pilot)


async def test_a_line_goes_on_between_evaluations_that_are_out_of_sight(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session, steps=100)
        for accuracy in (0.3, 0.6, 0.5):
            evaluate(session, 1.0, accuracy)
            train(session, 300)
        await pilot.press("m", "z", "z", "left_square_bracket")
        await shown(pilot)
        assert curve.viewport.span == Span(625, 875)
        assert ("●" in "".join(curve_lines(app)), "◆ best" in screen_text(app)) == (True, False), "step 700, and 400 is the best one"
        await pilot.press("z")
        assert curve.viewport.span == Span(750, 875)
        assert "no accuracy between steps 750 and 875" in await shown(pilot), "the last evaluation lies before"
        await pilot.press(*["left_square_bracket"] * 4)
        await shown(pilot)
        assert curve.viewport.span == Span(502, 627)
        canvas = [line[6:] for line in curve_lines(app)[:-2]]
        assert not {"●", "◆"} & set("".join(canvas)), "marks stand on evaluations only"
        assert all(any(line[column] != " " for line in canvas) for column in range(len(canvas[0])))
        await pilot.press("left_square_bracket", "left_square_bracket")
        assert "◆ best" in await shown(pilot)


# -- the cursor -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_the_cursor_reads_a_step_and_the_device_at_that_moment(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int]
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        curve = await begun(pilot, session, steps=100)
        evaluate(session, 1.301, 0.5)
        train(session, 700)
        sample(session, "cuda:0", range(0, 100), utilization=50, memory_used=2 * GIB, power=100.0)
        sample(session, "cuda:0", range(100, 202))
        await pilot.press("left")
        text = await shown(pilot)
        assert "step 800 · epoch 8 · loss  0.525 · smoothed  0.527 · test  1.301" in text
        assert "22:16:40 · +00:03:19" in text
        assert "cuda:0   util  83 %  mem  7.0 GiB  power 412 W" in text
        assert len(curve_lines(app)) - curve._foot.plan(curve._view.record, curve.body_height()).rows >= 8  # type: ignore[arg-type]
        await pilot.press("home")
        text = await shown(pilot)
        assert "step   1 · epoch 1 · loss  2.000 · smoothed  2.000 · test      -" in text
        assert "cuda:0   util  50 %  mem  2.0 GiB  power 100 W" in text
        assert "▲" in text
        await pilot.press("escape")
        assert "▲" not in await shown(pilot)
        assert "util  50 %" not in screen_text(app)


async def test_tracks_stand_under_the_columns_of_the_chart(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        sample(session, "cuda:0", range(0, 100), utilization=0)
        sample(session, "cuda:0", range(100, 201), utilization=100, power=None)
        await pilot.press("left")
        await shown(pilot)
        lines = curve_lines(app)
        util, memory, power = lines[-3:]
        assert (util[:6], memory[:6], power[:6]) == (" util ", "  mem ", "power ")
        left = next(line for line in lines if "└" in line).index("└") + 1
        column = next(line for line in lines if "▲" in line).index("▲")
        assert util[left] == "▁"
        assert util[column] == "█"
        # Steps 400 and 800 of 1,000 are 100 and 200 seconds after the start; nothing is known after them, nor of the power.
        assert abs(util.index("█") - left - (column - left) / 2) <= 1
        assert set(util[column + 1 :]) == {" "}
        assert set(power[util.index("█") + 7 : column]) == {" "}
        assert "power   n/a" in screen_text(app)


async def test_the_cursor_moves_by_columns_and_by_tenths_and_stops_at_the_ends(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session)
        await pilot.press("right")
        assert curve.viewport.cursor == 800
        await pilot.press("right", "shift+right", "pagedown", "end")
        assert curve.viewport.cursor == 800
        await pilot.press("left")
        assert 780 <= curve.viewport.cursor <= 790
        before = curve.viewport.cursor
        await pilot.press("shift+left")
        assert 85 <= before - curve.viewport.cursor <= 105
        await pilot.press("pagedown")
        assert abs(curve.viewport.cursor - before) <= 8
        await pilot.press("home", "left", "pageup")
        assert curve.viewport.cursor == 1
        await pilot.press("z", "z", "z", "z", "z", "z", "right")
        assert curve.viewport.cursor == 2, "where a step is wider than a column, the cursor goes from step to step"


async def test_a_click_reads_the_step_under_it(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session)
        x = 2 + curve_lines(app)[-2].index("└") + 1
        await pilot.click(Curve, offset=(x + (curve.size.width - 2 - x) // 2, 5))
        assert curve.viewport.cursor is not None
        assert abs(curve.viewport.cursor - 500) <= 16
        await pilot.click(Curve, offset=(x + 3, 5))
        assert "▲" in await shown(pilot)
        assert curve_lines(app)[0][x - 2 + 3] in "┊⠒⠉"
        await pilot.click(Curve, offset=(3, 5))
        assert curve.viewport.cursor < 100


async def test_many_devices_share_the_room(session: FakeSession, sampler: FakeSampler) -> None:
    names = tuple(f"cuda:{index}" for index in range(6))
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session, device=names)
        for name in names:
            sample(session, name, range(0, 201))
        await pilot.press("left")
        text = await shown(pilot)
        assert "cuda:0   util  83 %" in text
        hidden = 6 - sum(f"{name}   util" in text for name in names)
        assert f"{hidden} more" in text
        await resize(pilot, 200, 60)
        await settle(pilot)
        text = await shown(pilot)
        assert all(f"{name}   util  83 %" in text for name in names)
        assert text.count(" util █") + text.count(" util ▇") >= 6


async def test_a_device_with_several_replicas_is_read_once(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await begun(pilot, session, device=("cpu", "cpu"))
        sample(session, "cpu", range(0, 201))
        await pilot.press("left")
        assert (await shown(pilot)).count("cpu      util") == 1


async def test_a_device_nobody_sampled_and_hostile_names(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session, device=(HOSTILE,))
        await pilot.press("left")
        assert "util" not in curve_lines(app)[-1]
        sample(session, HOSTILE, range(0, 50), memory_used=None, power=None)
        await pilot.press("home")
        await shown(pilot)
        lines = curve_lines(app)
        assert "[red]" in lines[-2]
        assert "mem      n/a  power   n/a" in lines[-2]
        await pilot.press("end")
        assert "util   n/a" in await shown(pilot), "the last sample is half a minute older than step 800"
        assert "\x1b" not in screen_text(app)


async def test_another_run_begins_without_cursor_and_zoom(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session)
        await pilot.press("left", "z")
        session.end()
        await pilot.press("n", "enter")
        await settle(pilot)
        session.begin(total=50)
        await settle(pilot)
        assert "the curve begins with the first step" in screen_text(app)
        assert (curve.viewport.cursor, curve.viewport.span) == (None, None)
        train(session, 50)
        await settle(pilot)
        assert "▲" not in screen_text(app)
        await pilot.press("left")
        assert "step 50" in await shown(pilot)


async def test_evaluations_that_fly_by_are_drawn_with_the_steps(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session)
        for key in ("", "m"):
            await pilot.press(*key)
            await settle(pilot)
            with monkeypatch.context() as patch:
                evaluate(session, 1.0, 0.5)
                assert curve.due()
                patch.setattr(RunRecord, "epochs_fly", True)
                assert not curve.due()
                patch.setattr(plot, "LONGEST_WAIT", 0.0)
                assert curve.due()
            await settle(pilot)
            assert not curve.due()


# -- odd numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [100, 600])
async def test_a_run_that_goes_on_from_a_checkpoint_takes_its_curve_back(session: FakeSession, sampler: FakeSampler, after: int) -> None:
    """Also where the axes hold still, and no evaluation comes in between."""
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session)
        record = session.record
        assert record is not None
        assert record.started is not None
        assert not curve.due()
        session.say(msgspec.structs.replace(record.started, resumed_from=after), State(state="running"))
        train(session, 4)
        assert curve.due()
        await settle(pilot)
        kept = curve_lines(app)
        curve.redraw_all()
        curve._plot.forget()
        await settle(pilot)
        assert curve_lines(app) == kept, "the same as drawn anew"


async def test_the_axis_of_a_run_that_goes_on_holds_still_until_it_has_started_again(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session)
        record = session.record
        assert record is not None
        kept = curve_lines(app)
        record.wait_for_start()
        curve._plot.forget()
        curve.redraw_all()
        await settle(pilot)
        assert curve_lines(app) == kept


async def test_cursor_and_following_zoom_go_back_with_the_run(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        curve = await begun(pilot, session)
        await pilot.press("z", "left", "left")
        record = session.record
        assert record is not None
        assert record.started is not None
        session.say(msgspec.structs.replace(record.started, resumed_from=100), State(state="running"))
        await settle(pilot)
        text = screen_text(app)
        assert "step 100 · epoch 1" in text
        assert "between steps" not in text
        assert (curve.viewport.cursor, curve.viewport.span) == (100, Span(0, 400, follows=True))
        session.say(msgspec.structs.replace(record.started, resumed_from=0), State(state="running"))
        await settle(pilot)
        assert curve.viewport.cursor is None


async def test_steps_that_are_not_finite_are_gaps(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session, steps=1)
        train(session, 799, lambda step: float("nan") if 300 <= step < 500 else float("inf") if step == 600 else 2.0)
        await pilot.press("minus", "minus")
        await shown(pilot)
        lines = curve_lines(app)
        left = next(line for line in lines if "└" in line).index("└") + 1
        columns = len(lines[0]) - left
        drawn = {x - left for line in lines[:-2] for x, char in enumerate(line) if x >= left and char != " "}
        missing = set(range(columns * 8 // 10)) - drawn
        assert missing == set(range(min(missing), max(missing) + 1))
        assert abs(min(missing) / columns - 0.3) < 0.03
        assert abs(max(missing) / columns - 0.5) < 0.03
        await pilot.press("left", *["pageup"] * 4)
        assert "loss    NaN" in await shown(pilot)


@pytest.mark.parametrize(("loss", "sentence"), [(-1.0, "no loss shown here is above 0"), (math.nan, "there is no loss to show")])
async def test_nothing_that_could_be_shown_says_so(session: FakeSession, sampler: FakeSampler, loss: float, sentence: str) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.begin(total=1000)
        train(session, 20, lambda step: loss)
        await settle(pilot)
        await pilot.press("l")
        assert sentence in await shown(pilot)
        await pilot.press("left", "left")
        assert sentence in await shown(pilot)


@pytest.mark.parametrize("moment", ["before", "no step", "one step", "two steps", "ended"])
async def test_every_key_of_the_curve_is_safe_at_every_moment(session: FakeSession, sampler: FakeSampler, moment: str) -> None:
    keys = ["left", "z", "Z", "right", "home", "end", "pageup", "shift+right", "left_square_bracket", "right_square_bracket", "escape", "m"]
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        if moment != "before":
            await pilot.press("enter")
            session.begin(total=400)
        if moment in ("one step", "two steps", "ended"):
            train(session, {"one step": 1, "two steps": 2}.get(moment, 200))
        if moment == "ended":
            session.end()
        await settle(pilot)
        for _ in range(4 if moment == "ended" else 1):
            await pilot.press(*keys, "l", "plus", "z", "left", "minus")
        await settle(pilot)
        assert app.is_running
        assert {len(line) for line in screen_text(app).splitlines()} == {80}


# -- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "budget", "keys"),
    [
        ((120, 40), 1000, ("left", "left")),
        ((80, 24), 500, ("left", "left")),
        ((80, 24), 500, ("m", "m", "m")),
        ((120, 40), 1000, ("z",)),
    ],
)
async def test_reading_and_other_metrics_stay_within_the_bytes(
    session: FakeSession, size: tuple[int, int], budget: int, keys: tuple[str, ...]
) -> None:
    app = OnTerminal(session, FakeSampler(), size)
    async with app.run_test(size=size) as pilot:
        await pilot.press("enter")
        session.begin(total=7820, device=("cuda:0",))
        train(session, 1010)
        sample(session, "cuda:0", range(0, 253))
        await settle(pilot)
        await pilot.press(*keys)
        await settle(pilot)
        app.since_last()
        seconds = 10
        for second in range(seconds):
            sample(session, "cuda:0", [253 + second])
            for _ in range(2):
                train(session, 20)
                app.main.beat()
                await pilot.pause()
        assert app.since_last() < budget * seconds
        assert app.shown() == screen_text(app)


async def test_a_long_curve_is_smoothed_in_a_thread_and_drawn_raw_until_then(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.begin(total=60_000)
        train(session, 50_000, lambda step: 1.0 + step % 2)
        threads: list[object] = []
        assert session.record is not None
        real = session.record.loss.smoothed
        session.record.loss.smoothed = lambda weight: (threads.append(_thread()), real(weight))[1]  # type: ignore[method-assign]
        curve = app.screen.query_one(Curve)
        curve.redraw()
        assert threads == [] or threads[0] != _thread()
        await until(lambda: curve._later.arrivals > 0 and "⣿" in "".join(curve_lines(app)))
        assert threads[0] != _thread(), "the first time in a thread"
        train(session, 10)
        curve.redraw()
        assert threads[-1] == _thread(), "and the few new points at once"


def _thread() -> int:
    import threading

    return threading.get_ident()


async def until(true: Callable[[], bool]) -> None:
    """Wait for it, at most a minute."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


# -- a run on disk ----------------------------------------------------------------------------------------------------


class Slow:
    """A curve as one on disk is: not in memory, asked in a thread."""

    def __init__(self, points: Series, asked: list[int]) -> None:
        self._points, self._asked = points, asked
        self.broken = False
        self.in_memory = False

    def __len__(self) -> int:
        raise AssertionError("costs a query")

    def thin(self, lo: float, hi: float, columns: int) -> list[Bin]:
        self._ask()
        return self._points.thin(lo, hi, columns)

    def at(self, x: float) -> tuple[float, float] | None:
        self._ask()
        return self._points.at(x)

    def smoothed(self, weight: float) -> Series:
        self._ask()
        return self._points.smoothed(weight)

    def _ask(self) -> None:
        self._asked.append(_thread())
        if self.broken:
            raise RunError("run-1: metrics.sqlite cannot be read: it is gone.")


class CurveScreen(PaneScreen):
    """A curve alone."""

    def __init__(self, run: RunLike) -> None:
        super().__init__(run)
        self.curve = Curve(run, braille=True)

    def panes(self) -> Iterable[Widget]:
        return (self.curve,)

    def place_panes(self, width: int, height: int) -> None:
        self.curve.styles.height = height
        self.curve.place(first=True, last=True)


async def test_a_run_on_disk_is_read_in_threads_and_looks_the_same(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        evaluate(session, 0.6, 0.5)
        sample(session, "cuda:0", range(0, 201))
        live = session.record
        assert live is not None
        pictures = []
        asked: list[int] = []
        for stored in (False, True):
            record = stored_copy(live, asked) if stored else live
            screen = CurveScreen(StoredView(record))
            app.push_screen(screen)
            await until(lambda screen=screen: "●" in whole(screen) or "◆" in whole(screen))
            await until(lambda screen=screen: "⣿" in whole(screen) or "smoothing" in whole(screen))
            screen.curve.focus()
            await pilot.press("left", "left", "z")
            await until(
                lambda screen=screen: "smoothed" in whole(screen) and "steps 400–800" in whole(screen) and "util ▇" in whole(screen)
            )
            await until(lambda screen=screen: not screen.curve._later._running)
            await shown(pilot)
            pictures.append(whole(screen))
            await pilot.press("escape", "Z")
            app.pop_screen()
        assert pictures[0] == pictures[1]
        assert asked
        assert _thread() not in asked


async def test_a_run_of_which_the_end_alone_is_in_memory_looks_the_same(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "KEPT", 100)
    monkeypatch.setattr(tape, "PAGE", 25)
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        curve = await begun(pilot, session)
        assert session.record is not None
        curve.focus()
        await pilot.press("left", "left")
        before = await shown(pilot)
        assert "smoothed" in before
        asked: list[int] = []
        for points in (session.record.loss, session.record.times):
            assert isinstance(points, Series)
            held = list(points._y.between(0, len(points)))

            def fetch(first: int, last: int, held: Sequence[float] = held) -> Sequence[float]:
                asked.append(_thread())
                return held[first - 1 : last - 1]

            points.let_go(fetch)
            assert not points.in_memory
        smoothed, may_smooth = Series.smoothed, threading.Event()

        def in_its_time(own: Series, weight: float) -> Series:
            assert may_smooth.wait(60)
            return smoothed(own, weight)

        monkeypatch.setattr(Series, "smoothed", in_its_time)
        await pilot.press("l", "l")
        await until(lambda: curve._later._running == {"smoothed"})
        # Until that is there, the curve that was there stays.
        assert await shown(pilot) == before
        may_smooth.set()
        await pilot.press("right", "left")
        await until(lambda: not curve._later._running)
        assert await shown(pilot) == before
        assert asked
        assert _thread() not in asked


@pytest.mark.parametrize("reads", [False, True], ids=["curve", "with the cursor"])
async def test_what_arrives_of_a_quick_run_does_not_ask_for_more(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    monkeypatch.setattr(tape, "PAGE", 25)
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        curve = await begun(pilot, session)
        record = session.record
        assert record is not None
        curve.focus()
        if reads:
            await pilot.press("left")
        for points in (record.loss, record.times):
            assert isinstance(points, Series)
            points._y.let_go(100, lambda first, last: [0.5] * (last - first))
        asked: list[int] = []
        work = Later._work

        def among_steps(own: Later, *what: Any) -> None:
            asked.append(record.step)
            work(own, *what)
            app.call_from_thread(train, session, 1)

        monkeypatch.setattr(Later, "_work", among_steps)
        train(session, 100)
        await until(lambda: bool(asked))
        for _ in range(50):
            await pilot.pause()
        await until(lambda: not curve._later._running)
        # The points, their average, its points; what the cursor reads and two tracks.
        assert len(asked) <= (6 if reads else 3)
        assert max(asked) <= 900 + len(asked)


async def test_a_live_run_on_disk_that_is_read_again_keeps_cursor_and_zoom(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        assert session.record is not None
        view = StoredView(stored_copy(session.record, []))
        screen = CurveScreen(view)
        app.push_screen(screen)
        await until(lambda: "⠒" in whole(screen))
        screen.curve.focus()
        await pilot.press("left", "z")
        train(session, 50)
        view.record = stored_copy(session.record, [])
        screen.curve.redraw()
        assert (screen.curve.viewport.cursor, screen.curve.viewport.span) == (800, Span(550, 950, follows=True))


async def test_a_curve_that_vanishes_is_no_crash(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        assert session.record is not None
        record = stored_copy(session.record, [])
        for curve in (record.loss, record.times):
            curve.broken = True  # type: ignore[attr-defined]
        screen = CurveScreen(StoredView(record))
        app.push_screen(screen)
        await until(lambda: "cannot be read" in whole(screen))
        screen.curve.focus()
        await pilot.press("left", "z", "m", "m", "l", "plus", "left")
        assert app.is_running


def whole(screen: CurveScreen) -> str:
    return "\n".join(screen.curve.render_line(y).text for y in range(screen.curve.size.height))


def stored_copy(live: RunRecord, asked: list[int]) -> RunRecord:
    """The same run as it is read from its folder."""
    record = RunRecord(live.config)
    for name in ("started", "run", "step", "epoch", "last_loss", "evaluations", "devices"):
        setattr(record, name, getattr(live, name))
    for name in ("loss", "times", "learning_rate", "speed"):
        points = getattr(live, name)
        copy = Series()
        copy.extend(points._x, points._y.between(0, len(points)))
        setattr(record, name, Slow(copy, asked))
    return record
