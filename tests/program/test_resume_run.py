"""Runs that are killed and gone on with, as whole programs: the losses of the unbroken run, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from programs import tuitrain
from terminal import TUITRAIN

STEPS = 120
SMALL = ("--set", "data=small_net:make_images", "--set", "model=small_net:make_net", "--set", "augment=crop-flip")
RUN = ("multi-gpu", "--device", "cpu", "--batch-size", "16", "--max-steps", str(STEPS), *SMALL)
SAVING = ("--set", "checkpoint_every_steps=3")


def losses(env: dict[str, str], run: str) -> dict[int, float]:
    document = json.loads(tuitrain(env, "export", run, "--format", "json").stdout)
    return {step["step"]: step["loss"] for step in document["steps"]}


def killed_after(env: dict[str, str], step: int, saved: int, *args: str) -> tuple[dict[str, Any], str]:
    """What a run began with when it is killed after `step`, and after a checkpoint of step `saved` or a later one is on disk, which may
    take some steps more; and what `resume` said while it was there."""
    process = subprocess.Popen([TUITRAIN, *args, "--json"], env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        began = json.loads(process.stdout.readline())
        assert began["event"] == "run_started"
        told = {"step": 0, "checkpoint": 0}
        while told["step"] < step or told["checkpoint"] < saved:
            event = json.loads(process.stdout.readline())
            assert event["event"] != "run_ended"
            if event["event"] in told:
                told[event["event"]] = event["step"]
        process.send_signal(signal.SIGSTOP)
        refused = tuitrain(env, "resume", "last")
        assert refused.returncode == 2
        assert f"(pid {process.pid} on " in refused.stderr
    finally:
        process.kill()
        process.communicate()
    return began, refused.stderr


@pytest.mark.long
def test_killed_twice_and_gone_on_with_a_run_is_the_unbroken_one(env: dict[str, str]) -> None:
    unbroken = tuitrain(env, "run", *RUN, "--json")
    whole = json.loads(unbroken.stdout.splitlines()[0])["run"]

    began, refused = killed_after(env, 8, 6, "run", *RUN, *SAVING)
    run = began["run"]
    assert refused.startswith(f"tuitrain: RUN: {run} is running (pid ")
    assert refused.count("\n") == 1
    listed = json.loads(tuitrain(env, "runs", "--json").stdout)
    assert (listed[0]["run"], listed[0]["state"]) == (run, "lost")
    again, _ = killed_after(env, 30, 27, "resume", run)
    assert again["run"] == run
    assert 6 <= again["resumed_from"] < STEPS
    last = tuitrain(env, "resume", "last", "--json")
    assert last.returncode == 0, last.stderr
    events = [json.loads(line) for line in last.stdout.splitlines()]
    assert 27 <= events[0]["resumed_from"] < STEPS
    assert events[-1] == {"event": "run_ended", "run": run, "state": "finished", "step": STEPS, "error": None}

    assert losses(env, run) == losses(env, whole)
    assert len(losses(env, run)) == STEPS
    folder = Path(env["TUITRAIN_RUNS"]) / run
    assert [step for step, _ in tensorboard(folder, "train_loss")] == list(range(1, STEPS + 1))
    assert [epoch for epoch, _ in tensorboard(folder, "test_loss")] == [0, 1, 2]
    assert len(os.listdir(env["TUITRAIN_RUNS"])) == 2

    nothing_left = tuitrain(env, "resume", run)
    assert nothing_left.returncode == 2
    assert nothing_left.stderr == (
        f"tuitrain: RUN: {run} has done {STEPS} steps, and with max_steps = {STEPS} there are no more than {STEPS}; "
        "give --max-steps a larger number.\n"
    )
    for saved in (folder / "checkpoints").glob("step-*/model.safetensors"):
        saved.write_bytes(saved.read_bytes()[:-1])
    damaged = tuitrain(env, "resume", run, "--max-steps", str(2 * STEPS))
    assert damaged.returncode == 1
    assert f"model.safetensors is not as it was written (SHA-256 differs); it is set aside as damaged-step-{STEPS:08d}" in damaged.stderr
    assert "checkpoints can be used; start it anew." in damaged.stdout
    assert json.loads((folder / "state.json").read_text())["state"] == "finished"


def tensorboard(folder: Path, tag: str) -> list[tuple[int, float]]:
    """What TensorBoard's own loader reads."""
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    accumulator = EventAccumulator(str(folder / "tensorboard"), size_guidance={SCALARS: 0})
    accumulator.Reload()
    return [(point.step, point.value) for point in accumulator.Scalars(tag)]
