from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cached_cell_len, cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tuitrain import words
from tuitrain.tui.strips import Row, bar, cell_width, cells, differing_runs, fit, rail, spark, spread
from tuitrain.tui.wrap import wrap, wrap_into

RED = Style(color="red")


def strip(text: str) -> Strip:
    return Strip([Segment(text, RED)])


def changed(before: Strip, after: Strip) -> list[tuple[int, int]]:
    return differing_runs(cells(before), cells(after))


def test_a_row_is_exactly_as_wide_as_asked() -> None:
    for text in ("abc", "深層学習モデル", "a" * 50, "e\u0301te\u0301", ""):
        for width in (0, 1, 2, 5, 9, 30):
            assert Row(text).strip(width).cell_length == width, (text, width)
            assert spread(Row(text), Row("end"), width).cell_length == width


def test_a_cut_row_ends_in_an_ellipsis_and_keeps_no_half_of_a_wide_character() -> None:
    shown = Row("深層学習").strip(6).text
    assert shown == "深層 …"
    assert fit("深層学習", 4) == "深 …"


def test_numbers_that_come_once_are_not_kept_in_memory_for_their_width() -> None:
    kept = cached_cell_len.cache_info().currsize
    for number in range(1_000):
        Row(f"step {number}").right(f"{number} ▕█▏", 12).left(f"⠒{number} samples/s…", 20).strip(60)
        wrap(f"22:13:{number} epoch {number}: loss 0.{number}", 20)
    assert cached_cell_len.cache_info().currsize - kept < 100


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf"]), max_size=20))
def test_a_width_is_that_of_rich(text: str) -> None:
    assert cell_width(text) == cell_len(text)


def test_cells_count_wide_characters_twice_and_keep_accents_with_their_letter() -> None:
    assert [char for char, _ in cells(strip("a深b"))] == ["a", "深", "", "b"]
    assert [char for char, _ in cells(strip("e\u0301x"))] == ["e\u0301", "x"]


def test_equal_lines_have_no_changed_runs() -> None:
    assert changed(strip("step 1,234"), strip("step 1,234")) == []


def test_only_the_changed_digits_are_a_run() -> None:
    assert changed(strip("step 1,234"), strip("step 1,239")) == [(9, 10)]


def test_a_change_of_style_is_a_change() -> None:
    assert changed(strip("ab"), Strip([Segment("a", RED), Segment("b", Style(color="blue"))])) == [(1, 2)]


def test_far_runs_stay_apart_and_near_ones_merge() -> None:
    before = "a" * 60
    assert changed(strip(before), strip("b" + before[1:58] + "bb")) == [(0, 1), (58, 60)]
    assert changed(strip(before), strip("bab" + before[3:])) == [(0, 3)]


def test_a_run_never_cuts_a_wide_character() -> None:
    assert changed(strip("a深b"), strip("axyb")) == [(1, 3)]
    assert changed(strip("axyb"), strip("ax深")) == [(2, 4)]
    assert changed(strip("深深"), strip("深x.")) == [(2, 4)]


def test_replaying_the_runs_gives_the_new_line() -> None:
    dice = random.Random(1)
    alphabet = "ab 深é·"
    for _ in range(300):
        old, new = (Row("".join(dice.choice(alphabet) for _ in range(12))).strip(16) for _ in range(2))
        shown = cells(old)
        for start, end in changed(old, new):
            shown[start:end] = cells(new.crop(start, end))
        assert shown == cells(new)


def test_meters_fill_in_eighths_and_rails_in_halves() -> None:
    assert bar(0.5, 4, RED, RED).strip(4).text == "██  "
    assert bar(0.53125, 4, RED, RED).strip(4).text == "██▏ "
    assert bar(None, 4, RED, RED).strip(4).text == "    "
    assert bar(7.0, 4, RED, RED).strip(4).text == "████"
    assert rail(0.5, 5, RED, RED).strip(5).text == "━━╸──"


def test_sparks_show_the_newest_values_and_leave_unknown_ones_blank() -> None:
    assert spark([0.0, None, 50.0, 100.0], 5, 100.0) == " ▁ ▅█"
    assert spark([0.0, 100.0, 100.0], 2, 100.0) == "██"


def test_sentences_wrap_by_cells() -> None:
    assert wrap("one two three", 8) == ["one two", "three"]
    assert wrap("深層学習深層学習", 6) == ["深層学", "習深層", "学習"]
    assert wrap("", 10) == [""]


