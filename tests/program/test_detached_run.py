"""Runs that go on without a terminal, as whole programs: in the background, hung up, handed over, and told what to do from elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from programs import RESTING, runs, state, tuitrain, until
from terminal import TUITRAIN, Terminal


@pytest.fixture
def clean_env(env: dict[str, str]) -> Iterator[dict[str, str]]:
    """`env`; whatever still trains at the end is killed."""
    yield env
    for row in runs(env):
        if row["state"] in ("queued", "running", "paused"):
            os.kill(row["pid"], signal.SIGKILL)


def test_a_run_in_the_background_outlives_its_terminal_and_obeys_other_ones(clean_env: dict[str, str]) -> None:
    env = clean_env
    command = f"{TUITRAIN} run {' '.join(RESTING)} --detach; echo came back; exec cat"
    with Terminal(["/bin/sh", "-c", command], env, 100, 10) as terminal:
        terminal.wait("came back")
        shown = [line for line in terminal.text.splitlines() if line.strip()]
        (row,) = runs(env)
        assert shown == [row["run"], "came back"], "the id, and nothing else is left on the terminal"
    assert (row["state"], row["attached"]) == ("running", 0)
    run, pid = row["run"], row["pid"]
    assert "running, detached" in tuitrain(env, "runs").stdout
    step = state(env, run)["step"]
    until(lambda: state(env, run)["step"] > step + 5)
    paused = tuitrain(env, "pause", run)
    assert paused.returncode == 0, paused.stderr
    assert paused.stdout.startswith(f"{run} is paused at step ")
    assert "paused, detached" in tuitrain(env, "show", run).stdout
    stopped = tuitrain(env, "stop", "last")
    assert stopped.returncode == 0, stopped.stderr
    assert stopped.stdout.startswith(f"{run} stopped at step ")
    until(lambda: not psutil.pid_exists(pid))
    folder = Path(env["TUITRAIN_RUNS"]) / run
    assert list((folder / "checkpoints").glob("step-*"))
    assert "stopped at step" in (folder / "log.txt").read_text(encoding="utf-8")
    again = tuitrain(env, "stop", run)
    assert (again.returncode, again.stdout) == (2, "")
    assert "there is nothing to stop" in again.stderr


def test_refused_in_the_background_is_the_same_sentence(env: dict[str, str]) -> None:
    done = tuitrain(env, "run", "seed-cnn", "--data", "no-such-folder", "--detach")
    assert (done.returncode, done.stdout) == (2, "")
    assert "data: 'no-such-folder'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path(env["TUITRAIN_RUNS"]).exists()


@pytest.mark.parametrize("command", ["stop", "pause"])
def test_a_run_that_is_not_there(env: dict[str, str], command: str) -> None:
    done = tuitrain(env, command, "last")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there are no runs" in done.stderr


def test_a_run_in_the_background_has_no_screen(env: dict[str, str]) -> None:
    done = tuitrain(env, "run", "seed-cnn", "--detach", "--tui")
    assert done.returncode == 2
    assert "--detach and --tui" in done.stderr


@pytest.mark.parametrize(
    ("option", "output", "reason", "where"),
    [
        ("--detach", ">/dev/full", "No space left on device", "trains in the background"),
        ("--detach", ">&-", "it is closed", "trains in the background"),
        ("--queue --json", ">/dev/full", "No space left on device", "is in the queue"),
    ],
)
def test_a_run_whose_id_cannot_be_printed_is_named_on_stderr(
    clean_env: dict[str, str], option: str, output: str, reason: str, where: str
) -> None:
    command = f"exec {TUITRAIN} run {' '.join(RESTING)} {option} {output}"
    done = subprocess.run(["/bin/sh", "-c", command], env={**os.environ, **clean_env}, stderr=subprocess.PIPE, text=True, timeout=300)
    (row,) = runs(clean_env)
    assert (done.returncode, done.stderr) == (1, f"tuitrain: standard output: {reason}; run {row['run']} {where}.\n")
    assert row["state"] in ("queued", "running")


def test_json_and_the_process_that_was_killed(clean_env: dict[str, str]) -> None:
    env = clean_env
    done = tuitrain(env, "run", *RESTING, "--detach", "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    (row,) = runs(env)
    assert row["run"] == run
    os.kill(row["pid"], signal.SIGKILL)
    until(lambda: runs(env)[0]["state"] == "lost")
    told = tuitrain(env, "stop", run)
    assert told.returncode == 2
    assert f"{run} is lost" in told.stderr
    assert "it was never saved; start it anew." in told.stderr
    again = tuitrain(env, "resume", run, "--detach")
    assert (again.returncode, again.stderr) == (2, f"tuitrain: RUN: {run} was never saved, so it cannot go on; start it anew.\n")
    Path(env["TUITRAIN_RUNS"], run, "checkpoints", "step-00000001").mkdir(parents=True)
    assert f"tuitrain resume {run}" in tuitrain(env, "stop", run).stderr


def test_ctrl_c_before_the_id_leaves_nothing(env: dict[str, str], tmp_path: Path) -> None:
    # Data that do not come before the test wants them.
    (tmp_path / "late.py").write_text(
        "import os, time, small_net\n"
        "def make(config):\n"
        f"    open({str(tmp_path / 'asked')!r}, 'w').close()\n"
        f"    while not os.path.exists({str(tmp_path / 'go')!r}):\n"
        "        time.sleep(0.02)\n"
        "    return small_net.make_samples(config)\n",
        encoding="utf-8",
    )
    found = env | {"PYTHONPATH": f"{tmp_path}:{env['PYTHONPATH']}"}
    with Terminal([TUITRAIN, "run", *RESTING, "--set", "data=late:make", "--detach"], found, 100, 10) as terminal:
        terminal.wait("importing torch|starting a process")
        until((tmp_path / "asked").exists)
        children = psutil.Process(terminal.pid).children(recursive=True)
        assert children
        terminal.press("\x03")
        assert terminal.exit_code() == 130
    (tmp_path / "go").touch()
    assert psutil.wait_procs(children, timeout=60)[1] == []
    folder = Path(env["TUITRAIN_RUNS"])
    assert not folder.exists() or list(folder.iterdir()) == []


def test_a_terminal_that_closes_ends_the_printing_and_not_the_run(clean_env: dict[str, str]) -> None:
    env = clean_env
    with Terminal([TUITRAIN, "run", *RESTING], env, 100, 30) as terminal:
        terminal.wait(r"step \d+/33,334")
        (row,) = runs(env)
        assert (row["state"], row["attached"], row["pid"]) == ("running", 1, terminal.pid)
        terminal.hang_up()
        run = row["run"]
        until(lambda: state(env, run)["attached"] == 0)
        step = state(env, run)["step"]
        until(lambda: state(env, run)["step"] > step + 5)
        assert "running, detached" in tuitrain(env, "runs").stdout
        assert tuitrain(env, "pause", run).returncode == 0
        process = psutil.Process(terminal.pid)
        process.cpu_percent()
        assert process.cpu_percent(interval=1.0) < 20, "no thread spins on the terminal that is not there"
        assert tuitrain(env, "stop", run).returncode == 0
        until(lambda: process.status() == psutil.STATUS_ZOMBIE)
    assert state(env, run)["state"] == "stopped"


HANDS_OVER = """
import sys, threading
from pathlib import Path
from tuitrain.cli.wiring import session_and_sampler
from tuitrain.config import with_changes
from tuitrain.events import Step
from tuitrain.recipes import load_recipe
from tuitrain.session import detached

