"""Ranks that torchrun or srun started: whose rank a process is, what fits, and the run that all of them train."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest
import small_sessions
from small_groups import BOUND, events_of, losses_of, small_run

from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import Event, Progress
from tuitrain.runs.process import Process
from tuitrain.session.launched import NOTE, World, earlier_run, first_host, fitted, tell_torch, world_of
from tuitrain.session.rank_output import LOGS
from tuitrain.session.rank_words import Words
from tuitrain.wire import Joined

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "box", "MASTER_PORT": "1"}
SRUN = {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_LOCALID": "0", "SLURM_NODEID": "1", "SLURM_JOB_ID": "4711"}
SRUN |= {"SLURM_STEP_TASKS_PER_NODE": "2,1", "SLURM_STEP_NODELIST": "gpu[03-04,7],login"}


def test_torchrun_says_which_rank_this_is() -> None:
    world = world_of(TORCHRUN | {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "1"})
    assert world is not None
    assert (world.launcher, world.rank, world.size, world.local_rank, world.local_size) == ("torchrun", 3, 4, 1, 2)
    assert (world.job, world.restarted) == (None, True)
    assert world.parent is not None
    assert world.parent.pid == os.getppid()


def test_what_a_launcher_leaves_out_is_told_to_the_rank() -> None:
    environment = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "box", "MASTER_PORT": "1"}
    world = world_of(environment)
    assert world is not None
    tell_torch(world, environment)
    assert environment["LOCAL_RANK"] == "1"
    given = dict(TORCHRUN)
    tell_torch(world, given)
    assert given == TORCHRUN


def test_srun_says_which_rank_this_is_and_where_all_meet() -> None:
    world = world_of(SRUN)
    assert world == World("srun", 2, 3, 0, 1, "4711.0")
    environment = dict(SRUN)
    tell_torch(world, environment)
    assert {name: environment[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")} == {
        "RANK": "2",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "0",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "gpu03",
        "MASTER_PORT": "24711",
    }


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WORLD_SIZE": "2"},
        # A batch script of Slurm's, in which nobody started any task.
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "4711"},
    ],
)
def test_without_a_launcher_there_is_no_world(environment: dict[str, str]) -> None:
    assert world_of(environment) is None


@pytest.mark.parametrize(("rank", "size"), [("4", "4"), ("0", "0")])
def test_a_rank_that_its_world_has_not_is_refused(rank: str, size: str) -> None:
    with pytest.raises(ConfigError, match=rf"^RANK: {rank} in the environment is not below WORLD_SIZE, which is {size}; "):
        world_of(TORCHRUN | {"RANK": rank, "WORLD_SIZE": size})


@pytest.mark.parametrize(("name", "value"), [("RANK", "x"), ("WORLD_SIZE", "²"), ("MASTER_PORT", "")])
def test_half_a_world_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}: '{value}' in the environment is no number"):
        world_of(TORCHRUN | {name: value})


@pytest.mark.parametrize("port", ["0", "65536"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    for launched in (
        lambda: world_of(TORCHRUN | {"MASTER_PORT": port}),
        lambda: tell_torch(World("srun", 0, 1, 0, 1), SRUN | {"MASTER_PORT": port}),
    ):
        with pytest.raises(ConfigError, match=rf"^MASTER_PORT: {port} in the environment is no port; it must be 1 to 65535"):
            launched()


@pytest.mark.parametrize(("nodes", "first"), [("gpu[03-07,12],login", "gpu03"), ("box", "box"), ("a,b", "a"), ("n[7,9-10]", "n7")])
def test_the_first_of_a_node_list(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (RunConfig(device="cpu", strategy="ddp"), ["device: 'cpu' names 1", "torchrun started 2 processes", "cpu,cpu"]),
        (RunConfig(device="cuda:0,cuda:1,cuda:2"), ["names 3", "cuda:0,cuda:1,"]),
        (RunConfig(device="cpu,cpu", strategy="split"), ["strategy: torchrun started 2 processes, and split"]),
        (RunConfig(device="cpu,cpu", strategy="ddp", nnodes="2", rdzv_endpoint="box:1"), ["leave nnodes and rdzv_endpoint out"]),
    ],
)
def test_what_does_not_fit_the_ranks_is_refused(config: RunConfig, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        fitted(config, World("torchrun", 0, 2, 0, 2))
    assert all(word in str(error.value) for word in words)


def test_what_fits_is_ddp_and_one_process_may_train_as_ever() -> None:
    two, one = World("torchrun", 0, 2, 0, 2), World("torchrun", 0, 1, 0, 1)
    assert [fitted(RunConfig(device=device), two) for device in ("auto", "cpu,cpu")] == [
        RunConfig(device=device, strategy="ddp") for device in ("auto", "cpu,cpu")
    ]
    assert fitted(RunConfig(), one) is None
    assert fitted(RunConfig(strategy="ddp"), one) == RunConfig(strategy="ddp")
    assert fitted(RunConfig(strategy="ddp", device="cpu,cpu"), one) is None


def test_a_restart_finds_its_run_and_another_job_does_not(tmp_path: Path) -> None:
    parent = Process("box", 77, 1.5, "boot")
    for name, job in (("20260101-1", "one"), ("20260102-2", "two"), ("20260103-3", "one")):
        (tmp_path / name).mkdir()
        (tmp_path / name / NOTE).write_text(json.dumps({"job": job, "parent": msgspec.to_builtins(parent) if name.endswith("2") else None}))
    (tmp_path / "20260104-4").mkdir()

    def found(**changes: Any) -> str | None:
        path = earlier_run(tmp_path, World(**({"launcher": "torchrun", "rank": 0, "size": 2, "local_rank": 0, "local_size": 2} | changes)))
        return None if path is None else path.name

    assert found(job="one", restarted=True) == "20260103-3"
    assert found(job="one", restarted=True, rank=1) is None
    assert found(job="one") is None
    assert found(parent=parent) == "20260102-2"
    assert found(parent=msgspec.structs.replace(parent, pid_started=2.5), restarted=True) is None


def test_a_folder_of_runs_that_may_not_be_entered_has_no_run_of_these_ranks(
    out_of_sight: Path, as_another_user: Callable[[Callable[[], object]], None]
) -> None:
    def look() -> None:
        assert earlier_run(out_of_sight, World("torchrun", 0, 2, 0, 2, restarted=True, job="one")) is None

    as_another_user(look)


# -- the launchers ---------------------------------------------------------------------------------------------------------


class Timers:
    """Timers that run out when they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._running: list[Any] = []
        monkeypatch.setattr("tuitrain.session.rank_words.threading.Timer", self)

    def __call__(self, seconds: float, call: Callable[..., object], given: tuple[object, ...]) -> Any:
        timer = SimpleNamespace(
            start=lambda: self._running.append(timer), cancel=lambda: self._running.remove(timer), run=lambda: call(*given)
        )
        return timer

    def run_out(self) -> None:
        for timer in self._running:
            timer.run()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_says_what_it_waits_for_until_the_run_begins(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def told() -> str:
        timers.run_out()
        return capfd.readouterr().err

    listeners: list[Callable[[Sequence[Event]], None]] = []
    timers = Timers(monkeypatch)
    # It would take the standard error of this process.
    monkeypatch.setattr(Words, "_send_to", lambda words, descriptor: None)
    words = Words(World("torchrun", rank, 2, rank, 2), SimpleNamespace(subscribe=listeners.append, record=None))  # type: ignore[arg-type]
    (hear,) = listeners
    hear([Progress(phase="importing torch"), Progress(phase="waiting for the other ranks at box:1")])
    assert told() == f"tuitrain: rank {rank} of 2 is still waiting for the other ranks at box:1, after 10 s.\n"
    hear(
        [
            small_sessions.started(3) if rank == 0 else Joined(folder=str(tmp_path / "elsewhere" / "run"), host="box"),
            Progress(phase="evaluating"),
        ]
    )
    assert told() == ""
    hear([Progress(phase="evaluating")])
    words.close(0)
    assert told() == ""


def test_what_a_rank_says_before_it_joins_stands_before_what_it_says_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread prints in the midst of it."""
    (tmp_path / "run").mkdir()
    listeners: list[Callable[[Sequence[Event]], None]] = []
    sent_to: list[int] = []

    def send_to(words: Words, descriptor: int) -> None:
        if sent_to:
            os.write(sent_to[0], b"in between\n")
        sent_to.append(os.dup(descriptor))

    # It would take the standard error of this process.
    monkeypatch.setattr(Words, "_send_to", send_to)
    Words(World("torchrun", 1, 2, 1, 2), SimpleNamespace(subscribe=listeners.append, record=None))  # type: ignore[arg-type]
    os.write(sent_to[0], b"early\n")
    listeners[0]([Joined(folder=str(tmp_path / "run"), host="box")])
    os.write(sent_to[1], b"late\n")
    for descriptor in sent_to:
        os.close(descriptor)
    assert (tmp_path / "run" / LOGS / "rank-1.log").read_text() == "early\nin between\nlate\n"


def test_a_rank_that_ends_waits_for_nothing(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    listeners: list[Callable[[Sequence[Event]], None]] = []
    timers = Timers(monkeypatch)
    words = Words(World("torchrun", 0, 2, 0, 2), SimpleNamespace(subscribe=listeners.append, record=None))  # type: ignore[arg-type]
    listeners[0]([Progress(phase="importing torch")])
    words.close(130)
    timers.run_out()
    assert capfd.readouterr().err == ""


@contextmanager
def started(command: list[str], folder: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A command with its runs under `folder`; what is left of it at the end is killed."""
    # What a test process of xdist has of its own must not look like a launcher's.
    env = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    errors = folder / f"errors-{environment.get('SLURM_PROCID', '')}.txt"
    with errors.open("w") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True, env=env | environment, cwd=folder)

    def end() -> None:
        for left in (*psutil.Process(process.pid).children(recursive=True), process) if process.poll() is None else ():
            left.kill()

    # Whoever waits for a line that never comes then reads the end.
    late = threading.Timer(2 * BOUND, end)
    late.start()
    try:
        yield process
    finally:
        late.cancel()
        late.join()
        end()
        process.wait(BOUND)
        assert process.stdout is not None
        process.stdout.close()


