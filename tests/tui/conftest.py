from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fakes
import pytest
from fake_doctor import FakeDoctor
from fake_trials import FakeTrials
from fakes import FakeOutside, FakeSampler, FakeSession, cpu_sampler
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from tuitrain.tui.gpus import sample

_parse_rules = Stylesheet._parse_rules
_parsed: dict[tuple[object, ...], list[RuleSet]] = {}


def _parse_once(sheet: Stylesheet, *source: Any, **more: Any) -> list[RuleSet]:
    """The rules of a style sheet, which are the same in all of the apps that the tests start; within an app Textual keeps them."""
    key = (source, tuple(sorted(more.items())), frozenset(sheet._variables.items()))
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, *source, **more)
    return _parsed[key]


@pytest.fixture(scope="session", autouse=True)
def _parsed_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", _parse_once)
        yield


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No CIFAR-10 on disk, a terminal that speaks UTF-8, a doctor that has seen it all, trials that take no time, no other processes."""
    monkeypatch.setattr("tuitrain.tui.screens.doctor.MachineDoctor", FakeDoctor)
    monkeypatch.setattr("tuitrain.tui.app.OtherProcesses", FakeOutside)
    monkeypatch.setattr("tuitrain.tui.screens.preflight.ProcessTrials", FakeTrials)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("LC_ALL", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def sampler() -> FakeSampler:
    return cpu_sampler()


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    """Where the kept runs of a test are."""
    return tmp_path / "runs"


@pytest.fixture
def outside() -> FakeOutside:
    """The other processes, for apps that are given them."""
    return FakeOutside()


@pytest.fixture
def hanging_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Processes that are started find a torch whose import never ends; the file that is returned then holds the pid of the first."""
    pid_file = tmp_path / "pid"
    (tmp_path / "modules" / "torch").mkdir(parents=True)
    (tmp_path / "modules" / "torch" / "__init__.py").write_text(
        f"import os, time\nwith open({str(pid_file) + '.new'!r}, 'w') as file: file.write(str(os.getpid()))\n"
        f"os.rename({str(pid_file) + '.new'!r}, {str(pid_file)!r})\ntime.sleep(60)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    return pid_file


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples do not age between being taken and being drawn, however long that takes."""
    now = time.monotonic()
    for module in (fakes, sample):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
