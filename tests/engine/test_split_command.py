"""`tuitrain run` with several devices, as a whole program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuitrain.recipes import load_recipe


def tuitrain(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TUITRAIN_RUNS": str(home / "runs"), "XDG_CACHE_HOME": str(home / "cache"), "HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "tuitrain", *args], env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )


@pytest.mark.long
def test_a_transformer_split_over_two_entries_of_the_cpu(tmp_path: Path) -> None:
    options = ("--data", "synthetic", "--batch-size", "250", "--max-steps", "2", "--device", "cpu,cpu", "--strategy", "split", "--json")
    done = tuitrain(tmp_path, "run", "transformer", *options)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    started = next(event for event in events if event["event"] == "run_started")
    assert (started["device"], started["strategy"]) == (["cpu", "cpu"], "split")
    shapes = next(event for event in events if event["event"] == "replicas")
    assert (shapes["batch"], shapes["gathered"]) == ([32, 250, 96], None)
    assert [(replica["input"], replica["output"]) for replica in shapes["replicas"]] == [([32, 125, 96], [125, 10])] * 2
    stats = next(event for event in events if event["event"] == "replica_stats")
    assert all(replica["step_seconds"] > 0 and replica["samples_per_second"] > 0 for replica in stats["replicas"])
    assert "Dropout draws for each replica anew" in done.stderr
    kept = load_recipe(str(tmp_path / "runs" / started["run"] / "run.toml"))
    assert (kept.device, kept.strategy) == ("cpu,cpu", "split")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--device", "cpu", "--strategy", "dp"), "strategy: dp (nn.DataParallel) takes GPUs only, and device is 'cpu'; use split."),
        (
            ("--device", "cuda:1,cuda:1", "--strategy", "ddp"),
            "strategy: ddp takes each GPU once, and device is 'cuda:1,cuda:1'; use split.",
        ),
        (
            ("--device", "cpu,cuda:0", "--strategy", "ddp"),
            "strategy: ddp takes either GPUs or the CPU, and device is 'cpu,cuda:0'; use split.",
        ),
    ],
)
def test_what_does_not_go_together_is_one_sentence_and_no_run(tmp_path: Path, options: tuple[str, ...], sentence: str) -> None:
    done = tuitrain(tmp_path, "run", "rnn", *options)
    assert (done.returncode, done.stderr) == (2, f"tuitrain: {sentence}\n")
    assert not (tmp_path / "runs").exists()


def test_the_recipes_are_listed_with_what_they_are(tmp_path: Path) -> None:
    listed = dict(line.split(maxsplit=1) for line in tuitrain(tmp_path, "recipes").stdout.splitlines())
    assert {"rnn", "rnn-batch-first", "transformer", "transformer-batch-first", "resnet18"} <= listed.keys()
    assert "axis 1" in listed["rnn"]
