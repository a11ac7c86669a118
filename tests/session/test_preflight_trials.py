"""The process of a trial: what it answers, how it breaks, and that nothing of it is left. A made-up torch stands in its way."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from small_sessions import until

from tuitrain.config import RunConfig
from tuitrain.python import PACKAGES
from tuitrain.session.preflight import trials as module
from tuitrain.session.preflight.measuring import Measuring
from tuitrain.session.preflight.plans import Plan
from tuitrain.session.preflight.trials import Cancelled, ProcessTrials
from tuitrain.wire import Measured

CPU, TWICE = Plan("single", ("cpu",)), Plan("split", ("cpu", "cpu"))
PATIENCE = 60.0


@pytest.fixture
def torch_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a module in torch's place, with `PID` as a file that it may write; gives that file."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()

    def put(code: str) -> Path:
        folder, pid = tmp_path / "modules" / "torch", tmp_path / "pid"
        folder.mkdir(parents=True)
        tell = f"import os\nwith open({str(pid) + '.new'!r}, 'w') as file: file.write(str(os.getpid()))\n"
        tell += f"os.rename({str(pid) + '.new'!r}, {str(pid)!r})\n"
        (folder / "__init__.py").write_text(tell + code)
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'modules'}:{PACKAGES}")
        return pid

    return put


def left(pid: Path) -> list[str]:
    """What is still there of a trial."""
    process = ["process"] if psutil.pid_exists(int(pid.read_text())) else []
    return [*process, *os.listdir(pid.parent / "tmp")]


def test_cancelling_kills_the_process_and_what_it_started(torch_is: Callable[[str], Path], tmp_path: Path) -> None:
    child = tmp_path / "child"
    pid = torch_is(f"import subprocess, time\nfile = open({str(child)!r}, 'w')\nsubprocess.Popen(['sleep', '60'])\ntime.sleep(60)\n")
    stop = threading.Event()
    raised: list[type] = []

    def ask() -> None:
        try:
            ProcessTrials().measure(RunConfig(), CPU, stop)
        except Cancelled as error:
            raised.append(type(error))

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: pid.exists() and bool(psutil.Process(int(pid.read_text())).children()))
    family = [psutil.Process(int(pid.read_text())), *psutil.Process(int(pid.read_text())).children()]
    stop.set()
    thread.join(PATIENCE)
    assert raised == [Cancelled]
    until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family))
    assert left(pid) == []


def test_one_that_hangs_is_ended_in_time(torch_is: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pid = torch_is("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(module, "START_SECONDS", 4.0)
    answer = ProcessTrials(seconds=0.0).measure(RunConfig(), CPU, threading.Event())
    assert answer.error == "It took longer than 4 s and was ended."
    assert left(pid) == []


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("raise ImportError('no \\x1b[31mlibcudart')", "torch cannot be imported: no ·[31mlibcudart; `tuitrain doctor` says why."),
        ("import sys\nsys.exit('no \\x1b[31mlibcudart')", "The trial's process ended with exit code 1: no"),
        ("import signal\nos.kill(os.getpid(), signal.SIGSEGV)", "The trial's process was ended by signal 11."),
    ],
)
def test_a_crash_is_one_sentence(torch_is: Callable[[str], Path], code: str, sentence: str) -> None:
    pid = torch_is(code)
    error = ProcessTrials().measure(RunConfig(), CPU, threading.Event()).error
    assert error is not None
    assert error.startswith(sentence)
    assert error.isprintable()
    assert left(pid) == []


def test_without_a_place_for_temporary_files_the_measurement_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**options: object) -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(module.tempfile, "TemporaryDirectory", full)
    measured = ProcessTrials().measure(RunConfig(), CPU, threading.Event())
    assert measured == Measured(error="The trial's process cannot be started: No usable temporary directory found.")


def test_what_a_plan_forbids_needs_no_process(torch_is: Callable[[str], Path]) -> None:
    pid = torch_is("")
    answer = ProcessTrials().measure(RunConfig(compile=True), Plan("dp", ("cuda:0", "cuda:1")), threading.Event())
    assert answer.refused
    assert answer.error is not None
    assert "compile" in answer.error
    assert not pid.exists()


# -- one after the other -------------------------------------------------------------------------------------------------


class Steered:
    """Trials that wait until they are let."""

    def __init__(self, found: Measured) -> None:
        self.found = found
        self.let = threading.Semaphore(0)

    def devices(self, config: RunConfig, stop: threading.Event) -> Measured:
        self.spec = config.device
        return self.found

    def measure(self, config: RunConfig, plan: Plan, stop: threading.Event) -> Measured:
        while not self.let.acquire(timeout=0.01):
            if stop.is_set():
                raise Cancelled
        return Measured(devices=plan.devices, batch=64, steps=20, step_seconds=0.01 * len(plan.devices))


def test_rows_come_one_after_the_other() -> None:
    trials = Steered(Measured(devices=("cpu",)))
    measuring = Measuring(trials, RunConfig(), lambda: None)
    measuring.start()
    until(lambda: measuring.now == CPU)
    assert trials.spec == "auto:all"
    assert [row.samples_per_second for row in measuring.rows] == [None, None, None]
    trials.let.release()
    until(lambda: measuring.now == TWICE)
    assert [row.samples_per_second for row in measuring.rows] == [6400, None, None]
    trials.let.release()
    trials.let.release()
    assert measuring.join(PATIENCE)
    assert [row.samples_per_second for row in measuring.rows] == [6400, 3200, 3200]
    assert (measuring.busy, measuring.now, measuring.problem) == (False, None, None)


def test_stopping_keeps_what_is_known() -> None:
    trials = Steered(Measured(devices=("cpu",)))
    measuring = Measuring(trials, RunConfig(), lambda: None)
    measuring.start()
    trials.let.release()
    until(lambda: measuring.now == TWICE)
    measuring.stop()
    assert measuring.join(PATIENCE)
    assert [row.samples_per_second for row in measuring.rows] == [6400, None, None]
    assert not measuring.busy


def test_devices_that_cannot_be_used_are_the_problem() -> None:
    measuring = Measuring(Steered(Measured(error="device: 'cuda:7' is not there.")), RunConfig(device="cuda:7"), lambda: None)
    measuring.start()
    assert measuring.join(PATIENCE)
    assert (measuring.rows, measuring.problem) == ((), "device: 'cuda:7' is not there.")
