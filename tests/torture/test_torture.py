"""`make torture` itself: what is not as expected is counted and told, and a fault runs from end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tally import Tally

HERE = Path(__file__).parent


def test_what_is_not_as_expected_is_counted_and_told() -> None:
    tally = Tally("nothing at all")
    assert not tally.good, "what was never tried is no success"
    with tally.trial():
        pass
    assert tally.good
    for number in range(7):
        with tally.trial(f"case {number}"):
            raise AssertionError("it broke")
    assert not tally.good
    lines = tally.report().splitlines()
    assert lines[0].startswith("nothing at all: 8 tried, 1 as expected")
    assert lines[1] == "    case 0: AssertionError: it broke"
    assert lines[-1] == "    and 2 more"


def test_what_cannot_be_tried_here_says_why() -> None:
    tally = Tally("a fault")
    tally.left_out = "only root can"
    assert tally.good
    assert tally.report() == "a fault: not tried: only root can"


def test_a_fault_runs_from_end_to_end_and_its_counts_are_kept(tmp_path: Path) -> None:
    command = [sys.executable, str(HERE), "--only", "kill", "--share", "0.02", "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[kill] SIGKILL of a training process, then resume: 4 tried, 4 as expected" in done.stdout
    assert "1 faults, 1 as expected" in done.stdout
    (kept,) = tmp_path.iterdir()
    (fault,) = json.loads(kept.read_text())["faults"]
    assert (fault["fault"], fault["tried"], fault["expected"], fault["problems"]) == ("kill", 4, 4, [])


def test_a_fault_that_there_is_not_is_named() -> None:
    done = subprocess.run([sys.executable, str(HERE), "--only", "flood"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "there is no fault 'flood'; there are kill, " in done.stderr
