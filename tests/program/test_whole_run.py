"""`tuitrain run` and the commands around it, as whole programs without a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from programs import RESTING, tuitrain, until
from terminal import TUITRAIN, Terminal


def events(text: str) -> list[dict[str, Any]]:
    """The JSON lines of a run."""
    return [json.loads(line) for line in text.splitlines()]


def of(kind: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of one kind."""
    return [line for line in lines if line["event"] == kind]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], subprocess.CompletedProcess[str]]:
    """A short run of the seed CNN on the synthetic data, and the environment it ran in."""
    home = tmp_path_factory.mktemp("home")
    env = {"TUITRAIN_RUNS": str(home / "runs"), "XDG_CACHE_HOME": str(home / "cache"), "HOME": str(home)}
    return env, tuitrain(env, "run", "seed-cnn", "--device", "cpu", "--data", "synthetic", "--max-steps", "3", "--json")


def test_json_lines_follow_the_contract(finished: tuple[dict[str, str], subprocess.CompletedProcess[str]]) -> None:
    _, done = finished
    assert done.returncode == 0, done.stderr
    lines = events(done.stdout)
    started = lines[0]
    assert started["event"] == "run_started"
    assert (started["recipe"], started["device"], started["strategy"], started["data"]) == ("seed-cnn", ["cpu"], "single", "synthetic")
    assert (started["parameters"], started["train_samples"], started["test_samples"], started["resumed_from"]) == (
        145_578,
        12_800,
        2_000,
        None,
    )
    shapes = of("replicas", lines)
    assert [shape["step"] for shape in shapes] == [1]
    assert shapes[0]["batch"] == [64, 3, 32, 32]
    assert shapes[0]["gathered"] is None
    replica = shapes[0]["replicas"][0]
    assert (replica["index"], replica["device"], replica["input"], replica["output"]) == (0, "cpu", [64, 3, 32, 32], [64, 10])
    steps = of("step", lines)
    assert [step["step"] for step in steps] == [1, 2, 3]
    assert replica["loss"] == steps[0]["loss"]
    assert set(steps[0]) == {"event", "step", "epoch", "loss", "lr", "samples_per_second"}
    assert len(of("eval", lines)) == 1
    assert [checkpoint["kind"] for checkpoint in of("checkpoint", lines) if checkpoint["kind"] != "best"] == ["last"]
    assert Path(of("checkpoint", lines)[0]["path"]).is_dir()
    assert lines[-1] == {"event": "run_ended", "run": started["run"], "state": "finished", "step": 3, "error": None}
    assert {line["event"] for line in lines} <= {
        "run_started",
        "replicas",
        "replica_stats",
        "step",
        "eval",
        "checkpoint",
        "notice",
        "state",
        "run_ended",
    }


