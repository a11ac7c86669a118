"""Series: thinning equals what a plain loop over the points finds, whatever the length."""

import math
import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuitrain.runs.pyramid import FACTOR, Bin, Pyramid
from tuitrain.runs.series import Series


def series_of(values, first=1):
    series = Series()
    series.extend(range(first, first + len(values)), values)
    return series


def plain_bin(points):
    """The bin of (x, y) points by the plain definition."""
    finite = [y for _, y in points if math.isfinite(y)]
    return Bin((points[0][0] + points[-1][0]) / 2, min(finite), sum(finite) / len(finite), max(finite), len(finite)) if finite else None


def plain_thin(points, lo, hi, columns):
    inside = [point for point in points if lo <= point[0] <= hi]
    if len(inside) <= columns:
        return [plain_bin([point]) for point in inside if math.isfinite(point[1])]
    edges = [lo + (hi - lo) * column / columns for column in range(1, columns)]
    columns_of_points = {}
    for point in inside:
        columns_of_points.setdefault(sum(edge <= point[0] for edge in edges), []).append(point)
    return [found for _, held in sorted(columns_of_points.items()) if (found := plain_bin(held))]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.x, one.min, one.max) == (other.x, other.min, other.max)
        assert one.mean == pytest.approx(other.mean, rel=1e-9, abs=1e-9)
        assert one.min <= one.mean <= one.max


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 3 * FACTOR * FACTOR // 2),
    st.integers(0, 2**31),
    st.integers(1, 40),
    st.floats(-0.2, 1.2),
    st.floats(-0.2, 1.2),
)
def test_thin_equals_a_plain_loop(length, seed, columns, start, stop):
    chance = random.Random(seed)
    values = [chance.choice([chance.gauss(0, 1)] * 6 + [math.nan, math.inf]) for _ in range(length)]
    lo, hi = sorted((start * length, stop * length))
    points = list(enumerate(values, 1))
    assert_same(series_of(values).thin(lo, hi, columns), plain_thin(points, lo, hi, columns))


@pytest.fixture
def touched(monkeypatch):
    """How many numbers each gathering looked at."""
    touched = []
    gather = Pyramid._gather_at

    def counted(self, depth, first, last, tally):
        touched.append(last - first)
        gather(self, depth, first, last, tally)

    monkeypatch.setattr(Pyramid, "_gather_at", counted)
    return touched


def test_a_million_points_are_thinned_from_a_few_thousand_numbers(touched):
    series = series_of([float(i % 1000) for i in range(1_000_000)])
    bins = series.thin(1, 1_000_000, 240)
    assert len(bins) == 240
    assert {(found.min, found.max) for found in bins} == {(0.0, 999.0)}
    assert sum(touched) < 240 * 6 * FACTOR


def test_few_points_are_bins_of_their_own():
    series = Series()
    assert series.thin(0, 10, 5) == []
    series.append(3, 1.5)
    assert series.thin(0, 10, 5) == [Bin(3, 1.5, 1.5, 1.5)]
    assert series.thin(4, 10, 5) == []
    assert (len(series), series[0], series[-1]) == (1, (3, 1.5), (3, 1.5))
    with pytest.raises(IndexError):
        series[1]


def test_earlier_bins_hold_still_while_points_come():
    series = series_of([1.0] * 500)
    before = series.thin(0, 1000, 20)
    series.extend(range(501, 601), [2.0] * 100)
    assert series.thin(0, 1000, 20)[: len(before) - 1] == before[:-1]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3 * FACTOR), st.sampled_from([(1, 600, 20), (50, 400, 20), (1, 600, 7), (0, 9e3, 3)])), max_size=8),
    st.integers(0, 2**31),
)
def test_thin_asked_again_after_new_points_equals_a_plain_loop(rounds, seed):
    chance = random.Random(seed)
    series, points = Series(), []
    for count, asked in rounds:
        new = [chance.choice([chance.gauss(0, 1)] * 6 + [math.nan]) for _ in range(count)]
        points += enumerate(new, len(points) + 1)
        series.extend([x for x, _ in points[len(series) :]], new)
        assert_same(series.thin(*asked), plain_thin(points, *asked))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([1, 1, 1, 1, 2, 0.5]), max_size=6), max_size=6),
    st.sampled_from([1, 0, 7, 2.5, -3]),
)
def test_steps_may_follow_each_other_or_not(pieces, first):
    series, xs, x = Series(), [], first
    for gaps in pieces:
        new = [x := x + gap for gap in gaps]
        series.extend(new, [float(value) for value in new])
        xs += new
        average = series.smoothed(0.5)
        assert [series[index] for index in range(len(series))] == [(value, value) for value in xs]
        assert [average[index][0] for index in range(len(average))] == xs
        for value in (first, *xs, x + 1):
            before = [one for one in xs if one <= value]
            assert series.at(value) == ((before[-1], before[-1]) if before else None)