def run_options(folder: Path, *more: str) -> list[str]:
    options = ["--strategy", "ddp", "--precision", "fp64", "--runs-dir", str(folder / "runs"), "--json"]
    return ["-m", "tuitrain", "run", "random-linear", *options, *more]


def torchrun(folder: Path, *options: str) -> list[str]:
    # Left to itself it keeps its logs in the system's temporary folder, and leaves them there.
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--log-dir", str(folder / "logs"), *options]


def event_of(process: subprocess.Popen[str], kind: str, at_least: int = 0) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["event"] == kind and event.get("step", at_least) >= at_least:
            return event
    raise AssertionError(f"no {kind} came")


def test_torchrun_s_ranks_train_one_run_that_outlives_the_death_of_a_rank(tmp_path: Path) -> None:
    options = run_options(tmp_path, "--device", "cpu,cpu", "--epochs", "1000000")
    with started(torchrun(tmp_path, "--max-restarts", "1", *options), tmp_path) as launcher:
        begun = event_of(launcher, "run_started")
        assert (begun["device"], begun["resumed_from"]) == (["cpu", "cpu"], None)
        event_of(launcher, "checkpoint")
        ranks = psutil.Process(launcher.pid).children()
        next(rank for rank in ranks if rank.environ()["RANK"] == "1").kill()
        assert "another rank has gone" in event_of(launcher, "run_ended")["error"]
        again = event_of(launcher, "run_started")
        assert (again["run"], again["resumed_from"] >= 4) == (begun["run"], True)
        event_of(launcher, "step")
        ranks = psutil.Process(launcher.pid).children()
        launcher.send_signal(signal.SIGTERM)
        ended = event_of(launcher, "run_ended")
        assert launcher.wait(BOUND) != 0
    assert ended["state"] == "interrupted"
    run = tmp_path / "runs" / begun["run"]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [run.name]
    assert (run / "checkpoints" / f"step-{ended['step']:08d}").is_dir()
    # What rank 1 said is in a file of its own; where rank 0's word came before the signal, that is nothing.
    assert "Traceback" not in (run / "ranks" / "rank-1.log").read_text()
    assert not psutil.wait_procs(ranks, timeout=BOUND)[1]


