from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable

import msgspec
import pytest

from tuitrain.runs.evaluations import EvaluationCurve
from tuitrain.runs.series import Series
from tuitrain.tui.curve.axes import (
    Axis,
    cell,
    in_epochs,
    number_axis,
    percent_axis,
    round_up,
    span_axis,
    step_at,
    step_axis,
    step_limit,
    time_axis,
    value_axis,
)
from tuitrain.tui.curve.band import band_cells
from tuitrain.tui.curve.callouts import Course, call_out
from tuitrain.tui.curve.chart import Dots, Drawing, Line, Picture, draw, extend
from tuitrain.tui.curve.crosshair import epoch_columns, with_cursor
from tuitrain.tui.curve.metrics import ACCURACY, LEARNING_RATE, LOSS
from tuitrain.tui.curve.sketch import Material, bin_columns, changed_since, sketch
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


def test_an_axis_far_from_zero_is_kept_only_while_it_suits() -> None:
    first = value_axis([8.0, 12.0], 20, log=False)
    assert (first.low, first.high) == (8.0, 13.0)
    for kept in ([8.0, 13.0], [8.0, 9.7]):
        assert value_axis(kept, 20, log=False, held=first) is first
    for left in ([7.9, 12.0], [8.0, 13.1], [8.1, 8.2], [8.0, 9.6]):
        assert value_axis(left, 20, log=False, held=first) is not first


def test_marks_are_round_and_the_last_one_has_room() -> None:
    assert [label for _, label in step_axis(700, 700, 80).ticks] == ["0", "200", "400", "700"], "600 would touch it"
    assert [label for _, label in step_axis(20, 20, 112).ticks] == ["0", "5", "10", "15", "20"], "2.5 is no step"
    assert [label for _, label in step_axis(4, 4, 112).ticks] == ["0", "1", "2", "3", "4"]
    assert {"2", "2.5", "3"} <= {label for _, label in value_axis([2.0, 3.0], 20, log=True).ticks}
    assert "2.5" not in {label for _, label in value_axis([0.1, 30.0], 60, log=True).ticks}
    decades = [position for position, _ in value_axis([1e-6, 1e6], 18, log=True).ticks]
    assert all(abs(position - round(position)) < 1e-9 for position in decades), "whole powers where many lie between"


@pytest.mark.parametrize("values", [[0.0], [2.3], [-1.0, 3.0], [1e-9, 2e-9], [1e12, 1.0], [], [2.31, 2.29], [1e6], [1e-12], [1e12]])
def test_every_set_of_values_has_an_axis(values: list[float]) -> None:
    for log in (False, True):
        axis = value_axis(values, 18, log=log)
        assert axis.low < axis.high
        assert 2 <= len(axis.ticks) <= 12
        assert len({label for _, label in axis.ticks}) == len(axis.ticks)
        for value in values:
            if not log:
                assert axis.low <= value <= axis.high


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("values", [[1.7e308], [1.7e308, -1.7e308], [0.1, math.inf], [5e-324, 1e307, 2.3], [1e300, 1.1e300]])
def test_a_loss_that_leaves_the_numbers_is_drawn_at_the_edge(values: list[float], log: bool) -> None:
    """A run in fp64 may get there step by step."""
    series = Series()
    series.extend(range(1, len(values) + 1), values)
    steps = step_axis(len(values), len(values), 60)
    raw, smooth = (points.thin(steps.low, steps.high, bin_columns(60)) for points in (series, series.smoothed(0.9)))
    made = sketch(Material(LOSS, raw, smooth, [], None), steps, (60, 16), PALETTE, log=log, held=None, braille=True)
    assert -math.inf < made.values.low < made.values.high < math.inf
    assert 2 <= len(made.values.ticks) <= 12
    picture = draw(made, PALETTE)
    assert [line.cell_length for line in picture.lines] == [60] * 16
    assert any("⠀" < character <= "⣿" for line in picture.lines for character in line.text)


def test_a_log_axis_ignores_what_has_no_logarithm() -> None:
    axis = value_axis([0.0, -1.0, 0.1, 10.0], 18, log=True)
    assert (axis.low, axis.high) == (-1.0, 1.0)
    assert {"0.1", "1", "10"} <= {label for _, label in axis.ticks}


