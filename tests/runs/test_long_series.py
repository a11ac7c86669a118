"""A series that lets go of its older points: what it says stays the same, and its memory small."""

import math
import random
import tracemalloc
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuitrain.runs import series as module
from tuitrain.runs import tape
from tuitrain.runs.pyramid import FACTOR
from tuitrain.runs.series import Series

FIRST = 11
"""The first step: what is fetched is asked for by step, and not by its place."""


class Kept:
    """What a disk has of the points, and which of them were asked for."""

    def __init__(self):
        self.values = []
        self.asked = []

    def fetch(self, first, last):
        self.asked.append(last - first)
        assert FIRST <= first < last <= FIRST + len(self.values)
        return self.values[first - FIRST : last - FIRST]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """A series is long when it has some hundreds of points, and a page ends anywhere."""
    monkeypatch.setattr(module, "KEPT", 150)
    monkeypatch.setattr(tape, "PAGE", 37)
    monkeypatch.setattr(module, "_PAGE", 3 * FACTOR)


def grown(pieces, seed=0, weight=0.0):
    """The same points in a series that lets go after each piece, in one that keeps all, and on a disk."""
    chance = random.Random(seed)
    short, whole, kept = Series(), Series(), Kept()
    for count in pieces:
        values = [chance.choice([chance.gauss(0, 1)] * 6 + [math.nan]) for _ in range(count)]
        steps = range(FIRST + len(kept.values), FIRST + len(kept.values) + count)
        kept.values += values
        for one in (short, whole):
            one.extend(steps, values)
            one.smoothed(weight)
        short.let_go(kept.fetch)
    return short, whole, kept


def points(series):
    return [(x, None if y != y else y) for x, y in (series[index] for index in range(len(series)))]


def edges(bins):
    """How many points lie after each bin's beginning, the last bin first."""
    return list(accumulate(one.count for one in reversed(bins)))


PIECES = st.lists(st.integers(0, 400), max_size=12)


@settings(max_examples=60, deadline=None)
@given(PIECES, st.integers(0, 2**31), st.sampled_from([0.0, 0.5, 0.99]))
def test_every_point_is_what_it_was_smoothed_or_not(pieces, seed, weight):
    short, whole, _ = grown(pieces, seed, weight)
    assert short.in_memory == (sum(pieces) < 187)
    for found, expected in ((short, whole), (short.smoothed(weight), whole.smoothed(weight)), (short.smoothed(0.7), whole.smoothed(0.7))):
        assert points(found) == points(expected)
        for x in (0, FIRST, FIRST + 77.5, FIRST + len(whole)):
            at, there = found.at(x), expected.at(x)
            assert at == there or (at[0] == there[0] and at[1] != at[1] and there[1] != there[1])


@settings(max_examples=60, deadline=None)
@given(PIECES, st.integers(0, 2**31), st.integers(1, 40), st.floats(-0.2, 1.2), st.floats(-0.2, 1.2))
def test_columns_hold_the_same_points_but_for_part_of_a_group_at_their_edges(pieces, seed, columns, start, stop):
    short, whole, _ = grown(pieces, seed)
    lo, hi = sorted((start * sum(pieces), stop * sum(pieces)))
    for found, expected in ((short, whole), (short.smoothed(0.9), whole.smoothed(0.9))):
        bins, exact = found.thin(lo, hi, columns), expected.thin(lo, hi, columns)
        assert sum(one.count for one in bins) == sum(one.count for one in exact)
        assert sum(one.count * one.mean for one in bins) == pytest.approx(sum(one.count * one.mean for one in exact))
        if (hi - lo) / columns < FACTOR:
            assert [(one.x, one.min, one.max, one.count) for one in bins] == [(one.x, one.min, one.max, one.count) for one in exact]
        else:
            # A column that begins within the first group may be counted with the next one.
            assert len(exact) - len(bins) in (0, 1)
            assert all(abs(one - other) < FACTOR for one, other in zip(edges(bins), edges(exact), strict=False))


def test_a_chart_of_all_fetches_nothing_and_a_part_of_it_only_its_own_points():
    short, _, kept = grown([100] * 400)
    for curve in (short, short.smoothed(0.9)):
        kept.asked.clear()
        assert len(curve.thin(FIRST, FIRST + 40_000, 100)) == 100
        assert len(curve.thin(0, 50_000, 20)) == 17
        assert kept.asked == []
        assert len(curve.thin(5_000, 5_099, 100)) > 80
        assert sum(kept.asked) <= 100 + FACTOR
        kept.asked.clear()
        assert len(curve.thin(5_000, 25_000, 100)) == 100
        assert sum(kept.asked) <= 4 * FACTOR, "where it begins and ends it cuts a group"


