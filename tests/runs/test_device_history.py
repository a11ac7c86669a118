"""What a device did during a run of any length: the newest samples as they came, the mean of each minute before them, in little memory."""

import math
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuitrain.events import GpuSample
from tuitrain.runs import history as module
from tuitrain.runs.history import FIELDS, DeviceHistory

KEPT = 128
BEGIN = 1_764_000_000.0
PERCENT = st.none() | st.integers(0, 100)
# Seconds from one sample to the next: pauses of a run, and clocks that were set back, come in between.
STEPS = st.lists(st.tuples(st.sampled_from([1.0] * 20 + [0.25, 7.5, 90.0, 4000.0, 0.0, -30.0]), PERCENT, PERCENT), min_size=1, max_size=700)


def sample(moment, utilization=None, memory=None, power=None):
    return GpuSample(time=moment, device="cuda:0", memory_used=memory, utilization=utilization, power=power, temperature=None)


def taken(steps):
    """The samples of `steps`, and the rows (time, utilization, memory, power) of those that are newer than all before them."""
    moment, samples, rows = BEGIN, [], []
    for seconds, utilization, memory in steps:
        moment += seconds
        samples.append(sample(moment, utilization, memory))
        if not rows or moment > rows[-1][0]:
            rows.append((moment, utilization, memory, None))
    return samples, rows


def mean(rows, column, start, end):
    found = [row[column] for row in rows if start <= row[0] <= end and row[column] is not None]
    return sum(found) / len(found) if found else None


def about(value):
    return None if value is None else pytest.approx(value)


@settings(deadline=None, max_examples=25)
@given(STEPS, st.lists(st.integers(0, 699), max_size=3))
def test_as_long_as_samples_are_few_each_can_be_read(steps, cuts):
    samples, rows = taken(steps)
    history = DeviceHistory()
    edges = sorted({0, *cuts, len(samples)})
    for first, last in pairwise(edges):
        history.extend(samples[first:last])
    assert len(history) == len(rows)
    for column, field in enumerate(FIELDS, 1):
        assert history.knows(field) == any(row[column] is not None for row in rows)
        for moment, *_ in rows[:: max(len(rows) // 20, 1)]:
            newest = next(row for row in reversed(rows) if row[0] <= moment + 1)
            assert history.at(field, moment) == newest[column]
            exact = mean(rows, column, BEGIN, moment)
            assert history.mean(field, BEGIN, moment) == about(history.at(field, moment) if exact is None else exact)


@settings(deadline=None, max_examples=25)
@given(STEPS)
@example([(1.0, number % 100, None) for number in range(700)])
@example([(1.0, None if number % 3 else number % 100, 5) for number in range(700)])
@example([(120.0, number % 100, 5) for number in range(400)])
def test_of_older_samples_the_mean_of_each_minute_is_kept(steps):
    samples, rows = taken(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "KEPT", KEPT)
        history = DeviceHistory()
        for each in samples:
            history.add(each)
    assert len(history) == len(rows)
    newest, older = rows[-KEPT:], rows[: -KEPT * 5 // 4 - 240]
    for column, field in enumerate(FIELDS, 1):
        for moment, *_ in newest[:: max(len(newest) // 10, 1)]:
            last = next(row for row in reversed(rows) if row[0] <= moment + 1)
            assert history.at(field, moment) == last[column], "the newest samples are as they came"
            exact = mean(rows, column, moment, math.inf)
            assert history.mean(field, moment, math.inf) == about(exact)
        for moment, *_ in older[:: max(len(older) // 10, 1)]:
            minute = moment // 60 * 60
            within = mean(rows, column, minute, minute + 59.999)
            begins = next(row[0] for row in rows if row[0] >= minute)
            assert history.at(field, begins) == about(within)
            assert history.mean(field, minute, minute + 59) == about(within)


def test_a_mean_over_all_counts_every_sample_once(monkeypatch):
    monkeypatch.setattr(module, "KEPT", KEPT)
    samples = [sample(BEGIN + number + (number // 500) * 1000, number % 101, number) for number in range(3000)]
    history = DeviceHistory()
    history.extend(samples[:2900])
    history.extend(samples[2900:])
    for field, value in (("utilization", "utilization"), ("memory", "memory_used")):
        exact = sum(getattr(each, value) for each in samples) / len(samples)
        assert history.mean(field, 0.0, math.inf) == pytest.approx(exact, rel=1e-12)


def test_what_is_long_past_or_was_never_seen_is_unknown(monkeypatch):
    monkeypatch.setattr(module, "KEPT", KEPT)
    history = DeviceHistory()
    history.extend([sample(BEGIN + number + (36_000 if number >= 500 else 0), 50) for number in range(1000)])
    assert history.at("utilization", BEGIN - 60) is None
    assert history.at("utilization", BEGIN + 250) == 50
    assert history.at("utilization", BEGIN + 5000) is None, "nobody looked at the device for hours"
    assert history.mean("utilization", BEGIN + 5000, BEGIN + 6000) is None
    assert history.at("utilization", BEGIN + 40_000) is None
    assert history.at("power", BEGIN + 250) is None


def test_days_of_samples_take_little_memory():
    history, seconds = DeviceHistory(), 2 * 86_400
    tracemalloc.start()
    try:
        for start in range(0, seconds, 5000):
            history.extend([sample(BEGIN + second, 90, 2**36, 300.0) for second in range(start, min(start + 5000, seconds))])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(history) == seconds
    assert held < 1.5e6, "with nothing let go of it would be 6 MB"
    assert history.mean("power", BEGIN, BEGIN + seconds) == pytest.approx(300.0)
    assert history.joules == pytest.approx(300.0 * (seconds - 1))
