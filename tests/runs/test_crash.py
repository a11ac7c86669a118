"""What is kept of a crash, in C code mostly, of the process that trained a run."""

import faulthandler
import signal
import subprocess
import sys

import pytest
from small_runs import make_run

from tuitrain.runs.catalogue import list_runs
from tuitrain.runs.crash import CRASH, CrashNote, crash_in, crashed
from tuitrain.runs.report import show
from tuitrain.runs.saved import load_record

NOBODY = 2**22 + 5
PROGRAM = """
import os, pathlib, signal, sys, threading
from tuitrain.python import crashes_to
from tuitrain.runs.crash import CrashNote
crashes_to("process", sys.stderr)
waits = threading.Thread(target=threading.Event().wait, daemon=True)
waits.start()
note = CrashNote(pathlib.Path(sys.argv[1]))
def forward():
    how, *ended = sys.argv[2].split(" ")
    if ended:
        note.close()
    signal.raise_signal(getattr(signal, how))
forward()
"""


def said_at_the_end(folder, how, *options):
    """What it says of a crash elsewhere."""
    done = subprocess.run([sys.executable, *options, "-c", PROGRAM, str(folder), how], capture_output=True, text=True, timeout=60)
    assert done.returncode == -getattr(signal, how.split(" ")[0])
    return crash_in(done.stderr)


FORWARD = "in forward (<string>, line 13)"


@pytest.mark.parametrize(
    ("how", "said"), [("SIGSEGV", f"Segmentation fault, {FORWARD}"), ("SIGABRT", f"Aborted, {FORWARD}"), ("SIGKILL", None)]
)
def test_a_crash_is_told_with_its_place(tmp_path, how, said):
    assert said_at_the_end(tmp_path, how) is None
    assert crashed(tmp_path) == said


def test_a_process_without_a_run_says_it_in_its_own_place(tmp_path):
    assert said_at_the_end(tmp_path, "SIGSEGV after the run") == f"Segmentation fault, {FORWARD}"
    assert not (tmp_path / CRASH).exists()


def test_a_person_who_has_python_write_it_elsewhere_has_it_there(tmp_path):
    assert said_at_the_end(tmp_path, "SIGSEGV", "-X", "faulthandler") == f"Segmentation fault, {FORWARD}"
    assert crashed(tmp_path) is None


def test_a_note_that_cannot_be_written_is_none(tmp_path):
    before = faulthandler.is_enabled()
    CrashNote(tmp_path / "gone").close()
    assert faulthandler.is_enabled() == before
    assert crashed(tmp_path / "gone") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", None),
        ("anything\x1b[31m", None),
        ("Fatal Python error: Bus error\n\nCurrent thread 0x01 [python] (most recent call first):\n  <no Python frame>\n", "Bus error"),
        (
            'Fatal Python error: Aborted\n\nThread 0x01 (most recent call first):\n  File "other.py", line 1 in wait\n\n'
            'Current thread 0x02 (most recent call first):\n  File "/x/lib/python3.12/ctypes/__init__.py", line 5 in string_at\n'
            '  File "/x/site-packages/torch/nn/functional.py", line 6 in linear\n  File "/home/me/my\x1bnets.py", line 7 in forward\n'
            '  File "/home/me/train.py", line 8 in main\n\nThread 0x03 (most recent call first):\n  File "late.py", line 9 in run\n',
            "Aborted, in forward (my·nets.py, line 7)",
        ),
        (
            "Fatal Python error: Aborted\n\nCurrent thread 0x02 (most recent call first):\n"
            '  File "/x/site-packages/torch/_ops.py", line 6 in __call__\n  File "/x/lib/python3.12/threading.py", line 7 in run\n',
            "Aborted, in __call__ (_ops.py, line 6)",
        ),
    ],
)
def test_what_stands_in_the_file_is_read_with_care(tmp_path, text, said):
    (tmp_path / CRASH).write_text(text)
    assert crashed(tmp_path) == said


def test_it_is_said_wherever_the_run_is_shown(runs_dir):
    folder = make_run(runs_dir, state="running", pid=NOBODY)
    said_at_the_end(folder.path, "SIGSEGV")
    words = f"Its process crashed: Segmentation fault, {FORWARD}; crash.txt in its folder has the stacks. What it had written is kept."
    assert load_record(folder.path).error == words
    assert [run.error for run in list_runs(runs_dir)] == [words]
    assert f"lost: {words}" in show(runs_dir, "last", as_json=False)
