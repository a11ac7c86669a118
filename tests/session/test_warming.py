"""A slow import, done first by another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tuitrain.session.warming import Warming

MODULE = "imported_elsewhere"
SLOW = """
import os, threading
from pathlib import Path
part = Path(__file__).with_name(".pid")
part.write_text(str(os.getpid()))
part.rename(Path(__file__).with_name("pid"))
"""
"""Says which process imports it."""
FOR_EVER = "threading.Event().wait()"


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


def lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a module whose import does not end."""
    path = tmp_path / f"{MODULE}.py"
    path.write_text(SLOW + FOR_EVER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return path


def imports(module: Path) -> int:
    """The process that imports it, once it does."""
    wait_for(module.with_name("pid").exists)
    return int(module.with_name("pid").read_text())


def test_another_process_imports_it_at_the_lowest_priority(module: Path) -> None:
    with Warming(MODULE) as warming:
        warming.start()
        pid = imports(module)
        assert pid != os.getpid()
        assert os.getpriority(os.PRIO_PROCESS, pid) == 19
        assert MODULE not in sys.modules
    assert not psutil.pid_exists(pid)


def test_it_begins_once_and_stopped_no_more(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    popen = subprocess.Popen

    def counted(*given: Any, **options: Any) -> Any:
        process = popen(*given, **options)
        started.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", counted)
    with Warming(MODULE) as warming:
        warming.start()
        warming.start()
        assert len(started) == 1
    warming.start()
    stopped = Warming(MODULE)
    stopped.stop()
    stopped.start()
    assert len(started) == 1
    assert not psutil.pid_exists(started[0])


@pytest.mark.parametrize("after", ["", "raise ImportError('broken')"], ids=["done", "broken"])
def test_what_is_done_leaves_nothing_not_even_a_dead_process(module: Path, after: str, capfd: pytest.CaptureFixture[str]) -> None:
    module.write_text(SLOW + after)
    with Warming(MODULE) as warming:
        warming.start()
        pid = imports(module)
        wait_for(lambda: not psutil.pid_exists(pid))
    assert capfd.readouterr() == ("", "")


def test_it_ends_with_the_process_that_wanted_it(module: Path) -> None:
    program = f"from tuitrain.session.warming import Warming\nwarming = Warming({MODULE!r})\nwarming.start()\ninput()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as parent:
        pid = imports(module)
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not lives(pid))
