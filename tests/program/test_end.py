"""How the process of a command ends: at once, when all who want to hear of it have been told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuitrain.python import PACKAGES

PROGRAM = """
import atexit, sys, threading
from tuitrain import cli
from tuitrain.cli import machine
class Module:
    def __del__(self):
        print("taken apart", flush=True)
kept = Module()
def recipes(**options):
    atexit.register(print, "told")
    print("done")
    END
machine.recipes.callback = recipes
cli.main()
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [("pass", 0), ("sys.exit(3)", 3), ("sys.exit('a reason')", 1), ("raise KeyboardInterrupt", 130), ("raise RuntimeError", 1)],
)
def test_nothing_is_taken_apart(tmp_path: Path, end: str, code: int) -> None:
    program = [sys.executable, "-c", PROGRAM.replace("END", end), "recipes"]
    done = subprocess.run(program, env={**os.environ, "PYTHONPATH": PACKAGES}, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "done\ntold\n")
    assert ("Traceback" in done.stderr) == ("RuntimeError" in end)


def test_its_threads_are_waited_for(tmp_path: Path) -> None:
    waits = "threading.Thread(target=lambda: (threading.main_thread().join(), print('joined'))).start()"
    program = [sys.executable, "-c", PROGRAM.replace("END", waits), "recipes"]
    done = subprocess.run(program, env={**os.environ, "PYTHONPATH": PACKAGES}, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\njoined\ntold\n")
