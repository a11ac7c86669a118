"""What Tab offers, asked as a shell asks, and by bash itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from small_runs import make_run

from tuitrain import paths
from tuitrain.cli import program
from tuitrain.config import ConfigError
from tuitrain.runs.process import this_process

STARTED = ("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z", "2026-01-03T00:00:00.000Z")


@pytest.fixture
def runs(runs_dir, monkeypatch):
    """An ended run, a live one, and a paused one, which is the newest; by their states."""
    monkeypatch.setenv("TUITRAIN_RUNS", str(runs_dir))
    live = {"pid": os.getpid(), "pid_started": this_process().pid_started, "error": None}
    made = {
        "finished": make_run(runs_dir, started=STARTED[0], name="old one"),
        "running": make_run(runs_dir, started=STARTED[1], state="running", **live),
        "paused": make_run(runs_dir, started=STARTED[2], state="paused", **live),
    }
    return {state: folder.id for state, folder in made.items()}


def offered(line: str) -> list[str]:
    """What Tab offers behind `line`, the last word of which is being typed; the words without meaning for tuitrain alone."""
    *words, typed = line.split(" ")
    completion = ShellComplete(program.commands, {}, "tuitrain", "_TUITRAIN_COMPLETE")
    return [item.value if item.type == "plain" else item.type for item in completion.get_completions(words, typed)]


@pytest.mark.parametrize(
    ("line", "states"),
    [
        ("show ", ["last", "paused", "running", "finished"]),
        ("attach ", ["last", "paused", "running", "finished"]),
        ("export ", ["last", "paused", "running", "finished"]),
        ("pause ", ["running"]),
        ("stop ", ["last", "paused", "running"]),
        ("resume ", ["last", "paused", "finished"]),
        ("delete ", ["finished"]),
        ("show l", ["last"]),
    ],
)
def test_runs_that_the_command_can_be_about_are_offered_newest_first(runs, line, states):
    assert offered(line) == [runs.get(state, state) for state in states]


def test_an_id_is_offered_with_its_state_and_name(runs):
    completion = ShellComplete(program.commands, {}, "tuitrain", "_TUITRAIN_COMPLETE")
    (item,) = completion.get_completions(["show"], runs["finished"][:-1])
    assert (item.value, item.help) == (runs["finished"], "finished · old one")


def test_runs_are_those_of_the_folder_on_the_line(runs, runs_dir, tmp_path):
    other = make_run(tmp_path / "other").id
    assert offered(f"show --runs-dir {tmp_path}/other 2") == [other]
    assert offered(f"--runs-dir {tmp_path}/other show 2") == [other]
    assert offered(f"--runs-dir {tmp_path}/other show --runs-dir {runs_dir} l") == ["last"]


def test_where_runs_cannot_be_read_nothing_is_offered(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for folder in ("none", "file"):
        assert offered(f"--runs-dir {tmp_path}/{folder} show ") == []
    monkeypatch.setenv("TUITRAIN_RUNS", "~no-such-user/runs")
    with pytest.raises(ConfigError):
        paths.runs_dir()
    assert offered("show ") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ru", ["run", "runs"]),
        ("run s", ["seed-cnn", "speedrun-94"]),
        ("run ./m", ["file"]),
        ("run seed-cnn --data s", ["synthetic"]),
        ("run seed-cnn --data /da", ["file"]),
        ("run seed-cnn --strategy d", ["dp", "ddp"]),
        ("run seed-cnn --precision ", ["fp32", "bf16", "fp64", "tf32"]),
        ("run seed-cnn --device c", ["cpu", "cuda"]),
        ("bench --device a", ["auto"]),
        ("resume last --strategy s", ["single", "split"]),
        ("export last --format p", ["pt", "py"]),
    ],
)
def test_words_are_offered(line, words):
    assert offered(line) == words


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_what_the_help_tells_to_type(runs):
    tuitrain = Path(sys.executable).with_name("tuitrain")
    told = subprocess.run([tuitrain, "--help"], capture_output=True, text=True, check=True).stdout
    line = next(line.strip() for line in told.splitlines() if line.strip().startswith("eval "))
    asked = f'{line}\nCOMP_WORDS=(tuitrain stop ""); COMP_CWORD=2; _tuitrain_completion tuitrain; echo "${{COMPREPLY[@]}}"'
    environment = {**os.environ, "PATH": f"{tuitrain.parent}:{os.environ['PATH']}"}
    found = subprocess.run(["bash", "-c", asked], env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert (found.stdout.split(), found.stderr) == (["last", runs["paused"], runs["running"]], "")
