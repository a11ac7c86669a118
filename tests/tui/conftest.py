from __future__ import annotations

from pathlib import Path

import pytest
from fake_doctor import FakeDoctor
from fake_trials import FakeTrials
from fakes import FakeSampler, FakeSession, cpu_sampler


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No CIFAR-10 on disk, a terminal that speaks UTF-8, a doctor that has seen it all, and trials that take no time."""
    monkeypatch.setattr("tuitrain.tui.screens.doctor.MachineDoctor", FakeDoctor)
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