def test_round_up() -> None:
    assert [round_up(value) for value in (0.9, 1.0, 1.1, 2.2, 3.0, 7.0)] == [1.0, 1.0, 2.0, 2.5, 5.0, 10.0]
    assert round_up(0.0) == round_up(math.nan) == 1.0


def evaluated(numbers: Iterable[tuple[int, float]]) -> EvaluationCurve:
    curve = EvaluationCurve()
    for step, value in numbers:
        curve.add(step, value)
    return curve


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


# -- axes of parts and of times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(400, 800), (3, 15), (0, 8), (123_456, 987_654), (7, 7)])
def test_a_span_is_marked_at_whole_steps_and_ends_where_it_is_told(low: int, high: int) -> None:
    axis = span_axis(low, high, 70)
    assert (axis.low, axis.high) == (low, max(high, low + 1))
    assert axis.ticks
    assert all(tick == int(tick) and label == f"{tick:,.0f}" and axis.low <= tick <= axis.high for tick, label in axis.ticks)
    assert len({label for _, label in axis.ticks}) == len(axis.ticks)


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0, 7820, [(0, "0"), (1564, "2"), (3128, "4"), (4692, "6"), (6256, "8"), (7820, "10")]),
        (391, 1173, [(469.2, "0.6"), (625.6, "0.8"), (782, "1.0"), (938.4, "1.2"), (1094.8, "1.4")]),
        (1000, 3000, [(1564, "2"), (2346, "3")]),
    ],
)
def test_an_axis_of_steps_may_be_marked_at_epochs(low: int, high: int, marks: list[tuple[float, str]]) -> None:
    axis = in_epochs(span_axis(low, high, 70), 782, 70)
    assert (axis.low, axis.high) == (low, high)
    assert [mark for mark, _ in axis.ticks] == pytest.approx([mark for mark, _ in marks])
    assert [label for _, label in axis.ticks] == [label for _, label in marks]


def test_numbers_may_have_decimals() -> None:
    assert [label for _, label in number_axis(1.2, 2.4, 70).ticks] == ["1.25", "1.50", "1.75", "2.00", "2.25"]
    assert [label for _, label in number_axis(0, 10, 70).ticks] == ["0", "2", "4", "6", "8", "10"]


@pytest.mark.parametrize(
    ("high", "labels"),
    [
        (0.7, ["0:00.0", "0:00.2", "0:00.4", "0:00.6"]),
        (30, ["0:00", "0:10", "0:20", "0:30"]),
        (700, ["0:00", "5:00", "10:00"]),
        (20_000, ["0:00", "2 h 00", "4 h 00"]),
        (2e6, ["0:00", "5 d 00", "10 d 00", "15 d 00", "20 d 00"]),
    ],
)
def test_times_are_written_as_people_say_them(high: float, labels: list[str]) -> None:
    axis = time_axis(0, high, 70)
    assert [label for _, label in axis.ticks] == labels
    assert (axis.low, axis.high) == (0, high)


def test_steps_of_a_short_run_are_whole() -> None:
    for total in range(1, 30):
        assert all(label == str(int(tick)) and tick == int(tick) for tick, label in step_axis(total, total, 80).ticks)


def test_percent_ends_at_100_and_comes_closer_where_all_is_near_it() -> None:
    lows = {0: [], 50: [51.0], 80: [81.0, 84.0], 95: [95.0, 98.9], 99: [99.4, 100.0], 99.9: [99.95, 100.0]}
    assert percent_axis([10, 99], 8).low == 0
    assert {percent_axis(values, 8).low for values in lows.values()} == set(lows)
    assert all(percent_axis(values, 8).low == low for low, values in lows.items())
    held = percent_axis([55.0], 8)
    assert percent_axis([51.0, 70.0], 8, held=held) is held
    close = percent_axis([99.4], 8)
    assert percent_axis([99.4, 100.0, 99.0], 8, held=close) is close
    assert {percent_axis([value], 16).high for value in (0.0, 50.0, 100.0)} == {100}


