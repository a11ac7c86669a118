"""SIGTERM, SIGHUP and Ctrl+C in the midst of a command that writes: nothing half-written, nothing left beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tuitrain.python import PACKAGES

# It comes when the file beside the old one is written and not yet on disk.
PROGRAM = """
import os, signal, sys
from tuitrain import cli, files, paths
from tuitrain.cli import machine
number = int(sys.argv.pop(1))
if nohup := sys.argv.pop(1):
    signal.signal(number, signal.SIG_IGN)
def export(**options):
    with files.written_where_asked(paths.Path("kept")) as file:
        file.write(b"new")
        file.flush()
        CAUGHT
        file.write(b"er")
machine.recipes.callback = export
cli.main()
"""
HERE = "os.kill(os.getpid(), number)"
LOST = "type('Lost', (), {'__del__': lambda self: os.kill(os.getpid(), number)})()"
ECHO = f"try: {HERE}\n        finally: {HERE}"


def ended(tmp_path: Path, number: int, caught: str, *, nohup: bool = False) -> subprocess.CompletedProcess[str]:
    def hear() -> None:
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, signal.SIG_DFL)

    (tmp_path / "kept").write_bytes(b"old")
    argv = [sys.executable, "-c", PROGRAM.replace("CAUGHT", caught), str(int(number)), "nohup" if nohup else "", "recipes"]
    env = {**os.environ, "PYTHONPATH": PACKAGES}
    return subprocess.run(
        argv, env=env, cwd=tmp_path, preexec_fn=hear, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_file_that_is_being_written_is_as_it_was(tmp_path: Path, number: int) -> None:
    done = ended(tmp_path, number, HERE)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (128 + number, "", "")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"kept": b"old"}


def test_an_echo_does_not_break_off_the_undoing(tmp_path: Path) -> None:
    done = ended(tmp_path, signal.SIGTERM, ECHO)
    assert (done.returncode, done.stderr) == (143, "")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_signal_in_a_finalizer_is_obeyed(tmp_path: Path) -> None:
    done = ended(tmp_path, signal.SIGTERM, LOST)
    assert (done.returncode, done.stderr) == (143, "")
    assert (tmp_path / "kept").read_bytes() == b"old"


def test_a_signal_that_nohup_keeps_away_is_not_heard(tmp_path: Path) -> None:
    assert ended(tmp_path, signal.SIGHUP, HERE, nohup=True).returncode == 0
    assert (tmp_path / "kept").read_bytes() == b"newer"


FORKING = """
import multiprocessing, os, signal, time
from types import SimpleNamespace
from tuitrain import cli
from tuitrain.cli import machine
from tuitrain.session.unseen import end_on_signals
def work(begun):
    begun.set()
    time.sleep(60)
def train(**options):
    end_on_signals(SimpleNamespace(interrupt=lambda: print("interrupted")))
    fork = multiprocessing.get_context("fork")
    begun = fork.Event()
    worker = fork.Process(target=work, args=(begun,), daemon=True)
    worker.start()
    begun.wait()
    os.kill(worker.pid, signal.SIGHUP)
    os.kill(worker.pid, signal.SIGINT)
    worker.terminate()
    worker.join(20)
    print(worker.exitcode)
machine.recipes.callback = train
cli.main()
"""


def test_workers_of_ones_own_are_ended_by_their_parent_and_by_no_terminal(tmp_path: Path) -> None:
    argv, env = [sys.executable, "-c", FORKING, "recipes"], {**os.environ, "PYTHONPATH": PACKAGES}
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (0, f"{-signal.SIGTERM}\n"), done.stderr
