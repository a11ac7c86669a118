"""Ending a process: only one's own, only the very one that was seen, first asked and then killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec
import psutil
import pytest

from tuitrain.devices import ProcessSample, ending
from tuitrain.devices.ending import Endings, Refused

PATIENCE = 60
POLITE = "print('up', flush=True); input()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); input()"

Child = subprocess.Popen[str]


def start(program: str) -> Child:
    """A process of our own that says when it is ready, and ends by itself when we do."""
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    return child


def sample_of(child: Child, **changes: object) -> ProcessSample:
    seen = psutil.Process(child.pid)
    fields: dict[str, object] = {
        "pid": child.pid,
        "name": "python",
        "user": seen.username(),
        "memory": 2**30,
        "started": seen.create_time(),
    }
    return ProcessSample(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
def polite() -> Iterator[Child]:
    with start(POLITE) as child:
        yield child
        child.kill()


@pytest.fixture
def stubborn() -> Iterator[Child]:
    with start(STUBBORN) as child:
        yield child
        child.kill()


def test_one_that_is_asked_ends_by_itself(polite: Child) -> None:
    process = sample_of(polite)
    assert ending.alive(process)
    ending.ask_to_end(process)
    assert polite.wait(PATIENCE) == -15
    assert not ending.alive(process)


def test_one_that_does_not_listen_is_killed(stubborn: Child) -> None:
    process = sample_of(stubborn)
    ending.ask_to_end(process)
    ending.kill(process)
    assert stubborn.wait(PATIENCE) == -9


def test_one_that_waits_for_its_parent_has_ended(polite: Child) -> None:
    process = sample_of(polite)
    ending.kill(process)
    end = time.monotonic() + PATIENCE
    while ending.alive(process):
        assert time.monotonic() < end
        os.sched_yield()
    assert psutil.Process(polite.pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("handles", [True, False])
def test_an_old_number_with_a_new_process_is_left_alone(polite: Child, monkeypatch: pytest.MonkeyPatch, handles: bool) -> None:
    if not handles:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    process = sample_of(polite)
    for started in (None, (process.started or 0) - 10):
        other = msgspec.structs.replace(process, started=started)
        with pytest.raises(Refused, match="is not the one that was seen"):
            ending.ask_to_end(other)
        assert not ending.alive(other)
    assert polite.poll() is None
    ending.ask_to_end(process)
    assert polite.wait(PATIENCE) == -15


def test_somebody_elses_is_left_alone(polite: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    process = sample_of(polite, user="alice")
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    with pytest.raises(Refused, match=f"Process {polite.pid} is alice's: only alice can end it"):
        ending.kill(process)
    assert polite.poll() is None


def test_this_app_another_containers_and_the_ended_are_refused(polite: Child) -> None:
    with pytest.raises(Refused, match="q leaves it"):
        ending.check(sample_of(polite, pid=os.getpid()))
    with pytest.raises(Refused, match="another container"):
        ending.check(sample_of(polite, foreign=True))
    process = sample_of(polite)
    polite.kill()
    polite.wait(PATIENCE)
    with pytest.raises(Refused, match="has ended already"):
        ending.ask_to_end(process)
    assert not ending.alive(process)
    # Of one that the card lists and the system never showed nobody knows that.
    with pytest.raises(Refused, match="was never seen from here"):
        ending.ask_to_end(msgspec.structs.replace(process, started=None))


def test_what_a_row_says_of_it(stubborn: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    process, endings, now = sample_of(stubborn), Endings(), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert endings.words(process) is None
    assert not endings.stubborn(process)
    endings.asked(process)
    assert endings.words(process) == "asked to end"
    now[0] += ending.PATIENCE_SECONDS
    assert endings.words(process) == "stays: x kills it"
    assert endings.gone() == []
    endings.killed(process)
    assert endings.words(process) == "killed"
    ending.kill(process)
    stubborn.wait()
    assert endings.gone() == [process]
    assert endings.words(process) is None
    assert endings.gone() == []
