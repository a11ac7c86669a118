"""A listener for a session's events, and runs in processes in the background that train with a small engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_sessions import SMALL_HOST, Heard

from tuitrain.runs import catalogue
from tuitrain.session import detached


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has processes in the background train with the small engine; called with what it does."""

    def does(what: str) -> None:
        monkeypatch.setenv("TUITRAIN_SMALL", what)

    monkeypatch.setattr(detached, "_PROGRAM", SMALL_HOST)
    does("train")
    return does


@pytest.fixture
def runs_dir(tmp_path: Path) -> Iterator[Path]:
    """A folder for runs; what still trains in it at the end is killed."""
    folder = tmp_path / "runs"
    yield folder
    for run in catalogue.list_runs(folder):
        if run.live and run.pid not in (None, os.getpid()):
            os.kill(run.pid, signal.SIGKILL)
