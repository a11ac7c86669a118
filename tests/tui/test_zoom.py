from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuitrain.tui.curve.axes import span_axis, step_axis
from tuitrain.tui.curve.pieces import Piece, kept, spaced
from tuitrain.tui.curve.readout import FIELDS, plan
from tuitrain.tui.curve.viewport import Viewport
from tuitrain.tui.curve.zoom import LEAST, Span, followed, holding, moved, zoomed
from tuitrain.tui.strips import Row

newest_steps = st.integers(1, 2_000_000)


@given(newest_steps, st.lists(st.tuples(st.sampled_from("zhmf"), st.integers(-3_000_000, 3_000_000)), max_size=30))
def test_a_span_always_lies_on_steps_that_there_are(newest: int, keys: list[tuple[str, int]]) -> None:
    span: Span | None = None
    for key, number in keys:
        before = span
        if key == "z":
            span = zoomed(span, newest, min(max(number, 1), newest) if number else None)
            assert span == before or (span is not None and LEAST <= span.width < (newest if before is None else before.width))
        elif span is not None and key == "h":
            step = min(max(number, 1), newest)
            span = holding(span, step, newest)
            assert span.low <= step <= span.high
        elif span is not None and key == "m":
            span = moved(span, number, newest)
            assert span.follows == (span.high >= newest)
        if span is not None:
            assert 0 <= span.low < span.high <= max(newest, span.width)


def test_zooming_is_around_a_step_or_at_the_newest_end() -> None:
    assert zoomed(None, 800, None) == Span(400, 800, follows=True)
    assert zoomed(None, 800, 300) == Span(100, 500)
    assert zoomed(Span(100, 500), 800, None) == Span(300, 500)
    assert zoomed(Span(400, 800, follows=True), 804, None) == Span(602, 804, follows=True), "the run has gone on since"
    assert zoomed(None, 800, 10) == Span(0, 400)
    assert zoomed(None, 12, None) == Span(4, 12, follows=True)
    assert zoomed(None, 8, None) is None


def test_what_is_read_comes_into_sight_with_a_quarter_of_room() -> None:
    span = Span(400, 800)
    assert holding(span, 400, 2000) is holding(span, 800, 2000) is span
    assert (holding(span, 399, 2000), holding(span, 801, 2000)) == (Span(300, 700), Span(500, 900))
    assert (holding(span, 100, 2000), holding(span, 1500, 2000)) == (Span(100, 500), Span(1100, 1500))


def test_a_span_that_follows_leaves_room_for_what_comes() -> None:
    span = Span(400, 800, follows=True)
    assert followed(span, 800) is span
    assert followed(span, 801) == Span(501, 901, follows=True)
    assert followed(Span(400, 800), 9000) == Span(400, 800)


def test_a_span_that_follows_goes_back_with_the_run() -> None:
    span = Span(400, 800, follows=True)
    assert followed(span, 400) is span, "a step is still in it"
    assert followed(span, 399) == Span(0, 400, follows=True)
    assert followed(Span(700, 800, follows=True), 500) == Span(400, 500, follows=True)
    assert followed(Span(400, 800), 100) == Span(400, 800)


@given(newest_steps, st.lists(st.tuples(st.sampled_from("zprmf"), st.integers(-9, 9)), max_size=30))
def test_the_cursor_is_always_on_a_step_in_sight(newest: int, keys: list[tuple[str, int]]) -> None:
    seen = Viewport()
    for key, by in keys:
        span = seen.span
        steps = step_axis(newest, newest, 80) if span is None else span_axis(span.low, span.high, 80)
        if key == "f":
            newest += abs(by)
            before, seen = seen, seen.following(newest)
            assert seen.cursor == before.cursor
        else:
            seen = {
                "z": seen.zoomed(newest),
                "p": seen.panned(by, newest),
                "r": seen.reading(by * newest // 9, newest),
                "m": seen.moved(by, newest, steps, 60),
            }[key]
        if seen.cursor is not None:
            assert 1 <= seen.cursor <= newest
            assert seen.span is None or seen.span.low <= seen.cursor <= seen.span.high


def test_the_cursor_goes_by_columns_and_by_steps_where_these_are_wider() -> None:
    seen = Viewport(Span(400, 600)).moved(-1, 800, None, 0)
    assert seen.cursor == 600, "first the newest step that is shown"
    assert seen.moved(-1, 800, span_axis(400, 600, 60), 51).cursor == 596
    assert Viewport(None, 5).moved(1, 8, step_axis(8, 8, 60), 51).cursor == 6


def test_a_view_that_follows_stays_while_it_would_leave_the_cursor_behind() -> None:
    span = Span(400, 800, follows=True)
    assert Viewport(span, 800).following(801) == Viewport(Span(501, 901, follows=True), 800)
    assert Viewport(span, 500).following(801) == Viewport(span, 500)
    assert Viewport(span, 700).following(100) == Viewport(Span(0, 400, follows=True), 100)
    assert Viewport(None, 700).following(0).cursor is None


def test_the_most_important_pieces_that_fit_are_kept_in_their_order() -> None:
    pieces = [Piece(Row(text), rank) for text, rank in (("title", 0), ("legend", 3), ("train", 1), ("z", 9))]
    assert spaced(kept(pieces, 99, 2)).strip(24).text == "title  legend  train  z "
    assert [piece.rank for piece in kept(pieces, 15, 2)] == [0, 1, 9], "a small unimportant one may stay where a large one had to go"
    assert [piece.rank for piece in kept(pieces, 3, 2)] == [0]


def test_a_chart_keeps_its_rows_and_every_device_comes_before_any_track() -> None:
    known = [list(FIELDS)] * 3
    for height in range(4, 60):
        wanted = plan(height, known)
        assert wanted.devices == min(3, max(height - 9, 0))
        if height >= 9:
            assert height - wanted.rows >= 8
        if wanted.tracks:
            assert wanted.devices == 3
            assert height - wanted.rows >= 12
        assert [device for device, _ in wanted.tracks] == sorted(device for device, _ in wanted.tracks)
    assert plan(60, known).rows == 1 + 3 * 4
    assert plan(60, []).rows == 1
    assert [field for _, field in plan(19, known).tracks] == ["utilization"] * 3
    assert plan(60, [["utilization", "power"], [], ["memory"]]).tracks == ((0, "utilization"), (0, "power"), (2, "memory"))
