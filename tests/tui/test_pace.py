"""How often a watched run is shown, by how many bytes that sends."""

from __future__ import annotations

from itertools import count

import pytest

from tuitrain.tui.browse.pace import Pace


def shown(costs: list[int]) -> list[int]:
    """The beats in which something is shown, where the first time takes `costs[0]` bytes, the second one `costs[1]` and so on."""
    sent, beats = 0, []
    pace = Pace(lambda: sent, least=2, most=6, rate=100)
    left = iter([*costs, 0])
    for beat in count(1):
        if pace.due(beat):
            cost = next(left, None)
            if cost is None:
                return beats
            sent += cost
            beats.append(beat)
    raise AssertionError


@pytest.mark.parametrize(
    ("costs", "beats"),
    [
        ([150, 150, 150], [2, 4, 6, 8]),
        ([300, 300, 300, 300], [2, 4, 6, 9, 12]),
        ([0, 0, 0, 400, 0], [2, 4, 6, 8, 10, 12]),
        ([0, 0, 0, 550, 0], [2, 4, 6, 8, 12, 14]),
        ([10_000, 0, 0, 0], [2, 8, 10, 12, 14]),
        ([10_000, 10_000, 100], [2, 8, 14, 16]),
    ],
    ids=["few", "many each time", "few save for many", "but not for too many", "never for long", "whatever it took"],
)
def test_the_more_bytes_it_takes_the_later_the_next_time_is(costs: list[int], beats: list[int]) -> None:
    assert shown(costs) == beats


def test_what_a_key_has_sent_delays_nothing() -> None:
    sent = 0
    pace = Pace(lambda: sent, least=3, most=6, rate=100)
    assert [beat for beat in range(1, 4) if pace.due(beat)] == [3]
    sent += 50
    assert not pace.due(4)
    sent += 10_000
    assert [beat for beat in range(5, 10) if pace.due(beat)] == [6, 9]