@pytest.mark.parametrize("height", [4, 8, 12, 18, 40])
@pytest.mark.parametrize("least", [0.0, 50.0, 80.0, 90.0, 95.0, 99.0, 99.9])
def test_labels_near_100_percent_differ_and_do_not_widen_the_chart_much(least: float, height: int) -> None:
    axis = percent_axis([least], height)
    assert axis.ticks[-1] == (100, "100")
    assert [float(label) for _, label in axis.ticks] == pytest.approx([mark for mark, _ in axis.ticks])
    assert len({label for _, label in axis.ticks}) == len(axis.ticks) >= 3
    assert max(len(label) for _, label in axis.ticks) <= 6


@pytest.mark.parametrize(("values", "some"), [([120_000, 99_000], "110k"), ([2.3e6, 1e5], "1.5M"), ([5e8, 4.9e8], "500M")])
def test_large_numbers_have_short_labels(values: list[float], some: str) -> None:
    assert some in [label for _, label in value_axis(values, 20, log=False).ticks]


# -- gaps, bands and what is laid over --------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothed", [True, False])
@pytest.mark.parametrize("braille", [True, False])
@pytest.mark.parametrize("each", [60, 3])
def test_extending_over_gaps_and_moving_best_marks_gives_the_same_cells(braille: bool, smoothed: bool, each: int) -> None:
    dice = random.Random(3)
    series = Series()
    steps, held = step_axis(900, 1000, 60), value_axis([0.0, 2.5], 16, log=False)
    picture = before = None
    extended = 0
    while len(series) < 940:
        first, count = len(series) + 1, dice.randint(5, 60)
        lost = dice.random() < 0.3
        series.extend(range(first, first + count), [math.nan if lost else 1.2 + dice.uniform(-0.8, 0.8) for _ in range(count)])
        tests = evaluated((step, 1 + math.sin(step / 40)) for step in range(each, len(series), each))
        raw, smooth = (points.thin(steps.low, steps.high, bin_columns(60)) for points in (series, series.smoothed(0.9)))
        dots = tests.points.thin(steps.low, steps.high, bin_columns(60))
        material = Material(LOSS, raw, smooth if smoothed else None, dots, LOSS.best_of(tests))
        now = sketch(material, steps, (60, 16), PALETTE, log=False, held=held, braille=braille)
        if now.values != held:
            now = msgspec.structs.replace(now, values=held)
        since = None if before is None else changed_since(before, now)
        if picture is None or since is None:
            picture = draw(now, PALETTE)
        elif since < math.inf:
            extended += 1
            picture = extend(picture, now, PALETTE, since)
        before = now
        assert [line.simplify() for line in picture.lines] == [line.simplify() for line in draw(now, PALETTE).lines]
    assert extended > 20