changes = dict(data="small_net:make_images", model="small_net:make_net", device="cpu", batch_size=16, max_steps=200)
changes |= dict(shuffle=True, augment="crop-flip", optimizer="adam")
stepped = threading.Event()
with session_and_sampler(Path(sys.argv[1])) as (session, _):
    session.subscribe(lambda batch: stepped.set() if any(isinstance(event, Step) and event.step >= 10 for event in batch) else None)
    session.start(with_changes(load_recipe("seed-cnn"), changes))
    if sys.argv[2] == "whole":
        while not session.join(1.0):
            pass
    else:
        assert stepped.wait(120)
        detached.hand_over(session)
        print(session.record.step)
"""


@pytest.mark.long
def test_a_run_that_is_handed_over_goes_on_bit_for_bit(clean_env: dict[str, str]) -> None:
    env = clean_env
    folder = Path(env["TUITRAIN_RUNS"])

    def train(how: str) -> str:
        command = [sys.executable, "-c", HANDS_OVER, str(folder / how), how]
        done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def losses(how: str) -> list[dict[str, Any]]:
        steps = json.loads(tuitrain(env, "export", "last", "--format", "json", "--runs-dir", str(folder / how)).stdout)["steps"]
        return [{key: step[key] for key in ("step", "epoch", "loss", "lr")} for step in steps]

    assert int(train("handed")) < 200
    until(lambda: json.loads(next((folder / "handed").glob("2*/state.json")).read_bytes())["state"] == "finished")
    train("whole")
    assert [one["step"] for one in losses("handed")] == list(range(1, 201))
    assert losses("handed") == losses("whole")