def test_a_line_keeps_the_spaces_that_it_begins_with() -> None:
    assert wrap("    return inner()", 30) == ["    return inner()"]
    assert wrap("    return inner()", 14) == ["    return", "inner()"]
    assert wrap("           ^^^^^", 30) == ["           ^^^^^"]
    assert wrap(f"{' ' * 40}深層学習", 10) == ["     深層", "学習"]


def test_a_sentence_that_is_cut_off_says_so() -> None:
    assert wrap_into("one two three", 8, 2) == ["one two", "three"]
    assert wrap_into("one two three four", 8, 2) == ["one two", "three f…"]
    assert wrap_into("深層学習深層学習", 6, 2) == ["深層学", "習深 …"]
    assert wrap_into("abcdefghij", 4, 1) == ["abc…"]


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (words.gib(None), "n/a"),
        (words.gib(7 * 2**30), "7.0"),
        (words.gib(80 * 2**30), "80"),
        (words.rate(99.96), "100"),
        (words.rate(999.6), "1,000"),
        (words.rate(41234.0), "41,200"),
        (words.rate(9.44), "9.4"),
        (words.rate(None), "n/a"),
        (words.number(1.23456), "1.235"),
        (words.number(float("nan")), "NaN"),
        (words.number(math.inf), "Inf"),
        (words.number(-math.inf), "-Inf"),
        (words.number(0.0), "0.000"),
        (words.number(12.3456), "12.35"),
        (words.number(-0.0123), "-0.0123"),
        (words.number(99_999.4), "99999"),
        (words.number(987_654.0), "9.9e5"),
        (words.number(9.87e-4), "9.9e-4"),
        (words.number(9.97e-10), "1.0e-9"),
        (words.number(9.97e-12), "1e-11"),
        (words.number(9999.94), "9999.9"),
        (words.number(1e-3), "0.0010"),
        (words.clock(3661), "01:01:01"),
        (words.clock(-1), "00:00:00"),
        (words.target(0.945), "94.5 %"),
        (words.trained(1.987), "1.99 s"),
        (words.trained(99.996), "100.0 s"),
        (words.trained(1815.32), "1,815.3 s"),
        (words.size(0), "0.0 MiB"),
        (words.size(1), "1 KiB"),
        (words.size(52_000), "51 KiB"),
        (words.size(53_000), "0.1 MiB"),
        (words.along(42.34, 1.5), "0:42"),
        (words.along(42.34, 0.4), "0:42.3"),
        (words.along(59.97, 0.1), "1:00.0"),
        (words.along(0, 1e-6), "0:00.000"),
        (words.along(11_100.2, 0.1), "3 h 05"),
        (words.remaining(42), "0:42"),
        (words.remaining(12 * 60 + 4.5), "12:05"),
        (words.remaining(3 * 3600 + 5 * 60), "3 h 05"),
        (words.remaining(None), "-:--"),
        (words.remaining(math.inf), "-:--"),
        (words.remaining(90000), "1 d 01"),
        (words.remaining(12 * 86400 + 14 * 3600), "12 d 14"),
        (words.remaining(136 * 86400 + 14 * 3600), "136 d"),
        (words.milliseconds(0.0031), "3.1 ms"),
        (words.milliseconds(0.00996), "10 ms"),
        (words.milliseconds(0.9996), "1.00 s"),
        (words.milliseconds(1.2), "1.20 s"),
        (words.milliseconds(math.nan), "n/a"),
        (words.shape((64, 10)), "[64, 10]"),
        (words.shape(None), "idle"),
        (words.percent(None), "n/a"),
        (words.celsius(61), "61 °C"),
        (words.watts(411.6), "412 W"),
        (words.size(3 * 2**29), "1.5 GiB"),
        (words.size(412 * 2**20), "412 MiB"),
        (words.size(999.7 * 2**20), "1.0 GiB"),
        (words.size(9.96 * 2**20), "10 MiB"),
        (words.size(3 * 2**19), "1.5 MiB"),
        (words.filled(None, 80 * 2**30), "n/a/80 GiB"),
        (words.filled(20 * 2**30, 80 * 2**30), "20.0/80 GiB"),
        (words.filled(100 * 2**30, 192 * 2**30), "100/192 GiB"),
    ],
)
def test_numbers_for_people(made: str, shown: str) -> None:
    assert made == shown


@given(st.floats(-1e308, 1e308))
def test_a_loss_of_any_size_fits_its_cells(value: float) -> None:
    shown = words.number(value)
    assert len(shown.removeprefix("-")) <= 6
    assert math.isclose(float(shown), value, rel_tol=0.34)