def test_asking_again_costs_only_the_newest_columns(touched):
    series = series_of([1.0] * 100_000)
    first = series.thin(1, 125_000, 240)
    touched.clear()
    series.extend(range(100_001, 100_101), [2.0] * 100)
    again = series.thin(1, 125_000, 240)
    assert again[: len(first) - 1] == first[:-1]
    assert again[-1].max == 2.0
    assert sum(touched) < 3 * 6 * FACTOR


def test_points_that_are_not_finite_are_skipped():
    series = series_of([1.0, math.nan, math.inf, -math.inf, 3.0])
    assert [found.x for found in series.thin(1, 5, 10)] == [1, 5]
    assert series.thin(1, 5, 1) == [Bin(3, 1.0, 2.0, 3.0, 2)]
    assert series_of([math.nan] * 300).thin(1, 300, 10) == []


def test_a_huge_sum_does_not_put_the_mean_outside():
    found = series_of([1e308] * 100).thin(1, 100, 1)
    assert found == [Bin(50.5, 1e308, 1e308, 1e308, 100)]


@pytest.mark.parametrize("xs", [(2, 2), (2, 1), (1,), (math.nan,)])
def test_x_must_ascend(xs):
    series = series_of([0.0])
    with pytest.raises(ValueError, match="ascend"):
        series.extend(xs, [0.0] * len(xs))
    with pytest.raises(ValueError, match="2 x for 1 y"):
        series.extend((2, 3), (1.0,))
    assert len(series) == 1


def test_smoothing_is_the_debiased_average_of_the_raw_points():
    values = [5.0, 1.0, math.nan, 2.0]
    smoothed = series_of(values).smoothed(0.9)
    expected = [5.0, (0.9 * 5 + 1) / 1.9, math.nan, (0.81 * 5 + 0.9 * 1 + 2) / 2.71]
    assert [smoothed[i][1] for i in range(4)] == pytest.approx(expected, nan_ok=True)
    assert [smoothed[i][0] for i in range(4)] == [1, 2, 3, 4]


def test_smoothing_goes_on_from_where_it_was():
    values = [random.Random(1).random() for _ in range(300)]
    growing = Series()
    for start in range(0, 300, 70):
        part = values[start : start + 70]
        growing.extend(range(start + 1, start + 1 + len(part)), part)
        smoothed = growing.smoothed(0.6)
        assert len(smoothed) == len(growing)
    whole = series_of(values).smoothed(0.6)
    assert smoothed.thin(1, 300, 30) == whole.thin(1, 300, 30)
    assert growing.smoothed(0.6) is smoothed
    assert growing.smoothed(0) is growing
    with pytest.raises(ValueError, match="weight"):
        growing.smoothed(1.0)


def test_readers_see_whole_points_while_one_thread_appends():
    series, wrong, done = Series(), [], threading.Event()

    def read():
        while not done.is_set():
            length = len(series)
            for curve in (series, series.smoothed(0.5)):
                bins = curve.thin(1, max(length, 1), 7)
                if any(not (found.min == found.mean == found.max == 1.0) for found in bins) or (length and not bins):
                    wrong.append(bins)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for start in range(1, 20_000, 50):
        series.extend(range(start, start + 50), [1.0] * 50)
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert len(series) == 20_000


def test_a_series_is_cut_at_a_point_and_goes_on_from_there():
    series = Series()
    series.extend(range(1, 201), [float(x) for x in range(1, 201)])
    kept = series.up_to(130)
    kept.append(131, -1.0)
    assert (len(series), len(kept), kept[-1], kept[-2]) == (200, 131, (131, -1.0), (130, 130.0))
    assert [found.mean for found in kept.thin(1, 131, 1)] == [pytest.approx((sum(range(1, 131)) - 1) / 131)]