def test_srun_s_tasks_learn_what_one_device_learns_and_any_of_them_ends_the_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    variables = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, *run_options(tmp_path, "--epochs", "1000000")]
    with (
        started(command, tmp_path, SLURM_PROCID="0", SLURM_LOCALID="0", **variables) as leader,
        started(command, tmp_path, SLURM_PROCID="1", SLURM_LOCALID="1", **variables) as other,
    ):
        assert leader.stdout is not None
        losses, told = {}, False
        for line in leader.stdout:
            event = json.loads(line)
            if event["event"] == "step":
                losses[event["step"]] = event["loss"]
            if len(losses) == 20 and not told:
                told = True
                other.send_signal(signal.SIGTERM)
        assert (leader.wait(BOUND), other.wait(BOUND)) == (130, 143)
        assert other.stdout is not None
        assert other.stdout.read() == ""
    assert (event["event"], event["state"]) == ("run_ended", "interrupted")
    alone = losses_of(events_of(small_run(1, max_steps=20, epochs=100), tmp_path / "alone"))
    assert {step: losses[step] for step in alone} == pytest.approx(alone, rel=1e-9)


def test_a_rank_that_waits_for_one_that_hangs_says_so_before_its_launcher_kills_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    variables = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, *run_options(tmp_path, "--epochs", "1000000")]
    with (
        started(command, tmp_path, SLURM_PROCID="0", SLURM_LOCALID="0", **variables) as leader,
        started(command, tmp_path, SLURM_PROCID="1", SLURM_LOCALID="1", **variables) as other,
    ):
        saved = event_of(leader, "checkpoint")
        other.send_signal(signal.SIGSTOP)
        leader.send_signal(signal.SIGTERM)
        asked = time.monotonic()
        ended = event_of(leader, "run_ended")
        assert leader.wait(BOUND) == 128 + signal.SIGTERM
        assert time.monotonic() - asked < 30
    assert (ended["state"], ended["step"] >= saved["step"]) == ("failed", True)
    assert ended["error"].startswith("another rank has gone or hangs: ")


def test_a_mistake_is_said_once(tmp_path: Path) -> None:
    with started(torchrun(tmp_path, *run_options(tmp_path, "--device", "cpu")), tmp_path) as launcher:
        assert launcher.wait(BOUND) != 0
    assert (tmp_path / "errors-.txt").read_text().count("tuitrain: device: 'cpu' names 1") == 1
    assert not (tmp_path / "runs").exists()
