"""`tuitrain run --queue` as a whole program: two short runs after each other on the CPU, and one that is taken out between them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import RESTING, runs, tuitrain, until


@pytest.fixture
def clean_env(env: dict[str, str]) -> Iterator[dict[str, str]]:
    """`env`; whatever still trains or waits at the end is killed."""
    yield env
    for row in runs(env):
        if row["state"] in ("queued", "running", "paused") and row["pid"] is not None:
            os.kill(row["pid"], signal.SIGKILL)


@pytest.mark.long
def test_queued_runs_train_after_each_other_and_survive_their_processes(clean_env: dict[str, str]) -> None:
    env = clean_env
    first = tuitrain(env, "run", *RESTING, "--queue").stdout.strip()
    until(lambda: runs(env)[0]["state"] == "running")
    done = tuitrain(env, "run", *RESTING, "--max-steps", "5", "--queue", "--json")
    assert done.returncode == 0, done.stderr
    second = json.loads(done.stdout)["run"]
    assert f"It waits for cpu: {first} trains there." in done.stderr
    out, third = (tuitrain(env, "run", *RESTING, "--max-steps", "6", "--queue").stdout.strip() for _ in range(2))
    listed = tuitrain(env, "runs").stdout
    assert [place for place in ("1st", "2nd", "3rd") if f"queued, {place} for cpu" in listed] == ["1st", "2nd", "3rd"]
    assert f"waits for cpu: {first} trains there" in tuitrain(env, "show", third).stdout
    stopped = tuitrain(env, "stop", out)
    assert (stopped.returncode, stopped.stdout.strip()) == (0, f"{out} stopped at step 0")
    rows = {row["run"]: row for row in runs(env)}
    for run in (second, third):
        os.kill(rows[run]["pid"], signal.SIGKILL)
    until(lambda: tuitrain(env, "runs").stdout.count("queued, nobody waits") == 2)
    again = tuitrain(env, "resume", third)
    assert (again.returncode, again.stdout.strip()) == (0, f"{third} waits for cpu: {first} trains there.")
    # What starts next lets those wait again that nobody waits for.
    assert tuitrain(env, "run", "seed-cnn", "--data", "no-such-folder", "--detach").returncode == 2
    until(lambda: "queued, nobody waits" not in tuitrain(env, "runs").stdout)
    assert tuitrain(env, "stop", first).returncode == 0
    until(lambda: {row["state"] for row in runs(env) if row["run"] in (second, third)} == {"finished"})
    rows = {row["run"]: row for row in runs(env)}
    assert (rows[second]["step"], rows[third]["step"], rows[out]["state"]) == (5, 6, "stopped")
    assert rows[second]["started"] < rows[third]["started"]


def test_a_queued_run_needs_the_folder_in_which_it_was_queued_no_more(clean_env: dict[str, str], tmp_path: Path) -> None:
    env = clean_env
    first = tuitrain(env, "run", *RESTING, "--queue").stdout.strip()
    (tmp_path / "here").mkdir()
    done = tuitrain(env, "run", "random-linear", "--device", "cpu", "--queue", cwd=tmp_path / "here")
    assert done.returncode == 0, done.stderr
    (tmp_path / "here").rmdir()
    assert tuitrain(env, "stop", first).returncode == 0
    until(lambda: runs(env)[0]["state"] == "finished" or runs(env)[0]["pid"] is None)
    assert {row["run"]: row["state"] for row in runs(env)}[done.stdout.strip()] == "finished"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--queue", "--tui"), "--queue and --tui cannot go together"),
        (("--queue", "--data", "no-such-folder"), "data: 'no-such-folder' is neither"),
        (("--queue", "--device", "cpu", "--data", "random"), "model: 'seed-cnn' does not take inputs [2, 5] of the data 'random'"),
        (("--queue", "--device", "tpu"), "device: 'tpu' is not allowed"),
        (("--queue", "--device", "cuda:99"), "device: 'cuda:99' "),
        (("--queue", "--device", "cpu,cpu", "--strategy", "dp"), "strategy: dp (nn.DataParallel) takes GPUs only"),
        (("--queue", "--device", "cpu", "--set", "model=nowhere:net"), "model: 'nowhere:net': there is no module nowhere"),
        (("--queue", "--device", "cpu", "--set", "data=os:no_such"), "data: 'os:no_such': the module os has no 'no_such'"),
        (
            ("--queue", "--strategy", "ddp", "--set", "nnodes=2", "--set", "rdzv_endpoint=localhost:29500"),
            "nnodes: '2' does not go with --queue",
        ),
    ],
)
def test_what_cannot_be_queued_is_a_sentence_and_leaves_nothing(env: dict[str, str], options: tuple[str, ...], words: str) -> None:
    done = tuitrain(env, "run", "seed-cnn", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not os.path.exists(env["TUITRAIN_RUNS"])