@pytest.mark.parametrize("braille", [True, False])
def test_one_step_that_leaps_is_seen_without_smoothing_too(braille: bool) -> None:
    series = Series()
    series.extend(range(1, 1001), [1.4 if step == 500 else 1.0 for step in range(1, 1001)])
    steps = step_axis(1000, 1000, 60)
    material = Material(LOSS, series.thin(steps.low, steps.high, bin_columns(60)), None, [], None)
    made = sketch(material, steps, (60, 16), PALETTE, log=False, held=None, braille=braille)
    assert max(greatest for _, _, greatest in made.band) == 1.4
    assert max(value for _, value in made.lines[0].points) < 1.05
    rows, picture = canvas_of(made)
    above = {column for row in rows[: picture.rows // 2] for column, character in enumerate(row) if character != " "}
    assert above
    assert all(abs(column - cell(500, steps, picture.columns)) <= 1 for column in above)


def test_where_every_step_has_its_column_the_line_alone_says_all() -> None:
    series = Series()
    series.extend(range(1, 41), [1.0 + step % 2 for step in range(1, 41)])
    steps = step_axis(40, 40, 60)
    raw = series.thin(steps.low, steps.high, bin_columns(60))
    assert sketch(Material(LOSS, raw, None, [], None), steps, (60, 16), PALETTE, log=False, held=None, braille=True).band == ()


def canvas_of(drawing: Drawing) -> tuple[list[str], Picture]:
    picture = draw(drawing, PALETTE)
    return [line.text[picture.left :] for line in picture.lines[: picture.rows]], picture


def test_a_missing_value_interrupts_the_line_and_the_band() -> None:
    steps, values = Axis(0, 53, ()), Axis(0, 10, ((0, "0"),))
    points = [(0.0, 5.0), (20.0, 5.0), (20.0, math.nan), (33.0, 5.0), (53.0, 5.0)]
    band = [(x, y - 4, y + 4) for x, y in points]
    rows, picture = canvas_of(Drawing(60, 12, steps, values, band=band, lines=[Line(points, PALETTE.train)]))
    assert picture.columns == 54
    for columns, blank in ((range(2, 18), False), (range(23, 31), True), (range(36, 52), False)):
        assert all((column_text(rows, column).strip() == "") == blank for column in columns)


def column_text(rows: list[str], column: int) -> str:
    return "".join(row[column] for row in rows)


@pytest.mark.parametrize("braille", [True, False])
def test_a_band_reaches_from_the_least_to_the_greatest(braille: bool) -> None:
    cells = band_cells([(0.0, 0.0, 10.0), (5.0, 5.0, 5.0)], Axis(0, 9, ()), Axis(0, 10, ()), 10, 8, braille=braille)
    assert {row for column, row in cells if column == 0} == set(range(8))
    assert {row for column, row in cells if column == 5} <= {3, 4}
    heights = [len({row for at, row in cells if at == column}) for column in range(6)]
    assert heights == sorted(heights, reverse=True), "between two strokes it narrows"
    assert not [column for column, _ in cells if column > 5]


def test_dots_lie_over_lines_and_later_dots_over_earlier_ones() -> None:
    steps, values = Axis(0, 50, ()), Axis(0, 10, ())
    points = [(0.0, 5.0), (50.0, 5.0)]
    dots = [Dots([(25.0, 5.0), (40.0, 5.0)], PALETTE.test), Dots([(25.0, 5.0)], PALETTE.test, "◆")]
    rows, _ = canvas_of(Drawing(60, 12, steps, values, lines=[Line(points, PALETTE.train)], dots=dots))
    text = "".join(rows)
    assert (text.count("◆"), text.count("●")) == (1, 1)


@pytest.mark.parametrize("braille", [True, False])
@pytest.mark.parametrize("height", [8, 12, 31])
def test_a_mark_covers_the_dot_of_its_line(height: int, braille: bool) -> None:
    """A dot beside it would look like another value."""
    steps, values = Axis(0, 50, ()), Axis(0, 10, ())
    for index in range(101):
        points = [(index / 2, 10 - index / 10)]
        lines, dots = [Line(points, PALETTE.train)], [Dots(points, PALETTE.test)]
        rows, _ = canvas_of(Drawing(60, height, steps, values, lines=lines, dots=dots, braille=braille))
        assert "".join(rows).strip() == "●"


@pytest.mark.parametrize("braille", [True, False])
def test_a_number_stands_on_its_line(braille: bool) -> None:
    steps, values = Axis(0, 50, ()), Axis(0, 10, ())
    for index in range(101):
        points = [(0.0, index / 10), (index / 2, index / 10)]
        picture = draw(Drawing(60, 12, steps, values, lines=[Line(points, PALETTE.train)], braille=braille), PALETTE)
        callouts = call_out([Course(1, points)], steps, values, picture.columns, picture.rows, every=99, braille=braille)
        assert callouts
        assert all(picture.lines[one.row].text[picture.left + one.column] != " " for one in callouts)


def test_the_cursor_goes_through_blank_cells_only() -> None:
    steps, values = Axis(0, 50, ((0, "0"), (50, "50"))), Axis(0, 10, ((0, "0"),))
    picture = draw(Drawing(60, 12, steps, values, lines=[Line([(0.0, 5.0), (50.0, 5.0)], PALETTE.train)]), PALETTE)
    column = cell(25, steps, picture.columns)
    lines = with_cursor(picture, column, PALETTE.dim, PALETTE.key)
    text = column_text([line.text for line in lines], picture.left + column)
    assert text.count("┊") == picture.rows - 1
    assert text[picture.rows] == "▲"
    assert {line.cell_length for line in lines} == {60}
    for x, (before, after) in enumerate(zip(picture.lines[0].text, lines[0].text, strict=True)):
        assert (before == after) == (x != picture.left + column)
    assert with_cursor(picture, -1, PALETTE.dim, PALETTE.key) == with_cursor(picture, 999, PALETTE.dim, PALETTE.key) == picture.lines


@pytest.mark.parametrize("columns", [20, 66, 190])
@pytest.mark.parametrize("per_epoch", [1, 3, 100, 782, 10_000])
def test_epochs_are_thinned_to_a_quarter_of_the_columns(columns: int, per_epoch: int) -> None:
    steps = Axis(0, 7820, ())
    found = epoch_columns(steps, columns, per_epoch)
    epochs = 7820 // per_epoch
    assert len(found) <= columns / 4
    assert len(found) >= min(epochs, columns // 4 // 3)
    assert all(0 <= column < columns for column in found)
    assert epoch_columns(steps, columns, 0) == []


def test_a_step_stands_in_the_column_that_step_at_gives() -> None:
    for steps in (Axis(0, 7820, ()), Axis(400, 408, ())):
        assert all(cell(step_at(column, steps, 66), steps, 66) == column for column in range(66))


def test_the_axis_holds_the_line_between_evaluations_that_lie_outside() -> None:
    course = [(40.0, 52.0), (60.0, 81.0)]
    made = sketch(Material(ACCURACY, (), None, [], None, course), Axis(40, 60, ()), (60, 16), PALETTE, log=False, held=None, braille=True)
    assert made.lines[0].points == course
    assert made.values.low == 50
    assert not any(dots.points for dots in made.dots)


def test_the_best_evaluation_is_the_first_of_the_best() -> None:
    tests = evaluated([(5, math.nan), (10, 3.0), (20, 1.0), (30, 1.0), (30, 0.5), (40, 3.0), (50, math.inf)])
    assert [metric.best_of(tests) for metric in (LOSS, ACCURACY, LEARNING_RATE)] == [(20.0, 1.0), (10.0, 3.0), None]
    assert LOSS.best_of(evaluated([])) is None


@pytest.mark.parametrize("braille", [True, False])
@pytest.mark.parametrize("log", [True, False])
def test_evaluations_of_one_column_are_marked_from_the_least_to_the_greatest(braille: bool, log: bool) -> None:
    """However many there are, a picture has few points; the best one has its own mark."""
    tests = evaluated((step, 2.0 if step % 7 else 1.0) for step in range(1, 20_001))
    steps = step_axis(20_000, 20_000, 60)
    material = Material(LOSS, (), None, tests.points.thin(steps.low, steps.high, bin_columns(60)), LOSS.best_of(tests))
    made = sketch(material, steps, (60, 16), PALETTE, log=log, held=None, braille=braille)
    assert len(made.dots[0].points) <= 60
    assert made.dots[1].points == [(7.0, 1.0)]
    rows, picture = canvas_of(made)
    mark, best = ("●", "◆") if braille else ("o", "@")
    for column in range(1, picture.columns - 1):
        marked = [place for place, character in enumerate(column_text(rows, column)) if character == mark]
        assert marked == list(range(marked[0], marked[-1] + 1))
        assert len(marked) > 5
    assert "".join(rows).count(best) == 1


def test_an_evaluation_without_a_logarithm_does_not_stretch_the_axis_of_the_others() -> None:
    tests = evaluated((step, 0.0 if step == 500 else 1.0 + step / 1000) for step in range(1, 1_001))
    steps = step_axis(1_000, 1_000, 60)
    material = Material(LOSS, (), None, tests.points.thin(steps.low, steps.high, bin_columns(60)), LOSS.best_of(tests))
    made = sketch(material, steps, (60, 16), PALETTE, log=True, held=None, braille=True)
    assert -1 < made.values.low <= 0
    assert made.dots[1].points == []
    rows, picture = canvas_of(made)
    assert column_text(rows, cell(500, steps, picture.columns)).count("●") > 5
