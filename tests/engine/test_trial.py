"""A trial: timed steps of the real loop, and the search for the largest batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tuitrain.config import RunConfig, with_changes
from tuitrain.engine.trial import largest_batch, measure
from tuitrain.wire import Trial

RANDOM = RunConfig(recipe="random-linear", model="linear", data="random", batch_size=30, device="cpu")


def ask(config: RunConfig, folder: Path, *, steps: int, seconds: float = 60.0) -> Trial:
    return Trial(config=config, folder=str(folder), steps=steps, warmup=2, seconds=seconds)


def changed(config: RunConfig, **changes: object) -> RunConfig:
    return with_changes(config, changes)


def test_steps_are_timed_past_the_ends_of_epochs(tmp_path: Path) -> None:
    answer = measure(ask(RANDOM, tmp_path, steps=9))
    assert answer.error is None
    # An epoch is 30, 30, 30 and 10 samples: the small batches count as steps, and not for the median of whole ones.
    assert (answer.steps, answer.batch, answer.data, answer.devices) == (9, 30, "random", ("cpu",))
    assert answer.step_seconds is not None
    assert answer.seconds is not None
    assert 0 < answer.step_seconds < answer.seconds
    assert (answer.memory, answer.largest) == ((None,), None)


def test_a_trial_stops_early_where_steps_are_slow(tmp_path: Path) -> None:
    answer = measure(ask(RANDOM, tmp_path, steps=10**6, seconds=0.0))
    assert answer.error is None
    assert answer.steps == 1
    assert answer.step_seconds is not None


def test_replicas_have_a_place_each(tmp_path: Path) -> None:
    answer = measure(ask(changed(RANDOM, device="cpu,cpu", strategy="split"), tmp_path, steps=3))
    assert (answer.devices, answer.memory, answer.steps) == (("cpu", "cpu"), (None, None), 3)


def test_asked_for_devices_only_it_trains_nothing(tmp_path: Path) -> None:
    answer = measure(ask(changed(RANDOM, device="cpu,cpu"), tmp_path, steps=0))
    assert (answer.devices, answer.steps, answer.step_seconds) == (("cpu", "cpu"), 0, None)


def test_what_the_configuration_forbids_is_its_sentence(tmp_path: Path) -> None:
    answer = measure(ask(changed(RANDOM, device="cpu,cpu", even_split=True, batch_size=33), tmp_path, steps=3))
    assert answer.refused
    assert answer.error is not None
    assert answer.error.startswith("even_split: batch_size is 33")


@pytest.mark.filterwarnings("ignore")
def test_training_that_fails_is_a_sentence_too(tmp_path: Path) -> None:
    answer = measure(ask(changed(RANDOM, lr=1e38), tmp_path, steps=50))
    assert not answer.refused
    assert answer.error is not None
    assert "no finite number" in answer.error


# -- the largest batch ---------------------------------------------------------------------------------------------------


@given(first=some.integers(1, 64), room=some.integers(0, 5000), most=some.integers(64, 6000))
def test_the_largest_batch_fits_and_is_near_the_limit(first: int, room: int, most: int) -> None:
    limit, tried = first + room, list[int]()

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= limit

    found, by = largest_batch(first, most, fits, lambda: False)
    assert first <= found <= min(limit, max(most, first))
    assert all(size <= most for size in tried)
    assert len(tried) <= 16
    if by == "data":
        assert found == most
    else:
        assert by == "memory"
        assert found >= limit * 0.8 - 2


def test_the_search_ends_when_it_is_late() -> None:
    assert largest_batch(64, 10**6, lambda _: True, lambda: True) == (64, "time")


# -- the process ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """For temporary files; the path of a socket in it may not be long."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        yield Path(folder)


def test_a_whole_bench_of_five_steps(tmp_path: Path, short_folder: Path) -> None:
    home = {"TUITRAIN_RUNS": str(tmp_path / "runs"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    env = {**os.environ, **home, "TMPDIR": str(short_folder)}
    done = subprocess.run(
        [sys.executable, "-m", "tuitrain", "bench", "--steps", "5", "--device", "cpu,cpu", "--json"],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["recipe"], told["data"], told["steps"], told["batch_size"]) == ("seed-cnn", "synthetic", 5, 64)
    alone, (one, split, ddp) = told["comparison"][0], told["strategies"]
    assert alone["device"] == ["cpu"]
    assert (one["strategy"], one["efficiency"], one["samples_per_second"]) == ("single", 1.0, alone["samples_per_second"])
    assert (split["strategy"], split["device"], split["steps"], split["memory"]) == ("split", ["cpu", "cpu"], 5, [None, None])
    assert split["efficiency"] == pytest.approx(split["samples_per_second"] / 2 / one["samples_per_second"])
    assert (ddp["strategy"], ddp["error"], ddp["steps"], ddp["memory"]) == ("ddp", None, 5, [None, None])
    assert not (tmp_path / "runs").exists()
    assert os.listdir(short_folder) == []
