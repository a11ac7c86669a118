"""Trainings that take turns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from benchmarks import turns
from benchmarks.programs import Training
from benchmarks.turns import Phase, Span, Trainee, Turn, in_phases, in_turns, lines_of, seconds_per_step, whole_rounds

STEPPING = """
import subprocess, sys, time
# What makes the steps is a child, as the ranks of a group are.
sys.exit(subprocess.call([sys.executable, "-c", '''
import sys, time
while True:
    time.sleep(0.01)
    with open(sys.argv[1], "a") as file:
        file.write(f"{time.time()}\\\\n")
    print("a step")
''', sys.argv[1]]))
"""


def trainee(file: Path, code: str = STEPPING) -> AbstractContextManager[Trainee]:
    return nullcontext(Trainee([sys.executable, "-c", code, str(file)], lambda: lines_of(file), skipped=2, on_screen="two" in file.name))


def test_only_one_trains_at_a_time(tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    taken = in_turns([trainee(file) for file in files], turns=3, seconds=0.5)
    assert len(taken) == 3
    assert all(0.01 < each.step < 0.5 for turn in taken for each in turn)
    assert all(one.sent == 0 < two.sent for one, two in taken)
    one, two = map(lines_of, files)
    marked = sorted([(moment, 1) for moment in one if moment > two[2]] + [(moment, 2) for moment in two[3:]])
    changes = sum(first[1] != second[1] for first, second in pairwise(marked))
    # In the order one two, two one, one two; each trains until it has begun.
    assert changes < len(marked) / 4
    left = [process for process in psutil.process_iter() if str(tmp_path) in " ".join(words_of(process))]
    assert psutil.wait_procs(left, timeout=60)[1] == []


AFTER_THE_FIRST = """
import os, sys, time
first, size = sys.argv[1].replace("late", "one"), 0
# It begins when the other has begun and stands still.
while not size or os.path.getsize(first) > size:
    size = os.path.getsize(first) if os.path.exists(first) else 0
    time.sleep(0.5)
"""


def test_one_that_has_begun_stands_still_until_all_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "START_SECONDS", 30.0)
    taken = in_turns([trainee(tmp_path / "one"), trainee(tmp_path / "late", AFTER_THE_FIRST + STEPPING)], turns=1, seconds=0.3)
    assert len(taken) == 1


def test_a_later_phase_shares_the_start_and_may_leave_some_out(tmp_path: Path) -> None:
    files, inside = [tmp_path / "one", tmp_path / "two"], []

    @contextmanager
    def beside() -> Iterator[None]:
        inside.append(len(lines_of(files[1])))
        yield
        inside.append(len(lines_of(files[1])))

    first, second = in_phases([trainee(file) for file in files], [Phase(2, 0.3), Phase(3, 0.3, first=1, beside=beside)])
    assert [len(each) for each in first] == [2, 2]
    assert [len(each) for each in second] == [1, 1, 1]
    assert inside[0] == inside[1] > 2


def words_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


@pytest.mark.parametrize(("device", "clock"), [("cpu", "step_times"), ("cpu,cpu", "step_times"), ("cuda:0", "device_times")])
def test_steps_on_cpus_are_timed_by_the_host(monkeypatch: pytest.MonkeyPatch, device: str, clock: str) -> None:
    for name in ("step_times", "device_times"):
        monkeypatch.setattr(turns, name, name)
    monkeypatch.setattr(turns, "_kept_times", lambda folder, read: read)
    with turns.tuitrain(Training("synthetic", device=device)) as trainee:
        assert trainee.times() == clock


def test_one_that_does_not_train_is_said(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="did not begin to train"):
        in_turns([trainee(tmp_path / "one", "raise SystemExit")], turns=1, seconds=0.1)


def test_only_whole_steps_of_a_turn_count() -> None:
    assert seconds_per_step([1, 2, 4, 9, 10], 1.5, 9.5) == 3.5
    with pytest.raises(RuntimeError, match="no whole step"):
        seconds_per_step([1, 2], 1.5, 9)


def test_rounds_in_which_one_made_no_step_are_left_out_for_all_but_not_many() -> None:
    spans = [{0: Span(10.0 * turn, 10.0 * turn + 4, 7.0), 1: Span(10.0 * turn + 5, 10.0 * turn + 9, 0.0)} for turn in range(3)]
    steady = [second / 2 for second in range(60)]
    halting = [moment for moment in steady if not 10 <= moment < 20]
    assert whole_rounds(spans, [steady, halting]) == [(Turn(0.5, 7.0), Turn(0.5, 0.0))] * 2
    with pytest.raises(RuntimeError, match=r"no whole step in a turn of 4\.0 s"):
        whole_rounds(spans, [steady, [moment for moment in halting if moment < 20]])
