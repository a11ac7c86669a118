"""Ctrl+C before a command has begun, or where Python cannot raise it: exit code 130, and no word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import TUITRAIN

from tuitrain.python import PACKAGES

LOST = """
class Lost:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def recipes(**options):
    Lost()
    print("went on")
machine.recipes.callback = recipes
"""
EARLY = "program.open_closed_streams = lambda: signal.raise_signal(signal.SIGINT)"


def ended(argv: list[str], python_path: str) -> subprocess.CompletedProcess[str]:
    def hear() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    env = {**os.environ, "PYTHONPATH": python_path}
    return subprocess.run(argv, env=env, preexec_fn=hear, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("program", [[TUITRAIN], [sys.executable, "-m", "tuitrain"]], ids=["tuitrain", "python -m tuitrain"])
def test_while_the_commands_are_imported(program: list[str], tmp_path: Path) -> None:
    # A library that meets it in the midst of its import, and takes it for an error of its own.
    (tmp_path / "click.py").write_text("import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept BaseException:\n    pass\n")
    done = ended([*program, "recipes"], f"{tmp_path}:{PACKAGES}")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("when", [EARLY, LOST], ids=["before the command", "in a finalizer"])
def test_where_no_command_could_catch_it(when: str) -> None:
    script = f"import signal\nfrom tuitrain.cli import main\nfrom tuitrain.cli import machine, program\n{when}\nmain()"
    done = ended([sys.executable, "-c", script, "recipes"], PACKAGES)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_nohup_keeps_it_away() -> None:
    ignored = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)"
    script = f"{ignored}\nfrom tuitrain.cli import main\nfrom tuitrain.cli import program\n{EARLY}\nmain()"
    done = ended([sys.executable, "-c", script, "recipes"], PACKAGES)
    assert (done.returncode, done.stderr) == (0, "")
