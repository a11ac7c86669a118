"""How a rank ended, in words."""

from __future__ import annotations

import pytest

from tuitrain.session import deaths
from tuitrain.session.deaths import Deaths
from tuitrain.wire import LOST_PEER


@pytest.mark.parametrize(
    ("exitcode", "kills", "words"),
    [
        (3, (7, 8), "exit code 3"),
        (LOST_PEER, (7, 8), "it lost its connection to the others"),
        (-9, (7, 7), "SIGKILL"),
        (-9, (7, 8), "SIGKILL, perhaps for want of memory"),
        (-9, (None, None), "SIGKILL"),
        (-11, (7, 8), "SIGSEGV"),
    ],
)
def test_a_rank_that_may_have_been_ended_for_want_of_memory_is_said_to(
    monkeypatch: pytest.MonkeyPatch, exitcode: int, kills: tuple[int | None, int | None], words: str
) -> None:
    counts = iter(kills)
    monkeypatch.setattr(deaths, "memory_kills", lambda: next(counts))
    assert Deaths().how(exitcode) == words


def test_a_later_death_is_not_blamed_on_memory_that_ran_out_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter((7, 8, 8))
    monkeypatch.setattr(deaths, "memory_kills", lambda: next(counts))
    group = Deaths()
    assert [group.how(-9) for _ in range(2)] == ["SIGKILL, perhaps for want of memory", "SIGKILL"]
