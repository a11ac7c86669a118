"""Commands in a working directory that has been deleted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SENTENCE = "the working directory has been deleted, and torch cannot train in such a one; change to another and start tuitrain there."
PROGRAM = "import os, sys, shutil; shutil.rmtree(os.getcwd()); from tuitrain.cli import main; sys.argv[0] = 'tuitrain'; main()"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "random-linear", "--device", "cpu"],
        ["run", "random-linear", "--device", "cpu,cpu", "--strategy", "ddp"],
        ["run", "random-linear", "--device", "cpu", "--detach"],
        ["run", "random-linear", "--device", "cpu", "--queue"],
        ["bench", "--device", "cpu", "--steps", "2"],
    ],
    ids=["run", "ddp", "detach", "queue", "bench"],
)
def test_training_in_a_folder_that_is_gone_is_one_sentence(tmp_path: Path, arguments: list[str]) -> None:
    (gone := tmp_path / "gone").mkdir()
    environment = os.environ | {"TUITRAIN_RUNS": str(tmp_path / "runs"), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=gone, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr.strip().endswith(f"tuitrain: {SENTENCE}")
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == 2
    assert not any((tmp_path / "runs").glob("2*"))
