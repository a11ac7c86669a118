"""OpenMP's threads spin on a quiet machine and sleep on a crowded one: what libgomp really does, and what makes it do so."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch

from tuitrain import scheduling
from tuitrain.engine import spinning
from tuitrain.scheduling import SPIN_CHOICES, waited, waits_are_told

pytestmark = pytest.mark.skipif(not waits_are_told(), reason="this system does not tell how long threads wait")

# Operations with a pause after each, in which an idle thread spins or sleeps; prints the processors' time with and without idle teams.
PAUSES = """
import time
import torch
from tuitrain.engine.spinning import idle_teams

torch.set_num_threads(2)
numbers = torch.zeros(1 << 17)

def seconds() -> float:
    numbers.add_(1.0)
    begin = time.process_time()
    for _ in range(50):
        numbers.add_(1.0)
        time.sleep(0.004)
    return time.process_time() - begin

spinning = seconds()
with idle_teams():
    sleeping = seconds()
print(spinning, sleeping, seconds())
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) > 8, reason="two threads of more than eight processors are no crowd")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor has one thread")
def test_openmp_sleeps_while_there_are_idle_teams_and_spins_again_afterwards() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in SPIN_CHOICES}
    # So long that no pause ends it, however busy the machine is.
    environment |= {"GOMP_SPINCOUNT": "100000000"}
    done = subprocess.run([sys.executable, "-c", PAUSES], env=environment, check=True, capture_output=True, text=True)
    before, within, after = map(float, done.stdout.split())
    assert within < 0.5 * min(before, after)


@contextmanager
def said(
    monkeypatch: pytest.MonkeyPatch, waits: Callable[[], dict[int, float]], teams: Callable[[], AbstractContextManager[None]]
) -> Iterator[None]:
    """Threads wait as `waits` says, which is looked at each millisecond; `teams` are those that idle."""
    for name in SPIN_CHOICES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(spinning, "CHECK_SECONDS", 0.001)
    monkeypatch.setattr(spinning, "idle_teams", teams)
    monkeypatch.setattr(spinning, "waited", waits)
    with spinning.sleeping_where_crowded():
        yield


def test_threads_that_wait_for_a_processor_make_idle_ones_sleep_until_they_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two looks at a quiet machine, three at one where a thread waits, and a quiet one again.
    looks = [{1: 5.0}, {1: 5.0}, {1: 5.0}, {1: 5.0, 2: 9.0}, {1: 99.0, 2: 9.0}, {1: 990.0}, {1: 990.0}]
    over = threading.Event()

    def waits() -> dict[int, float]:
        look = looks.pop(0) if len(looks) > 1 else looks[0]
        if len(looks) == 1:
            rests.append(1)
        if len(rests) > 2:
            over.set()
        return look

    @contextmanager
    def teams() -> Iterator[None]:
        done.append("idle")
        yield
        done.append("free")

    rests: list[int] = []
    done: list[str] = []
    with said(monkeypatch, waits, teams):
        assert over.wait(60)
    assert done == ["idle", "free"]
    assert "tuitrain-spin" not in {thread.name for thread in threading.enumerate()}


def test_a_run_that_ends_while_it_is_crowded_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    crowded = threading.Event()
    seconds = 0.0

    def waits() -> dict[int, float]:
        nonlocal seconds
        seconds += 100.0
        return {1: seconds}

    @contextmanager
    def teams() -> Iterator[None]:
        with real():
            held.extend(thread.name for thread in threading.enumerate())
            crowded.set()
            yield

    held: list[str] = []
    real = spinning.idle_teams
    with said(monkeypatch, waits, teams):
        assert crowded.wait(60)
    assert ("tuitrain-idle" in held) == (spinning._missing_teams() > 0)
    assert not {"tuitrain-spin", "tuitrain-idle"} & {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("chosen", SPIN_CHOICES)
def test_what_the_person_has_chosen_stays(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    monkeypatch.setenv(chosen, "passive")
    with spinning.sleeping_where_crowded():
        assert "tuitrain-spin" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize(
    ("threads", "processors", "teams"), [(1, 2, 0), (2, 2, 1), (4, 2, 0), (4, 8, 2), (32, 64, 2), (2, 64, 0), (8, 64, 0), (16, 64, 4)]
)
def test_there_are_more_threads_than_processors(monkeypatch: pytest.MonkeyPatch, threads: int, processors: int, teams: int) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(processors)))
    assert spinning._missing_teams() == teams
    if teams:
        assert threads + (teams - 1) * (threads - 1) <= processors < threads + teams * (threads - 1)


def test_a_thread_that_could_not_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited().keys() >= {threading.get_native_id()}
    for thread, content in {"7": "5 2500000000 3\n", "8": "5 0 1\n", "9": "", "10": "0 0 0\n"}.items():
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(content)
    (tmp_path / "11").mkdir()
    monkeypatch.setattr(scheduling, "_TASKS", str(tmp_path))
    assert waited() == {7: 2.5, 8: 0.0}
    monkeypatch.setattr(scheduling, "_TASKS", str(tmp_path / "none"))
    assert not waits_are_told()
