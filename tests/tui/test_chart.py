from __future__ import annotations

import itertools
import math
import random

import pytest

from tuitrain.runs.series import Series
from tuitrain.tui.axes import Axis, round_up, step_axis, step_limit, value_axis
from tuitrain.tui.chart import Dots, Drawing, Line, draw, extend
from tuitrain.tui.look import DARK, palette_of

PALETTE = palette_of(DARK)


def test_the_step_axis_holds_still_and_reaches_the_planned_end() -> None:
    limits = [step_limit(step, 7820) for step in range(1, 7821)]
    assert len(set(limits)) <= 9
    assert limits == sorted(limits)
    assert limits[-1] == 7820
    assert all(limit >= step for step, limit in enumerate(limits, 1))


@pytest.mark.parametrize(("step", "total", "limit"), [(1, 1, 1), (0, 4, 4), (4, 4, 4), (10, 0, 10), (999_999, 1_000_000, 1_000_000)])
def test_the_step_axis_of_short_and_long_runs(step: int, total: int, limit: int) -> None:
    assert step_limit(step, total) == limit
    assert step_axis(step, total, 70).high == limit


def test_labels_of_the_step_axis_do_not_touch() -> None:
    for step in (1, 60, 400, 3000, 7820, 123_456, 1_000_000):
        for width in (20, 70, 150):
            axis = step_axis(step, max(step, 7820), width)
            places = [tick / axis.high * width for tick, _ in axis.ticks]
            assert min(b - a for a, b in itertools.pairwise(places)) > 7


def test_the_loss_axis_is_kept_while_the_values_fit_and_fill_it() -> None:
    first = value_axis([2.3, 1.0], 20, log=False)
    assert value_axis([2.3, 0.9], 20, log=False, held=first) is first
    assert value_axis([2.9, 0.9], 20, log=False, held=first) is not first
    shrunk = value_axis([0.2, 0.1], 20, log=False, held=first)
    assert shrunk.high <= 0.3


@pytest.mark.parametrize("values", [[0.0], [2.3], [-1.0, 3.0], [1e-9, 2e-9], [1e12, 1.0], [], [2.31, 2.29]])
def test_every_set_of_values_has_an_axis(values: list[float]) -> None:
    for log in (False, True):
        axis = value_axis(values, 18, log=log)
        assert axis.low < axis.high
        assert 2 <= len(axis.ticks) <= 12
        assert len({label for _, label in axis.ticks}) == len(axis.ticks)
        for value in values:
            if not log:
                assert axis.low <= value <= axis.high


def test_a_log_axis_ignores_what_has_no_logarithm() -> None:
    axis = value_axis([0.0, -1.0, 0.1, 10.0], 18, log=True)
    assert (axis.low, axis.high) == (-1.0, 1.0)
    assert [label for _, label in axis.ticks] == ["0.1", "1", "10"] or "10" in [label for _, label in axis.ticks]


def test_round_up() -> None:
    assert [round_up(value) for value in (0.9, 1.0, 1.1, 2.2, 3.0, 7.0)] == [1.0, 1.0, 2.0, 2.5, 5.0, 10.0]
    assert round_up(0.0) == round_up(math.nan) == 1.0


def drawing(series: Series, steps: Axis, values: Axis, *, braille: bool = True, width: int = 60, height: int = 16) -> Drawing:
    raw = series.thin(steps.low, steps.high, width - 6)
    smooth = series.smoothed(0.9).thin(steps.low, steps.high, width - 6)
    return Drawing(
        width,
        height,
        steps,
        values,
        band=[(one.x, one.min, one.max) for one in raw],
        lines=[Line([(one.x, one.mean) for one in smooth], PALETTE.train)],
        dots=[Dots([(float(step), 2 - step / 500) for step in range(50, len(series) + 1, 50)], PALETTE.test)],
        braille=braille,
    )


@pytest.mark.parametrize("braille", [True, False])
def test_extending_a_chart_gives_the_same_cells_as_drawing_it_again(braille: bool) -> None:
    dice = random.Random(7)
    series = Series()
    steps, values = step_axis(900, 1000, 60), value_axis([0.0, 2.5], 16, log=False)

    def grow(count: int) -> None:
        first = len(series) + 1
        series.extend(
            range(first, first + count), [0.4 + 1.8 * math.exp(-i / 300) + dice.uniform(-0.4, 0.4) for i in range(first, first + count)]
        )

    grow(80)
    picture = draw(drawing(series, steps, values, braille=braille), PALETTE)
    while len(series) < 960:
        before = len(series)
        grow(dice.randint(1, 40))
        now = drawing(series, steps, values, braille=braille)
        picture = extend(picture, now, PALETTE, before)
        assert [line.simplify() for line in picture.lines] == [line.simplify() for line in draw(now, PALETTE).lines]


def test_the_axes_of_a_growing_chart_stay_where_they_are() -> None:
    series = Series()
    values = value_axis([0.0, 2.5], 16, log=False)
    series.extend(range(1, 111), [2.0] * 110)
    early = draw(drawing(series, step_axis(110, 200, 60), values), PALETTE)
    series.extend(range(111, 151), [1.0] * 40)
    late = draw(drawing(series, step_axis(150, 200, 60), values), PALETTE)
    assert [line.text[: early.left] for line in early.lines] == [line.text[: late.left] for line in late.lines]
    assert early.lines[-1].text == late.lines[-1].text


def test_a_chart_of_one_point_shows_it() -> None:
    series = Series()
    series.append(1, 2.0)
    picture = draw(drawing(series, step_axis(1, 1, 60), value_axis([2.0], 16, log=False)), PALETTE)
    canvas = "".join(line.text[picture.left :] for line in picture.lines[: picture.rows])
    assert canvas.strip()


def test_a_chart_for_plain_terminals_has_no_braille() -> None:
    series = Series()
    series.extend(range(1, 100), [2.0 - i / 100 for i in range(1, 100)])
    picture = draw(drawing(series, step_axis(99, 200, 60), value_axis([0, 2.5], 16, log=False), braille=False), PALETTE)
    text = "".join(line.text for line in picture.lines)
    assert "*" in text
    assert not any("\u2800" <= char <= "\u28ff" for char in text)
