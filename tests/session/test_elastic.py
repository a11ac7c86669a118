"""Runs on torch's elastic launcher: the losses of one device, requests, deaths, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from small_groups import AGENT, BOUND, RANK, events_of, losses_of, processes_of, small_run, spread, wait_until
from small_sessions import Heard

from tuitrain.config import ConfigError
from tuitrain.events import Checkpoint, Notice, Replicas, RunEnded, RunStarted, State, Step
from tuitrain.runs.store import MetricsReader
from tuitrain.session.control import Control
from tuitrain.session.elastic import Bounds
from tuitrain.session.worker import WorkerSession


def test_ranks_learn_what_one_device_learns_with_an_uneven_batch_and_an_idle_rank(tmp_path: Path) -> None:
    # 100 samples in batches of 8 over three ranks: 3, 3, 2, and the last batch 2, 2 and nothing.
    changes = {"batch_size": 8, "epochs": 3, "shuffle": True}
    events = events_of(small_run(3, **changes), tmp_path)
    alone = losses_of(events_of(small_run(1, **changes), tmp_path / "alone"))
    losses = losses_of(events)
    assert len(losses) == 39
    assert losses == pytest.approx(alone, rel=1e-9)
    full, last = [event for event in events if isinstance(event, Replicas)][:2]
    assert [replica.input for replica in full.replicas] == [(3, 5), (3, 5), (2, 5)]
    assert [replica.output for replica in last.replicas] == [(2, 2), (2, 2), None]
    assert full.batch == (8, 5)
    assert sum(replica.loss * size for replica, size in zip(full.replicas, (3, 3, 2), strict=True)) / 8 == pytest.approx(losses[1])


def test_pause_checkpoint_and_a_killed_rank(tmp_path: Path) -> None:
    heard = Heard()
    session = WorkerSession(lambda: spread(), tmp_path, list)
    session.subscribe(heard)
    session.start(small_run(2, max_steps=60, epochs=100))
    session.pause()
    wait_until(lambda: session.state == "paused" or session.refusal, BOUND)
    assert session.record is not None
    assert session.record.step == 1
    session.checkpoint()
    wait_until(lambda: heard.batches and any(isinstance(event, Checkpoint) for event in heard.events), BOUND)
    processes_of(os.getpid(), RANK)[1].kill()
    assert heard.over.wait(BOUND)
    assert session.join(BOUND)

    texts = [event.text for event in heard.events if isinstance(event, Notice)]
    assert any("rank 1 (cpu) died (SIGKILL); the group started again from step 1, restart 1 of 3." in text for text in texts), texts
    assert [event.resumed_from for event in heard.events if isinstance(event, RunStarted)] == [None, 1]
    assert [event.state for event in heard.events if isinstance(event, State)] == ["running", "paused", "running"]
    ended = heard.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.state, ended.step, ended.error) == ("finished", 60, None)
    assert session.record.path is not None
    assert len(list(tmp_path.iterdir())) == 1

    alone = losses_of(events_of(small_run(1, max_steps=60, epochs=100), tmp_path / "alone"))
    assert losses_of(heard.events) == pytest.approx(alone, rel=1e-9)
    assert [session.record.loss.at(step) for step in (1, 60)] == [(1, pytest.approx(alone[1])), (60, pytest.approx(alone[60]))]
    assert len(session.record.loss) == 60
    with MetricsReader(session.record.path / "metrics.sqlite") as reader:
        assert [step.step for _, step in reader.step_events()] == list(range(1, 61))


def test_a_rank_that_hangs_is_named_and_without_restarts_ends_the_run(tmp_path: Path) -> None:
    control = Control(list)
    notices, stopped = [], None
    for event in spread(Bounds(silent=3, hung=5))(small_run(2, epochs=10**6, max_restarts=0), control):
        if isinstance(event, RunStarted):
            control.folder = tmp_path
        if isinstance(event, Step) and stopped is None:
            stopped = processes_of(os.getpid(), RANK)[1]
            stopped.suspend()
        if isinstance(event, Notice):
            notices.append(event.text)
        ended = event
    assert stopped is not None
    assert any(f"rank 1 (cpu, pid {stopped.pid}) has not answered for 3 s" in text for text in notices), notices
    assert isinstance(ended, RunEnded)
    assert ended.state == "failed"
    assert ended.error is not None
    assert f"rank 1 (cpu, pid {stopped.pid}) did not answer for 5 s and was killed, and max_restarts is 0." in ended.error
    assert not stopped.is_running()


@pytest.mark.parametrize("ending", ["host killed", "launcher killed", "interrupted"])
def test_nothing_outlives_the_run(ending: str, tmp_path: Path) -> None:
    shared = set(os.listdir("/dev/shm")) if sys.platform == "linux" else set()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "tuitrain", "run", "random-linear", "--device", "cpu,cpu", "--strategy", "ddp", "--json"]
    command += ["--epochs", "1000000", "--runs-dir", str(tmp_path / "runs")]
    host = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(temporary)})
    assert host.stdout is not None
    try:
        while json.loads(host.stdout.readline())["event"] != "step":
            pass
        ranks, agents = processes_of(host.pid, RANK), processes_of(host.pid, AGENT)
        assert (len(ranks), len(agents)) == (2, 1)
        if ending == "interrupted":
            host.send_signal(signal.SIGINT)
        else:
            (psutil.Process(host.pid) if ending == "host killed" else agents[0]).kill()
        last = host.stdout.read().splitlines()
        psutil.wait_procs([*ranks, *agents], timeout=10)
        assert not [process for process in (*ranks, *agents) if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
        code = host.wait(10)
    finally:
        host.kill()
        host.stdout.close()
    wait_until(lambda: not list(temporary.glob("tuitrain-*")), 5)
    assert not (set(os.listdir("/dev/shm")) - shared if sys.platform == "linux" else set())
    assert code == {"host killed": -signal.SIGKILL, "launcher killed": 1, "interrupted": 130}[ending]
    if ending == "launcher killed":
        assert "the launcher of the processes died (SIGKILL)" in json.loads(last[-1])["error"]
    if ending == "interrupted":
        assert json.loads(last[-1])["state"] == "interrupted"
        assert list((tmp_path / "runs").glob("*/checkpoints/step-*"))


def test_what_a_rank_refuses_is_refused_before_a_run_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="even_split: batch_size is 5"):
        events_of(small_run(2, batch_size=5, even_split=True), tmp_path)
