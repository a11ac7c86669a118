"""The figure beside W&B LEET, with a stand-in for wandb: what is not there is said, and what is started ends."""

import os
import stat
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks import leet
from benchmarks.awaited import NotMeasured

PROGRAM = """#!{python}
import sys, time
if sys.argv[1:4] != ["beta", "leet", "run"]:
    sys.exit("no such command")
print("the loss of", sys.argv[4], flush=True)
time.sleep(60)
"""
MODULE = """
from pathlib import Path

class Run:
    def __init__(self, path):
        self.file = path.open("a")

    def log(self, values, step):
        self.file.write(f"{values} {step}")

def init(dir, mode):
    assert mode == "offline"
    folder = Path(dir) / "wandb" / "offline-run-1"
    folder.mkdir(parents=True)
    return Run(folder / "run-1.wandb")
"""


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program and a module of that name; the folder of the module."""
    program = tmp_path / "wandb"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(leet, "WANDB", str(program))
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "wandb.py").write_text(MODULE)
    monkeypatch.setitem(os.environ, "PYTHONPATH", str(tmp_path / "modules"))
    return tmp_path / "modules"


def test_without_wandb_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(leet, "find_spec", lambda name: None)
    with pytest.raises(NotMeasured, match="wandb is not installed"), leet.leet(tmp_path / "runs"):
        pass


def test_the_command_that_shows_the_run_is_found(wandb: Path, tmp_path: Path) -> None:
    assert leet._command(tmp_path / "run") == [leet.WANDB, "beta", "leet", "run", str(tmp_path / "run")]


def test_a_wandb_that_shows_nothing_is_not_measured(wandb: Path, tmp_path: Path) -> None:
    Path(leet.WANDB).write_text("#!/bin/sh\necho only online\n")
    with pytest.raises(NotMeasured, match="shows nothing of an offline run"):
        leet._command(tmp_path / "run")


def test_the_run_that_wandb_is_told_of_ends_with_the_block(wandb: Path, tmp_path: Path) -> None:
    others = set(psutil.Process().children())
    with leet._told(tmp_path / "runs") as told:
        assert [path.name for path in told.iterdir()] == ["run-1.wandb"]
        (started,) = set(psutil.Process().children()) - others
    assert not started.is_running()


def test_a_wandb_that_begins_no_run_is_not_measured(wandb: Path, tmp_path: Path) -> None:
    (wandb / "wandb.py").write_text("raise RuntimeError('online only')")
    with pytest.raises(NotMeasured, match="begins no run offline"), leet._told(tmp_path / "runs"):
        pass
