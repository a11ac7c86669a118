"""What a checkpoint costs, from the moments of a run's steps."""

from __future__ import annotations

from itertools import accumulate

import pytest

from benchmarks.saving import EVERY, extra


def test_only_the_steps_after_checkpoints_count() -> None:
    spans = [0.010] * (10 * EVERY)
    for step in range(EVERY, len(spans), EVERY):
        spans[step] += 0.005
    spans[0] = spans[1] = 0.5  # kernels are chosen
    assert extra(list(accumulate(spans))) == pytest.approx(0.005)
