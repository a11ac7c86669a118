"""How many threads decode images."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tuitrain.engine.datasets import decode
from tuitrain.engine.datasets.decode import Threads


def counts(monkeypatch: pytest.MonkeyPatch, rate: Callable[[int], float], most: int, seconds: float) -> list[int]:
    """How many threads there are after each tenth of a second, where so many decode `rate` images a second."""
    now = [0.0]
    monkeypatch.setattr(decode, "time", SimpleNamespace(monotonic=lambda: now[0]))
    threads, found = Threads(most), list[int]()
    for tenth in range(1, round(10 * seconds) + 1):
        now[0] = tenth / 10
        threads.add(round(rate(threads.count) / 10))
        found.append(threads.count)
    return found


def test_of_small_images_one_thread_is_left_to_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = counts(monkeypatch, {1: 9000.0, 2: 6000.0}.__getitem__, 2, 30)
    assert found[:3] == [1, 1, 2]
    assert found.count(1) > 0.9 * len(found)


def test_of_photographs_all_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    found = counts(monkeypatch, lambda count: 400.0 * count, 16, 30)
    assert found[:15] == [1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8, 16, 16, 16, 16]
    assert found.count(16) > 0.8 * len(found)


def test_more_than_help_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = counts(monkeypatch, lambda count: 1000.0 * min(count, 4), 16, 30)
    assert max(found) == 8
    assert found.count(4) > 0.8 * len(found)


def test_what_becomes_faster_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the rest of the files comes from memory and not from the disk."""
    done = [0]

    def rate(count: int) -> float:
        done[0] += 1
        return 1000.0 * count if done[0] < 50 else 9000.0 / count

    found = counts(monkeypatch, rate, 4, 60)
    assert found[40] == 4
    assert found[300:].count(1) > 0.8 * len(found[300:])


def test_a_single_processor_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(counts(monkeypatch, lambda count: 1000.0, 1, 20)) == {1}
