"""What the comparison of runs is made of: axes, curves, words and the places of the numbers."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import seed_cnn, started

from tuitrain.config import RunConfig, with_changes
from tuitrain.events import Eval, Losses, RunEnded, State
from tuitrain.runs.record import RunRecord
from tuitrain.tui.curve.axes import Axis, number_axis
from tuitrain.tui.curve.callouts import Course, call_out
from tuitrain.tui.curve.compare import Entrant, Track, Wanted, axis_of, ends_of, labels, load, read, right_end, spans_at, value_at
from tuitrain.tui.curve.ruler import ACROSS, Across, Ruler, ruler
from tuitrain.tui.curve.straight import clip
from tuitrain.tui.differing import compare
from tuitrain.tui.look import DARK, LIGHT, palette_of
from tuitrain.tui.widgets.overlay import ceiling

PLAIN = Wanted(weight=0.0)


def record(
    losses: list[float],
    *,
    name: str = "",
    run: str = "20261121-0413-seed-cnn-k3f",
    per_epoch: int = 10,
    total: int | None = None,
    seconds: float = 1.0,
    accuracies: dict[int, float] | None = None,
    test_samples: int = 100,
    live: bool = False,
    times: list[float] | None = None,
) -> RunRecord:
    """A run in memory whose steps are `seconds` apart, evaluated after the steps that `accuracies` names."""
    made = RunRecord(msgspec.structs.replace(seed_cnn(), name=name))
    count = len(losses)
    made.apply(
        started(run=run, train_samples=640, test_samples=test_samples, steps_per_epoch=per_epoch, total_steps=total or max(count, 1))
    )
    made.apply(State(state="running"))
    stamps = times or [1000 + seconds * step for step in range(count)]
    if losses:
        made.apply(Losses(first_step=1, epoch=1, losses=tuple(losses), times=tuple(stamps)))
    for step, accuracy in (accuracies or {}).items():
        made.apply(Eval(step=step, epoch=1, loss=1 - accuracy, loss_sum=1.0, accuracy=accuracy))
    if not live:
        made.apply(RunEnded(state="finished", step=count))
    return made


def entrants(*records: RunRecord) -> list[Entrant]:
    return [Entrant(number, Path(f"/runs/{number}"), one) for number, one in enumerate(records, 1)]


def track(wanted: Wanted, *records: RunRecord) -> Track:
    """The curve of the first run."""
    return read(entrants(*records), wanted).tracks[0]


# -- axes -------------------------------------------------------------------------------------------------------------


def test_a_ruler_goes_both_ways_and_beyond_its_marks() -> None:
    made = Ruler([(1, 0.0), (11, 5.0), (21, 25.0)])
    assert [made.place(step) for step in (1, 6, 11, 16, 21, 31)] == [0.0, 2.5, 5.0, 15.0, 25.0, 45.0]
    for step in (1, 6, 11, 16, 21, 31):
        assert made.step(made.place(step)) == pytest.approx(step)
    assert Ruler([(1, 0.0)]).place(7) == 0.0
    assert Ruler([(1, 0.0), (2, 5.0), (3, 5.0)]).step(5.0) == 2, "the clock stood still"


@pytest.mark.parametrize(("across", "xs"), [("step", [1, 2, 3, 4]), ("epoch", [0.5, 1, 1.5, 2]), ("time", [0, 3, 6, 9])])
def test_a_curve_lies_over_steps_epochs_and_time(across: Across, xs: list[float]) -> None:
    one = record([4.0, 3.0, 2.0, 1.0], per_epoch=2, seconds=3.0)
    found = track(Wanted(across=across, weight=0.0), one).points
    assert [x for x, _ in found] == pytest.approx(xs)
    assert [y for _, y in found] == [4.0, 3.0, 2.0, 1.0]


def test_the_time_of_a_long_run_is_right_at_both_ends() -> None:
    made = ruler(record([1.0] * 5000, seconds=0.1), "time")
    assert made is not None
    assert (made.place(1), made.place(5000)) == (pytest.approx(0, abs=0.3), pytest.approx(499.9, abs=0.01))
    assert made.place(2500) == pytest.approx(249.9, abs=0.2)


def test_the_first_and_the_last_step_of_a_long_run_have_times_of_their_own() -> None:
    times = [0.0, *(60 + 0.1 * step for step in range(4998)), 1000.0]
    made = ruler(record([1.0] * 5000, times=times), "time")
    assert made is not None
    assert (made.place(1), made.place(5000)) == (0, 1000)
    assert made.place(2500) == pytest.approx(309.8, abs=1)


def test_a_clock_that_was_set_back_does_not_turn_a_curve_round() -> None:
    one = record([4.0, 3.0, 2.0, 1.0], times=[100.0, 110.0, 50.0, 120.0])
    xs = [x for x, _ in track(Wanted(across="time", weight=0.0), one).points]
    assert xs == sorted(xs)
    assert xs[-1] == 20.0


def test_the_axis_ends_with_the_longest_run_and_later_while_one_trains() -> None:
    short, long = record([1.0] * 7), record([1.0] * 90)
    assert read(entrants(short, long), PLAIN).axis.high == 90
    live = record([1.0] * 60, total=1000, live=True)
    made = ruler(live, "step")
    assert made is not None
    assert ends_of(live, made, "step") == (60, 100)
    assert read(entrants(short, long, live), PLAIN).axis.high == 100
    assert [read(entrants(*them), PLAIN).newest for them in ((live,), (short, live), (short, long, live))] == [60, 60, 90]
    assert read(entrants(live), Wanted(across="epoch")).axis.high == 10
    assert read(entrants(live), Wanted(across="time")).axis.high == 100


def test_the_zoomed_part_ends_at_the_newest_step_or_where_one_moved_it() -> None:
    wanted = Wanted(zoom=2)
    assert right_end(wanted, 400, 400) == 400
    # At step 130 of an axis to 400 the view of 100 steps moves on by quarters.
    assert {right_end(wanted, 400, newest) for newest in range(126, 151)} == {150}
    moved = Wanted(zoom=2, end=250)
    axis = axis_of(moved, 400, 400)
    assert (axis.low, axis.high) == (150, 250)
    start = axis_of(Wanted(zoom=2, end=0.0), 400, 400)
    assert (start.low, start.high) == (0, 100)


def test_an_axis_is_marked_in_what_it_counts() -> None:
    labels = {across: {label for _, label in axis_of(Wanted(across=across), 2.0, 2.0).ticks} for across in ACROSS}
    assert "0:02" in labels["time"]
    assert "1.5" in labels["epoch"]
    assert labels["step"] == {"0", "1", "2"}


@pytest.mark.parametrize("across", ["step", "epoch", "time"])
def test_a_zoomed_curve_has_the_points_of_its_part(across: Across) -> None:
    one = record([float(step) for step in range(1, 401)], per_epoch=10, seconds=2.0)
    found = read(entrants(one), Wanted(across=across, weight=0.0, zoom=2, end=read(entrants(one), Wanted(across=across)).limit / 2))
    values = [y for _, y in found.tracks[0].points]
    assert (min(values), max(values)) == (pytest.approx(100, abs=4), pytest.approx(200, abs=4))
    assert all(found.axis.low <= x <= found.axis.high for x, _ in found.tracks[0].points)


def test_a_line_is_cut_where_it_leaves_the_axis() -> None:
    line = [(0.0, 0.0), (10.0, 10.0), (20.0, 0.0)]
    assert clip(line, 0, 20) == line
    assert clip(line, 5, 15) == [(5, 5), (10, 10), (15, 5)]
    assert clip(line, 12, 14) == [(12, 8), (14, 6)]
    assert clip(line, 25, 30) == []


# -- curves -----------------------------------------------------------------------------------------------------------


def test_short_and_long_runs_share_a_chart() -> None:
    reading = read(entrants(record([2.0] * 100), record([1.0] * 200_000)), Wanted(width=80))
    assert all(len(one.points) <= 100 for one in reading.tracks)
    assert [one.points[-1][0] <= end for one, end in zip(reading.tracks, (100, 200_000), strict=True)] == [True, True]


def test_smoothing_is_done_before_thinning() -> None:
    one = record([1.0, 3.0] * 500)
    raw, smooth = track(Wanted(weight=0.0, width=2000), one).points, track(Wanted(weight=0.97, width=2000), one).points
    assert max(y for _, y in raw) - min(y for _, y in raw) == 2.0
    tail = [y for _, y in smooth[-100:]]
    assert max(tail) - min(tail) < 0.1


def test_values_that_are_not_finite_are_left_out() -> None:
    assert [x for x, _ in track(PLAIN, record([1.0, math.nan, math.inf, 2.0])).points] == [1, 4]
    assert track(PLAIN, record([math.nan, math.nan])) == Track(1, [], "no finite loss that could be read")
    one = record([1.0] * 4, accuracies={2: math.nan, 4: 0.5})
    assert track(Wanted(metric="accuracy"), one).points == [(4, 50.0)]


def test_evaluations_in_percent_and_as_losses() -> None:
    one = record([1.0] * 20, accuracies={10: 0.25, 20: 0.75})
    assert track(Wanted(metric="accuracy"), one).points == [(10, 25.0), (20, 75.0)]
    assert track(Wanted(metric="test"), one).points == [(10, 0.75), (20, 0.25)]
    assert track(Wanted(metric="test", across="epoch"), one).points == [(1, 0.75), (2, 0.25)]


@pytest.mark.parametrize(
    ("made", "wanted", "sentence"),
    [
        (record([], live=True), PLAIN, "no step yet"),
        (record([]), Wanted(zoom=1), "no step yet"),
        (record([1.0]), Wanted(metric="accuracy"), "never evaluated"),
        (record([1.0], live=True), Wanted(metric="test"), "not evaluated yet"),
        (record([1.0], test_samples=0), Wanted(metric="test"), "no test data"),
        (record([1.0], accuracies={1: math.nan}), Wanted(metric="accuracy"), "no finite value"),
        (record([1.0] * 50, accuracies={5: 0.5}), Wanted(metric="accuracy", zoom=1), "nothing in this range"),
    ],
)
def test_a_run_without_a_curve_says_why(made: RunRecord, wanted: Wanted, sentence: str) -> None:
    found = track(wanted, made)
    assert (list(found.points), found.sentence) == ([], sentence)


def test_a_run_whose_times_nobody_kept_says_so() -> None:
    made = record([1.0, 2.0])
    made.times = RunRecord(RunConfig()).times
    assert track(Wanted(across="time"), made).sentence == "no times of its steps"


def test_a_curve_is_read_at_its_nearest_point_and_evaluations_at_the_last_one() -> None:
    axis = number_axis(0, 10, 10)
    of_training, of_tests = Wanted(width=10), Wanted(width=10, metric="test")
    points = [(2.0, 5.0), (4.0, 6.0), (6.0, 7.0)]
    track = Track(1, points, evaluated=lambda x: next((value for place, value in reversed(points) if place <= x), None))
    read_at = (0.9, 1.2, 2.9, 3.1, 6.9, 7.1)
    assert [value_at(track, x, axis, of_training) for x in read_at] == [None, 5.0, 5.0, 6.0, 7.0, None]
    assert [value_at(track, x, axis, of_tests) for x in read_at] == [None, None, 5.0, 5.0, 7.0, 7.0]
    assert value_at(Track(1), 1.0, axis, of_training) is None


def test_of_many_evaluations_a_curve_has_a_point_for_each_column() -> None:
    made = record([1.0] * 3000, accuracies={step: 0.2 if step < 1500 else 0.6 for step in range(1, 3001)})
    wanted = Wanted(metric="accuracy", zoom=1, end=2400, width=60)
    [track], axis = (found := read(entrants(made), wanted)).tracks, found.axis
    assert 60 <= len(track.points) <= 62
    assert (track.points[0], track.points[-1]) == ((axis.low, 20.0), (axis.high, 60.0))
    assert [value_at(track, x, axis, wanted) for x in (0, 1400, 1600, 9999)] == [20.0, 20.0, 60.0, 60.0]


def test_evaluations_are_read_where_the_axis_holds_only_the_line_between_them() -> None:
    reading = read(entrants(record([1.0] * 100, accuracies={10: 0.2, 90: 0.6})), Wanted(metric="accuracy", zoom=2, end=75))
    (found,) = reading.tracks
    assert [x for x, _ in found.points] == [50, 75]
    assert value_at(found, 60.0, reading.axis, reading.wanted) == 20.0, "no evaluation said what the line passes"


def test_an_evaluation_is_read_in_the_whole_column_that_shows_it() -> None:
    reading = read(entrants(record([1.0] * 1000, accuracies={60: 0.2})), Wanted(metric="accuracy", width=100))
    assert [value_at(reading.tracks[0], x, reading.axis, reading.wanted) for x in (54.0, 56.0, 64.0)] == [None, 20.0, 20.0]


def test_a_point_of_a_long_run_knows_the_steps_that_it_is_the_mean_of() -> None:
    long, short = record([float(step) for step in range(1, 1001)]), record([1.0] * 3)
    reading = read(entrants(long, short), Wanted(weight=0.0, width=250))
    spans = reading.tracks[0].spans
    assert (spans[0][0], spans[-1][1]) == (1, 1000)
    assert all(before[1] + 1 == after[0] for before, after in itertools.pairwise(spans))
    assert all(value == (first + last) / 2 for (first, last), (_, value) in zip(spans, reading.tracks[0].points, strict=True))
    assert spans_at(reading, 0.0) == [(1, 3), (1, 1)]
    assert spans_at(reading, 501.0) == [(500, 503)]
    closer = read(entrants(long), Wanted(weight=0.0, width=250, zoom=4))
    assert spans_at(closer, 980.3) == [(980, 980)]
    assert spans_at(read(entrants(long), Wanted(metric="test")), 500.0) == []


def test_a_run_that_cannot_be_read_is_left_out_with_its_reason(tmp_path: Path) -> None:
    own = record([1.0], live=True)
    own.path = tmp_path / "own"
    found = load([tmp_path / "gone\x1b[31m", own.path], (), own)
    assert [(entrant.record, entrant.state, entrant.label) for entrant in found] == [(None, "", ""), (own, "running", "seed-cnn")]
    assert found[0].problem == "gone·[31m is not there any more."
    assert [one.number for one in read(found, PLAIN).tracks] == [2]


@pytest.mark.parametrize(("error", "said"), [(ValueError("x must ascend"), "x must ascend"), (MemoryError(), "MemoryError")])
def test_a_run_that_breaks_while_it_is_read_is_left_out(error: Exception, said: str) -> None:
    class Torn:
        def thin(self, lo: float, hi: float, columns: int) -> list[object]:
            raise error

    broken = record([1.0])
    broken.loss = Torn()  # type: ignore[assignment]
    reading = read(entrants(broken, record([1.0])), PLAIN)
    assert [entrant.problem for entrant in reading.entrants] == [f"1: {said}", ""]
    assert [one.number for one in reading.tracks] == [2]


def test_only_what_can_change_is_loaded_again(tmp_path: Path) -> None:
    ended = Entrant(1, tmp_path / "gone", record([1.0]))
    live = Entrant(2, tmp_path / "gone too", record([1.0], live=True))
    again = load([ended.path, live.path], [ended, live], None)
    assert again[0].record is ended.record
    assert again[1].problem


def test_one_run_that_diverged_does_not_flatten_the_others() -> None:
    good, bad = [(1.0, 2.3), (100.0, 0.4)], [(1.0, 2.3), (50.0, 1e31)]
    assert ceiling([good, good, bad]) == pytest.approx(11.5)
    # Of a curve that lies above all others at least the lowest part is seen.
    assert ceiling([good, good, [(1.0, 80.0), (2.0, 50.0)]]) == pytest.approx(60.0)
    assert ceiling([]) == ceiling([[(1.0, -3.0)]]) == math.inf


# -- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ([{"lr": 0.1}, {"lr": 0.01}, {"lr": 0.003}], ["lr 0.1", "lr 0.01", "lr 0.003"]),
        # What tells each of them apart by itself, and of that what decides more than how long.
        ([{"epochs": 1, "seed": 3, "lr": 0.1}, {"epochs": 2, "seed": 4, "lr": 0.1}], ["seed 3", "seed 4"]),
        ([{"epochs": 1}, {"epochs": 2}], ["epochs 1", "epochs 2"]),
        (
            [{"lr": 0.1, "seed": 1}, {"lr": 0.1, "seed": 2}, {"lr": 0.2, "seed": 1}],
            ["lr 0.1 seed 1", "lr 0.1 seed 2", "lr 0.2 seed 1"],
        ),
        ([{"target_accuracy": None}, {"target_accuracy": 0.5}], ["target accuracy none", "target accuracy 0.5"]),
        # By their ids, where no setting or only a long one does it.
        ([{"lr": 0.1, "note": "a"}, {"lr": 0.1, "note": "b"}, {"lr": 0.2}], ["r0", "r1", "r2"]),
        ([{"data": "/data/of/mine/one"}, {"data": "/data/of/mine/another"}], ["r0", "r1"]),
    ],
)
def test_runs_of_one_name_are_told_apart_by_what_was_set(changes: list[dict[str, Any]], ends: list[str]) -> None:
    records = [record([1.0], name="same", run=f"20261121-0413-seed-cnn-r{number}") for number in range(len(changes))]
    for one, change in zip(records, changes, strict=True):
        one.config = with_changes(one.config, change)
    assert labels([*records, record([1.0], name="other")]) == [*(f"same {end}" for end in ends), "other"]


def test_runs_of_one_name_are_told_apart_by_their_ids() -> None:
    first, second = (
        record([1.0], name="same", run="20261121-0413-seed-cnn-aaa"),
        record([1.0], name="same", run="20261121-0413-seed-cnn-bbb"),
    )
    twin = record([1.0], name="same", run="20261122-0413-seed-cnn-bbb")
    other = record([1.0], name="other")
    assert labels([first, other, second]) == ["same aaa", "other", "same bbb"]
    assert labels([first, second, twin]) == ["same aaa", "20261121-0413-seed-cnn-bbb", "20261122-0413-seed-cnn-bbb"]


def test_the_fields_that_differ() -> None:
    base = RunConfig(name="a", note="first")
    found = compare([base, msgspec.structs.replace(base, lr=0.5, shuffle=True, name="b", max_steps=5)])
    assert found.differing == (
        ("max_steps", ("none", "5")),
        ("lr", ("0.01", "0.5")),
        ("shuffle", ("false", "true")),
        ("name", ("a", "b")),
    )
    assert ("note", "first") in found.same
    assert ("batch_size", "64") in found.same
    assert not {field for field, _ in found.same} & {field for field, _ in found.differing}
    assert not found.equal


def test_names_alone_make_no_difference() -> None:
    found = compare([RunConfig(name="a"), RunConfig(note="why")])
    assert found.equal
    assert [field for field, _ in found.differing] == ["name", "note"]


# -- numbers on the curves --------------------------------------------------------------------------------------------


X, Y = Axis(0, 99, ()), Axis(0, 9, ())


def test_each_curve_has_its_number_at_its_end_and_before() -> None:
    found = call_out([Course(1, [(0, 9), (99, 0)]), Course(2, [(0, 0), (49, 9)])], X, Y, 100, 10, every=40)
    assert {(one.number, one.column, one.row) for one in found} >= {(1, 99, 9), (2, 49, 0)}
    assert {one.number for one in found if one.column < 40} == {1, 2}
    on_the_curve = {1: lambda column: column / 11, 2: lambda column: 9 - 9 * column / 49}
    assert all(abs(one.row - on_the_curve[one.number](one.column)) < 1 for one in found)
    later = call_out([Course(1, [(50, 9), (99, 0)])], X, Y, 100, 10, every=20)
    assert len(later) == 3
    assert all(abs(one.row - (one.column - 50) * 9 / 49) < 1 for one in later)


def test_numbers_of_equal_curves_stand_side_by_side() -> None:
    courses = [Course(number, [(0, 5), (99, 5)]) for number in range(1, 9)]
    found = call_out(courses, X, Y, 100, 10, every=50)
    assert {one.number for one in found} == set(range(1, 9))
    cells = [(one.column, one.row) for one in found]
    assert len(cells) == len(set(cells))
    assert min(b[0] - a[0] for a, b in itertools.pairwise(sorted(cells))) >= 2


def test_a_curve_shorter_than_its_number_has_it_beside() -> None:
    found = call_out([Course(1, [(0, 5)]), Course(2, [(0, 5)]), Course(3, [])], X, Y, 100, 10, every=50)
    assert [(one.number, one.column) for one in found] == [(1, 0), (2, 1)]


# -- colours ----------------------------------------------------------------------------------------------------------

# What protanopes, deuteranopes and tritanopes see, in linear light (Machado, Oliveira and Fernandes 2009).
EYES = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def lab(colour: str, eye: str) -> tuple[float, float, float]:
    r, g, b = (min(max(sum(a * b for a, b in zip(row, linear(colour), strict=True)), 0), 1) for row in EYES[eye])
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
    )
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=["dark", "light"])
def test_eight_colours_are_told_apart_by_every_eye(theme: object, eye: str) -> None:
    chosen = DARK if theme is DARK else LIGHT
    colours = [style.color.name for style in palette_of(chosen).series if style.color is not None]
    assert len(colours) == 8
    background = lab(chosen.background or "", eye)
    assert min(math.dist(lab(a, eye), lab(b, eye)) for a, b in itertools.combinations(colours, 2)) > 17
    assert min(math.dist(lab(colour, eye), background) for colour in colours) > 30
