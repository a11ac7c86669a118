"""How many threads of torch's compute: no more than a container's quota of processors lets run at once."""

from __future__ import annotations

import pytest
import torch
from engine_small import small_config

from tuitrain.allowance import Allowance
from tuitrain.engine.ranks.launcher import threads_for
from tuitrain.engine.seeding import run_settings

CPU = (torch.device("cpu"),)


@pytest.fixture(autouse=True)
def _a_quota_of_one_and_a_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Allowance, "quota", 1.5)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("two_threads")
def test_a_run_keeps_to_the_quota_and_the_next_one_is_not_bound_by_it() -> None:
    with run_settings(small_config(), CPU):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_who_has_chosen_a_number_of_threads_has_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "2")
    with run_settings(small_config(), CPU):
        assert torch.get_num_threads() == 2


def test_ranks_share_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(64)))
    monkeypatch.setattr(Allowance, "quota", 9.0)
    assert [threads_for(ranks) for ranks in (1, 2, 8, 16)] == [9, 4, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "12")
    assert threads_for(2) == 6
