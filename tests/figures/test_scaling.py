"""The arithmetic of how costs grow, on made-up numbers."""

from benchmarks.frames import Note, spent
from benchmarks.scaling import SAME, grown


def test_what_is_spent_lies_between_the_two_notes_of_a_key() -> None:
    notes = [Note(1.0, 2.0), Note(1.25, 2.5), Note(9.0, 9.0), Note(9.0, 11.0)]
    assert spent(notes) == [250.0, 0.0]
    assert spent(notes, process=True) == [500.0, 2000.0]


def test_what_must_not_grow_is_refused_when_it_does() -> None:
    ends = ("10 runs", "2,000")
    line = grown("a key", [2.0, 2.0, 2.0], [2.2, 2.1, 9.0], unit="ms", most=SAME, ends=ends)
    assert (line.ratio, line.holds, line.target) == (1.1, True, "≤ 1.25")
    assert (line.ours, line.peer) == ("2.2 ms with 2,000", "2 ms with 10 runs")
    assert not grown("a key", [2.0, 2.0, 2.0], [2.6, 2.6, 1.0], unit="ms", most=SAME, ends=ends).holds


def test_what_grows_with_the_number_of_things_may_cost_as_many_times_as_much() -> None:
    ends = ("1 card", "16")
    assert grown("cards", [1.0], [15.9], unit="ms", most=16, ends=ends).holds
    assert not grown("cards", [1.0], [16.1], unit="ms", most=16, ends=ends).holds
