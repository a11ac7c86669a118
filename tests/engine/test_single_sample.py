"""A person's model that cannot do with a batch of one sample is refused where a run would come to one, and not at its end of an epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_small import FakeControl, of, run, small_config

from tuitrain.config import ConfigError
from tuitrain.events import RunEnded


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (
            "make_normalized",
            {"batch_size": 7},
            r"50 train samples in batches of 7 leave a batch with a single one.*cannot be trained with it",
        ),
        (
            "make_normalized",
            {"batch_size": 8, "device": "cpu,cpu"},
            r"batches of 8 leave a replica with a single one.*more than 1 value per",
        ),
        ("make_normalized", {"batch_size": 1}, r"change batch_size"),
        ("make_squeezed", {"batch_size": 7}, r"50 train samples in batches of 7"),
        (
            "make_squeezed",
            {"batch_size": 21},
            r"22 test samples in batches of 21 leave a batch with a single one.*cannot be evaluated with it",
        ),
    ],
)
def test_a_single_sample_that_the_model_cannot_do_with_is_refused(tmp_path: Path, model: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=f"^batch_size: .*{words}"):
        run(small_config(model=f"engine_small:{model}", **changes), FakeControl(tmp_path))


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("make_normalized", {"batch_size": 8}),
        ("make_normalized", {"batch_size": 7, "max_steps": 7}),
        ("make_normalized", {"batch_size": 21}),  # one test sample is no mean over a batch
        ("make_net", {"batch_size": 7}),
    ],
)
def test_what_never_meets_one_or_takes_it_trains(tmp_path: Path, model: str, changes: dict[str, Any]) -> None:
    events = run(small_config(model=f"engine_small:{model}", **changes), FakeControl(tmp_path))
    assert of(RunEnded, events)[-1].state == "finished"


def test_a_model_that_fails_with_any_batch_is_not_told_to_change_its_size(tmp_path: Path) -> None:
    events = run(small_config(model="engine_small:make_failing_in_training", batch_size=7), FakeControl(tmp_path))
    assert "AssertionError while training: not written yet" in str(of(RunEnded, events)[-1].error)
