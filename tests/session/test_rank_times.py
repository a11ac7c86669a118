"""Where the time of a group's steps goes, as all its ranks tell it through rank 0."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_groups import events_of, small_run

from tuitrain.events import Phases, RunEnded, StepTimes


def test_every_rank_tells_its_phases(tmp_path: Path) -> None:
    # 100 samples in batches of 30: four steps an epoch.
    events = events_of(small_run(2, epochs=50), tmp_path)
    assert [event.state for event in events if isinstance(event, RunEnded)] == ["finished"]
    times = [event for event in events if isinstance(event, StepTimes)]
    assert {(event.strategy, event.devices) for event in times} == {("ddp", ("cpu", "cpu"))}
    # The first step of all is not measured; 20 of an epoch's 100 samples are in its last batch.
    assert sum(event.steps for event in times) == 4 * 50 - 1
    assert sum(event.samples for event in times) == 100 * 50 - 30
    ranks = [sum((event.replicas[rank] for event in times), Phases()) for rank in range(2)]
    for rank in ranks:
        assert min(rank.data, rank.forward, rank.backward, rank.communication, rank.update, rank.other) > 0
    whole = sum((event.phases for event in times), Phases())
    assert whole.seconds == pytest.approx((ranks[0].seconds + ranks[1].seconds) / 2)