def test_asking_again_fetches_what_is_in_no_group_though_more_was_let_go_of():
    short, _, kept = grown([100] * 150)
    before = short.thin(FIRST, FIRST + 20_000, 100)
    for _ in range(20):
        steps = range(FIRST + len(kept.values), FIRST + len(kept.values) + 100)
        kept.values += [1.0] * 100
        short.extend(steps, [1.0] * 100)
        short.let_go(kept.fetch)
        assert short.thin(FIRST, FIRST + 20_000, 100)[: len(before) - 1] == before[:-1]
    assert len(kept.asked) <= 2 * 20, "where its newest column begins and ends it cuts a group"
    assert max(kept.asked) < 2 * FACTOR


@settings(max_examples=60, deadline=None)
@given(st.integers(-1, 3 * FACTOR * FACTOR // 2), st.integers(0, 3 * FACTOR))
def test_a_long_series_is_cut_at_a_point_without_being_read_and_goes_on_from_there(end, more):
    short, whole, kept = grown([3 * FACTOR * FACTOR // 2])
    plain = Series()
    plain.extend([x for x, _ in zip(range(FIRST, FIRST + end), kept.values, strict=False)], kept.values[: max(end, 0)])
    for one in (short.up_to(FIRST + end - 1), whole.up_to(FIRST + end - 1), plain):
        assert len(one) == max(end, 0)
    assert kept.asked == []
    again = short.up_to(FIRST + end - 1)
    steps = range(FIRST + len(again), FIRST + len(again) + more)
    for one in (again, plain):
        one.extend(steps, [-1.0] * more)
    kept.values[len(again) - more :] = [-1.0] * more
    assert [(one.min, one.max, one.count) for one in again.thin(0, 10**6, 1)] == [
        (one.min, one.max, one.count) for one in plain.thin(0, 10**6, 1)
    ]
    assert points(again) == points(plain)
    assert points(again.smoothed(0.9)) == points(plain.smoothed(0.9))


def test_points_that_cannot_be_fetched_any_more_are_left_out():
    short, whole, _ = grown([100] * 30)
    short.let_go(lambda first, last: [math.nan] * (last - first))
    short.extend(range(FIRST + 3_000, FIRST + 3_400), [1.0] * 400)
    short.let_go(lambda first, last: [math.nan] * (last - first))
    assert short.thin(FIRST, FIRST + 50, 100) == []
    assert math.isnan(short.at(FIRST)[1])
    assert short.thin(FIRST, FIRST + 2_999, 20)[3].max == pytest.approx(whole.thin(FIRST, FIRST + 2_999, 20)[3].max, abs=2)
    assert short[-1] == (FIRST + 3_399, 1.0)


@settings(max_examples=60, deadline=None)
@given(PIECES, st.integers(0, 2**31))
def test_in_memory_stay_pages_of_one_size_and_at_most_one_more_than_is_kept(pieces, seed):
    short, _, _ = grown(pieces, seed, 0.5)
    for series in (short, short.smoothed(0.5)):
        start, pages = series._y._held
        assert {len(page) for page in pages[:-1]} <= {tape.PAGE}
        assert len(pages[-1]) <= tape.PAGE
        assert min(sum(pieces), module.KEPT) <= len(series) - start < module.KEPT + 2 * tape.PAGE


def test_steps_with_a_gap_stay_in_memory():
    series = Series()
    series.extend([1, 2, 3, 7], [1.0] * 4)
    series.extend(range(8, 1_000), [2.0] * 992)
    series.let_go(lambda first, last: pytest.fail("nothing was let go of"))
    assert series.in_memory
    assert series.at(5) == (3, 1.0)


def test_a_series_takes_a_byte_a_point_with_its_average():
    tracemalloc.start()
    try:
        series = Series()
        before = tracemalloc.get_traced_memory()[0]
        for first in range(0, 200_000, 1_000):
            series.extend(range(first, first + 1_000), [0.5] * 1_000)
            series.smoothed(0.9)
            series.let_go(lambda start, stop: [0.5] * (stop - start))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < 200_000