def test_the_run_can_be_listed_shown_exported_and_deleted(
    finished: tuple[dict[str, str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    env, done = finished
    run = events(done.stdout)[0]["run"]
    listed = json.loads(tuitrain(env, "runs", "--json").stdout)
    assert [row["run"] for row in listed] == [run]
    row = listed[0]
    keys = "run name recipe state attached device strategy data step epoch loss accuracy started host pid".split()
    assert list(row) == keys
    assert (row["state"], row["step"], row["device"], row["data"], row["attached"]) == ("finished", 3, ["cpu"], "synthetic", 0)
    shown = json.loads(tuitrain(env, "show", "last", "--json").stdout)
    assert list(shown) == [*keys, "config", "checkpoints"]
    assert shown["config"]["max_steps"] == 3
    assert shown["checkpoints"][0]["step"] == 3
    assert run in tuitrain(env, "runs").stdout
    assert "batch_size = 64" in tuitrain(env, "show", "last").stdout
    exported = json.loads(tuitrain(env, "export", "last", "--format", "json").stdout)
    assert exported["steps"] == of("step", events(done.stdout))
    assert exported["evals"] == of("eval", events(done.stdout))
    rows = tuitrain(env, "export", run, "--format", "csv").stdout.splitlines()
    assert rows[0].split(",")[0] == "event"
    assert len([row for row in rows if row.startswith("step,")]) == 3
    weights = tmp_path / "weights.pt"
    assert tuitrain(env, "export", run, "--format", "pt", "-o", str(weights)).returncode == 0
    assert weights.stat().st_size > 4 * 145_578
    assert "import tuitrain" not in tuitrain(env, "export", run, "--format", "py").stdout
    assert not tuitrain(env, "show", run[:-1]).returncode
    unanswered = tuitrain(env, "delete", run)
    assert (unanswered.returncode, unanswered.stderr.count("\n")) == (2, 1)
    assert "--yes" in unanswered.stderr
    declined = subprocess.run(
        [TUITRAIN, "delete", run], env={**os.environ, **env}, input="n\n", capture_output=True, text=True, check=False
    )
    assert (declined.returncode, declined.stderr) == (1, f"kept {run}\n")
    assert tuitrain(env, "delete", run, "--yes").returncode == 0
    assert json.loads(tuitrain(env, "runs", "--json").stdout) == []
    assert tuitrain(env, "show", "last").returncode == 2


def test_random_linear_shows_the_shapes_of_the_table(env: dict[str, str]) -> None:
    done = tuitrain(env, "run", "random-linear", "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    lines = events(done.stdout)
    assert [(shape["step"], shape["replicas"][0]["input"], shape["replicas"][0]["output"]) for shape in of("replicas", lines)] == [
        (1, [30, 5], [30, 2]),
        (4, [10, 5], [10, 2]),
    ]
    assert of("eval", lines) == []
    assert len(of("step", lines)) == 4


def test_plain_lines_in_a_pipe(env: dict[str, str]) -> None:
    done = tuitrain(env, "run", "random-linear", "--device", "cpu", "--name", "a \x1b[2J b")
    assert done.returncode == 0
    assert "random-linear on cpu" in done.stdout
    assert "replica 0 cpu [30, 5] -> [30, 2]" in done.stdout
    assert "finished at step 4" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "seed-cnn", "--lr", "nan"], ["lr", "nan", "above 0"]),
        (["run", "seed-cnn", "--epochs", "-1"], ["epochs", "-1", "1 or more"]),
        (["run", "seed-cn"], ["seed-cn", "Did you mean 'seed-cnn'?"]),
        (["run", "seed-cnn", "--data", "no-such-folder"], ["data", "no-such-folder"]),
        (["run", "seed-cnn", "--set", "lrr=1"], ["lrr", "Did you mean 'lr'?"]),
        (["run", "seed-cnn", "--set", "model=nowhere:net", "--data", "synthetic"], ["model", "nowhere"]),
        (["run", "random-linear", "--set", "model=seed-cnn", "--device", "cpu"], ["model", "seed-cnn", "[2, 5]"]),
        (["bench", "seed-cnn", "--steps", "0"], ["--steps", "'0'", "a whole number of 1 or more"]),
        (["seed-cnn"], ["there is no command 'seed-cnn'", "Did you mean 'run seed-cnn'?"]),
        (["run"], ["RECIPE is missing", "one of seed-cnn, multi-gpu", "or a TOML file. For a network alone, --set model=NETWORK"]),
        (["run", "--set", "model=resnet50"], ["model: 'resnet50' is not known", "Did you mean 'torchvision.models:resnet50'?"]),
        (["resume"], ["RUN is missing", "an id, the start of one, or last"]),
        (["export", "last"], ["--format is missing", "one of csv, json, pt, py."]),
        (["run", "seed-cnn", "--epoch", "3"], ["--epoch: there is no such option. Did you mean '--epochs'?"]),
        (["run", "seed-cnn", "-json"], ["-j: there is no such option", "one of --data", "--json"]),
        (["run", "seed-cnn", "--device", "cpu", "cpu"], ["'cpu' is more than `tuitrain run [OPTIONS] [RECIPE]` takes."]),
        (
            ["run", "seed-cnn", "batch-size=32", "lr=0.1"],
            ["'batch-size=32 lr=0.1' is more than `tuitrain run [OPTIONS] [RECIPE]` takes. It is a field: --set batch_size=VALUE."],
        ),
        (["run", "seed-cnn", "rate=0.1"], ["'rate=0.1' is more than `tuitrain run [OPTIONS] [RECIPE]` takes."]),
        (["show", "x"], ["RUN", "no runs"]),
        (["export", "last", "--format", "json"], ["run"]),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(env: dict[str, str], tmp_path: Path, args: list[str], words: list[str]) -> None:
    done = tuitrain(env, *args, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    sentence = done.stderr.splitlines()[-1]
    assert all(word in sentence for word in words), sentence
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "runs").glob("*"))


def test_an_unwritable_runs_folder_is_one_sentence(env: dict[str, str], tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    done = tuitrain(env, "run", "random-linear", "--device", "cpu", "--runs-dir", str(blocked))
    assert done.returncode == 2
    assert "file" in done.stderr
    assert "Traceback" not in done.stderr


def test_cuda_without_a_gpu_says_why_and_what_to_do(env: dict[str, str]) -> None:
    done = tuitrain(env, "run", "random-linear", "--device", "cuda")
    assert done.returncode == 2
    assert "cuda" in done.stderr
    assert "cpu" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_at_a_step_boundary_with_a_last_checkpoint(env: dict[str, str], number: signal.Signals, code: int) -> None:
    command = [TUITRAIN, "run", *RESTING, "--json"]
    with subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "step":
                break
        process.send_signal(number)
        lines += events(process.stdout.read())
        assert process.wait(timeout=60) == code
    ended = lines[-1]
    assert (ended["event"], ended["state"]) == ("run_ended", "interrupted")
    saved = of("checkpoint", lines)[-1]
    assert (saved["kind"], saved["step"]) == ("last", ended["step"])
    assert json.loads(tuitrain(env, "runs", "--json").stdout)[0]["state"] == "interrupted"


def test_a_second_ctrl_c_ends_at_once(env: dict[str, str]) -> None:
    # A model whose step takes a minute: only "at once" can end it within the bound.
    folder = Path(env["HOME"])
    (folder / "slow.py").write_text(
        "import time, torch\n"
        "class Slow(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        if self.training:\n"
        "            print('forward', flush=True)\n"
        "            time.sleep(60)\n"
        "        return super().forward(x)\n"
        "def make(config):\n    return Slow(5, 2)\n",
        encoding="utf-8",
    )
    command = [TUITRAIN, "run", "random-linear", "--device", "cpu", "--set", "model=slow:make"]
    with subprocess.Popen(
        command, env={**os.environ, **env}, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert any("forward" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert any("once more" in line for line in process.stderr)
        until(lambda: ended_by(process, signal.SIGINT), 20)
        assert process.returncode == 130


def ended_by(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    """Send it once more, unless the process has ended."""
    process.send_signal(number)
    return process.poll() is not None


def test_a_failed_run_exits_with_1_and_says_the_step(env: dict[str, str]) -> None:
    done = tuitrain(env, "run", "random-linear", "--device", "cpu", "--lr", "1e38", "--max-steps", "20", "--json")
    assert done.returncode == 1
    ended = events(done.stdout)[-1]
    assert ended["state"] == "failed"
    assert "step" in ended["error"]
    assert json.loads(tuitrain(env, "runs", "--json").stdout)[0]["state"] == "failed"


NETS = """from torch import nn
class Net(nn.Linear):
    def forward(self, inputs):
        if self.training:
            raise ValueError("no more")
        return super().forward(inputs)
def make(config):
    return Net(5, 2)
"""


def test_the_traceback_of_a_failed_run_is_on_stderr_and_in_its_log(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    env = {**env, "PYTHONPATH": f"{tmp_path}:{env['PYTHONPATH']}"}
    done = tuitrain(env, "run", "random-linear", "--device", "cpu", "--set", "model=nets:make")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: no more"
    log = (Path(env["TUITRAIN_RUNS"]) / json.loads(tuitrain(env, "runs", "--json").stdout)[0]["run"] / "log.txt").read_text()
    assert "output ValueError: no more\n" in log
    assert log.endswith("error failed: step 1: ValueError while training: no more (nets.py, line 5).\n")


def test_a_network_that_crashes_when_it_is_tried_says_where(env: dict[str, str]) -> None:
    crashing = ("run", *RESTING, "--set", "model=small_net:Crashing")
    here = tuitrain(env, *crashing)
    assert here.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in here.stderr
    assert 'small_net.py", line 43 in forward\n' in here.stderr
    there = tuitrain(env, *crashing, "--detach")
    assert there.returncode == 2
    where = "Segmentation fault, in forward (small_net.py, line 43)."
    assert there.stderr.endswith(f"tuitrain: the run's process in the background was ended by signal 11: {where}\n")


def test_nobody_reads_the_output_any_more(env: dict[str, str]) -> None:
    command = f"{TUITRAIN} run {' '.join(RESTING)} --json | head -n 3"
    done = subprocess.run(command, shell=True, env={**os.environ, **env}, capture_output=True, text=True, timeout=300)
    assert len(done.stdout.splitlines()) == 3
    assert "Traceback" not in done.stderr
    assert json.loads(tuitrain(env, "runs", "--json").stdout)[0]["state"] == "interrupted"


def test_python_m_tuitrain_is_the_same_command(env: dict[str, str]) -> None:
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "tuitrain", "recipes"], env={**os.environ, **env}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == tuitrain(env, "recipes").stdout
    assert "seed-cnn" in done.stdout


def test_progress_bars_on_a_terminal(env: dict[str, str]) -> None:
    command = [TUITRAIN, "run", *RESTING, "--max-steps", "40", "--name", "[/]"]
    with Terminal(command, env, 100, 30) as terminal:
        terminal.wait(r"epoch 1/1 .*step \d+/40 .*loss \d+\.\d+ .*samples/s")
        terminal.wait("finished at step 40")
        assert terminal.exit_code() == 0
    assert b"\x1b[?25h" in terminal.raw, "the cursor must be visible again"


def test_ctrl_c_on_a_terminal(env: dict[str, str]) -> None:
    with Terminal([TUITRAIN, "run", *RESTING], env, 100, 30) as terminal:
        terminal.wait(r"step \d+/33,334")
        terminal.press("\x03")
        terminal.wait("interrupted at step")
        assert terminal.exit_code() == 130
