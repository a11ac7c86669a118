"""Runs on torch's elastic launcher: the losses of one device, where the time goes, ranks that hang, and nothing left behind."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import psutil
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from small_groups import AGENT, BOUND, RANK, events_of, losses_of, processes_of, quiet_control, small_run, spread, wait_until
from small_sessions import started

from tuitrain.config import ConfigError
from tuitrain.devices.processes import Listed, ProcessTable
from tuitrain.engine.checkpoint import checkpoints, folder_name
from tuitrain.engine.ranks.meeting import Meeting
from tuitrain.events import (
    Checkpoint,
    Eval,
    Event,
    Losses,
    Notice,
    Phases,
    Predictions,
    Progress,
    Replicas,
    Request,
    RunEnded,
    RunStarted,
    RunState,
    State,
    Stays,
    Step,
    StepTimes,
)
from tuitrain.paths import CHECKPOINTS
from tuitrain.session import elastic
from tuitrain.session.rank_silence import Bounds
from tuitrain.session.ranks import Peer
from tuitrain.wire import MEETING, Ask, Died


def test_ranks_learn_what_one_device_learns_with_an_uneven_batch_and_an_idle_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One group for several questions: it costs three imports of torch."""
    files_named_like_pythons_own_modules(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "forking.py").write_text(FORKING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    # 100 samples in batches of 9 over two ranks: 5 and 4, and the last batch 1 and nothing.
    changes = {"batch_size": 9, "epochs": 3, "shuffle": True, "max_grad_norm": 0.2, "warmup_steps": 4}
    folder, control, events, there = tmp_path / "run", quiet_control(), list[Event](), list[tuple[int, list[str]]]()
    control.recorded = lambda: there.append((max(losses_of(events)), [path.name for path in checkpoints(folder / CHECKPOINTS)]))
    for event in spread()(small_run(2, checkpoint_every_steps=5, keep_checkpoints=20, model="forking:make", **changes), control):
        if isinstance(event, RunStarted):
            control.folder = folder
            folder.mkdir()
            ranks = [ProcessTable().sample(rank.pid, Listed("C", 1)) for rank in processes_of(os.getpid(), RANK)]
        events.append(event)
    assert events[-1] == RunEnded(state="finished", step=36)
    # As the lists of a card's processes know them; what a rank has forked is none of them.
    assert [(rank.rank_of, rank.name) for rank in ranks if rank.ours] == [(os.getpid(), "tuitrain")] * 2
    alone = losses_of(events_of(small_run(1, **changes), tmp_path / "alone"))
    losses = losses_of(events)
    assert len(losses) == 36
    assert losses == pytest.approx(alone, rel=1e-9)
    full, last = [event for event in events if isinstance(event, Replicas)][:2]
    assert [replica.input for replica in full.replicas] == [(5, 5), (4, 5)]
    assert [replica.output for replica in last.replicas] == [(1, 2), None]
    assert full.batch == (9, 5)
    assert sum(replica.loss * size for replica, size in zip(full.replicas, (5, 4), strict=True)) / 9 == pytest.approx(losses[1])
    every_rank_tells_its_phases([event for event in events if isinstance(event, StepTimes)], steps=36, samples=300, first=9)
    # A checkpoint is written when the host has recorded the losses before it: every five steps, and after each epoch.
    saved = {event.step for event in events if isinstance(event, Checkpoint)}
    assert saved == {*range(5, 36, 5), 12, 24, 36}
    assert [names for _, names in there] == [[folder_name(other) for other in sorted(saved) if other < step] for step in sorted(saved)]
    # Training goes on while one is written, but not beyond the next one.
    bounds = zip(sorted(saved), [*sorted(saved)[1:], 36], strict=True)
    assert all(step <= newest <= following for (step, following), (newest, _) in zip(bounds, there, strict=True)), there
    workers = [int(path.name) for path in (tmp_path / "workers").iterdir()]
    assert len(workers) == 2
    wait_until(lambda: not any(map(psutil.pid_exists, workers)), BOUND)


FORKING = """import multiprocessing, os, time
from torch import nn
def make(config):
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
    worker.start()
    os.makedirs(f"workers/{worker.pid}")
    return nn.Linear(5, 2)
"""


def files_named_like_pythons_own_modules(folder: Path) -> None:
    """Programs that import what lies in the working directory end there."""
    for name in ("random", "types", "copy", "socket"):
        (folder / f"{name}.py").write_text("raise SystemExit('this is not the module of Python')\n")


def test_ranks_whose_own_data_are_not_the_same_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    said = r"custom with 160 training and 16 test samples \(their labels \w{8}\) on \S+ \(rank \d\)"
    with pytest.raises(ConfigError, match=rf"^data: it is {said} and {said}; all must train with the same\.$"):
        events_of(small_run(2, model="seed-cnn", data="small_images:make_unlike"), tmp_path)


def test_ranks_learn_by_a_loss_of_ones_own_what_one_device_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    changes = {"data": "small_images:make_same", "model": "small_images:Coder", "loss": "small_images:coded", "batch_size": 9, "lr": 0.1}
    together = events_of(small_run(2, **changes), tmp_path / "together")
    alone = events_of(small_run(1, **changes), tmp_path / "alone")
    assert together[-1] == RunEnded(state="finished", step=12)
    assert losses_of(together) == pytest.approx(losses_of(alone), rel=1e-9)
    (both,), (one,) = ([event for event in events if isinstance(event, Eval)] for events in (together, alone))
    assert (both.loss, math.isnan(both.accuracy)) == (pytest.approx(one.loss, rel=1e-9), True)


def test_a_group_begins_with_the_weights_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "given.safetensors"
    save_file(torch.nn.Linear(5, 2).state_dict(), file)
    losses = losses_of(events_of(small_run(2, weights=str(file)), tmp_path / "run"))
    assert losses == pytest.approx(losses_of(events_of(small_run(1, weights=str(file)), tmp_path / "alone")), rel=1e-9)
    assert losses != pytest.approx(losses_of(events_of(small_run(1), tmp_path / "drawn")), rel=1e-3)
    with pytest.raises(ConfigError, match=r"^weights: .*given\.safetensors has nothing that fits the model: it begins with bias \[2\]"):
        events_of(small_run(2, weights=str(file), model="rnn", data="synthetic"), tmp_path / "other")


def test_ranks_of_another_version_than_their_host_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "newer.py").write_text(NEWER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = (
        r"rank \d is of another version of tuitrain than its host, and does not understand it \(no such field\); resume the run, or start"
    )
    with pytest.raises(ConfigError, match=rf"^strategy: {said} it anew\.$"):
        list(elastic.elastic_train(small_run(2), quiet_control(), agent=AGENT, rank="newer"))


NEWER = """import msgspec
from tuitrain.engine.ranks import rank
class Newer:
    def feed(self, piece):
        raise msgspec.ValidationError("no such field")
rank.Unpacker = Newer
rank.main()
"""


def test_a_group_names_the_files_with_these_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = tmp_path / "pets"
    for number, path in enumerate(data / part / name / f"{place}.png" for part in ("train", "test") for name in "ab" for place in range(8)):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (number, 7, 255 - number)).save(path)
    events = events_of(small_run(2, model="seed-cnn", data=str(data)), tmp_path / "run")
    (told,) = [event for event in events if isinstance(event, Predictions)]
    assert len({one.file for one in told.samples}) == 16
    for one in told.samples:
        assert one.file is not None
        assert one.image == Image.open(data / one.file).tobytes()


def test_a_rank_that_fails_ends_the_run_when_rank_0_has_told_every_loss_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    events = events_of(small_run(2, model="failing:make", batch_size=2), tmp_path / "run")
    error = "rank 1 (cpu): step 47: ValueError while training: no more (failing.py, line 11)."
    assert events[-1] == RunEnded(state="failed", step=47, error=error)
    assert list(losses_of(events)) == list(range(1, 47))


FAILING = """import os
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 2)
        self.steps = 0
    def forward(self, inputs):
        self.steps += self.training
        if self.steps == 47 and os.environ["RANK"] == "1":
            raise ValueError("no more")
        return self.layer(inputs)
def make(config):
    return Net().double()
"""


def every_rank_tells_its_phases(times: list[StepTimes], *, steps: int, samples: int, first: int) -> None:
    """Where the time of the steps goes, as all ranks tell it through rank 0; the first step of all is not measured."""
    assert {(event.strategy, event.devices) for event in times} == {("ddp", ("cpu", "cpu"))}
    assert sum(event.steps for event in times) == steps - 1
    assert sum(event.samples for event in times) == samples - first
    ranks = [sum((event.replicas[rank] for event in times), Phases()) for rank in range(2)]
    for rank in ranks:
        assert min(rank.data, rank.forward, rank.backward, rank.communication, rank.update, rank.other) > 0
    whole = sum((event.phases for event in times), Phases())
    assert whole.seconds == pytest.approx((ranks[0].seconds + ranks[1].seconds) / 2)


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
        psutil.wait_procs([*ranks, *agents], timeout=BOUND)
        assert not [process for process in (*ranks, *agents) if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
        code = host.wait(BOUND)
    finally:
        host.kill()
        host.stdout.close()
    wait_until(lambda: not list(temporary.glob("tuitrain-*")), BOUND)
    # Other programs use it too, for moments.
    wait_until(lambda: not (set(os.listdir("/dev/shm")) - shared if sys.platform == "linux" else set()), BOUND)
    assert code == {"host killed": -signal.SIGKILL, "launcher killed": 1, "interrupted": 130}[ending]
    if ending == "launcher killed":
        assert "the launcher of the processes died (SIGKILL)" in json.loads(last[-1])["error"]
    if ending == "interrupted":
        assert json.loads(last[-1])["state"] == "interrupted"
        assert list((tmp_path / "runs").glob("*/checkpoints/step-*"))


class Clock:
    """Goes on as the real one, and jumps; `after` is called some looks after the jump."""

    def __init__(self, after: Callable[[], object]) -> None:
        self._ahead, self._looks, self._after = 0.0, 0, after

    def jump(self, seconds: float) -> None:
        self._ahead += seconds

    def monotonic(self) -> float:
        self._looks += self._ahead > 0
        if self._looks == 20:
            self._after()
        return time.monotonic() + self._ahead


def test_a_group_that_was_suspended_goes_on_and_a_rank_that_hangs_is_named_and_without_restarts_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, suspended, notices, after, saved, hung = quiet_control(), list[psutil.Process](), list[str](), 0, None, None
    clock = Clock(lambda: [rank.resume() for rank in suspended])
    for module in ("elastic", "rank_silence", "ranks"):
        monkeypatch.setattr(f"tuitrain.session.{module}.time", clock)
    # On a busy machine also a rank that is well may be silent while it starts.
    bounds = Bounds(silent=BOUND, hung=BOUND)
    for event in spread(bounds)(small_run(2, epochs=10**6, max_restarts=0), control):
        if isinstance(event, RunStarted):
            control.folder = tmp_path
        if isinstance(event, Notice):
            notices.append(event.text)
        if isinstance(event, Step) and not suspended:
            suspended = processes_of(os.getpid(), RANK)
            for rank in suspended:
                rank.suspend()
            clock.jump(2 * BOUND)
        elif isinstance(event, Step) and hung is None and all(rank.status() != psutil.STATUS_STOPPED for rank in suspended):
            # As if no time had passed: nothing is told, and they do what they are asked for.
            after += 1
            if after == 100:
                assert notices == []
                control.ask("checkpoint")
            if saved is not None:
                hung = suspended[1]
                hung.suspend()
                vars(bounds).update(silent=2.0, hung=4.0)
        if isinstance(event, Checkpoint) and event.kind == "manual":
            saved = event.step
        ended = event
    assert hung is not None
    silent = rf"rank 1 \(cpu, pid {hung.pid}\) has not answered for \d+ s"
    assert any(re.search(silent, text) for text in notices), notices
    assert isinstance(ended, RunEnded)
    assert ended.state == "failed"
    assert ended.error is not None
    assert re.search(rf"rank 1 \(cpu, pid {hung.pid}\) did not answer for \d+ s and was killed, and max_restarts is 0\.", ended.error)
    assert not hung.is_running()


class Speaking:
    """In the place of `Ranks`: says what is written down, one thing at a time, and keeps what it hears."""

    def __init__(self, *messages: Event) -> None:
        self.messages, self.heard = list(messages), list[Event]()
        self.output, self.peers, self.expected = list[str](), list[Peer](), list[Peer]()
        self.process = SimpleNamespace(poll=lambda: None)
        self._leader = Peer(None, time.monotonic(), 0)

    def receive(self, timeout: float) -> list[tuple[Peer, Event]]:
        return [(self._leader, self.messages.pop(0))]

    def rank(self, number: int) -> Peer:
        return self._leader

    def send(self, peer: Peer, message: Event) -> None:
        self.heard.append(message)

    def wait(self, seconds: float) -> bool:
        return True

    def forget_numbers(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("state", "asked", "heard"), [("paused", (), ("pause",)), ("paused", ("resume",), ("pause", "resume")), ("running", (), ())]
)
def test_a_paused_run_waits_on_when_its_group_has_started_again(
    state: RunState, asked: tuple[Request, ...], heard: tuple[Request, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = started(40)
    story = [begun, State(state="running"), State(state=state), Died(rank=1, exitcode=-9, restart=1), begun, State(state="running")]
    ranks = Speaking(*story, RunEnded(state="finished", step=40))
    monkeypatch.setattr(elastic, "Ranks", lambda *arguments: ranks)
    control = quiet_control()
    control.folder = tmp_path
    for event in elastic.elastic_train(small_run(2), control, agent=AGENT, rank=RANK):
        if event == Progress(phase="starting the group again"):
            for request in asked:
                control.ask(request)
            assert not ranks.heard
    assert ranks.heard == [Ask(request=request) for request in heard]


def test_a_stop_while_the_group_starts_again_says_what_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Speaking(started(40), Losses(first_step=1, epoch=1, losses=(1.0, 0.5), times=(1.0, 2.0)), Died(rank=1, exitcode=-9, restart=1))
    monkeypatch.setattr(elastic, "Ranks", lambda *arguments: ranks)
    control, events = quiet_control(), list[Event]()
    control.folder = tmp_path
    for event in elastic.elastic_train(small_run(2), control, agent=AGENT, rank=RANK):
        if event == Progress(phase="starting the group again"):
            control.ask("interrupt")
        events.append(event)
    text = "The run ended while its group was starting again; what came after the last checkpoint is not saved."
    assert events[-2:] == [Notice(level="warning", text=text), RunEnded(state="interrupted", step=2)]


def test_a_group_that_was_asked_to_leave_and_stays_is_not_asked_to_end_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stays, died = Stays(text="it cannot be saved"), Died(rank=1, exitcode=-9, restart=1)
    ranks = Speaking(started(40), State(state="running"), stays, died, started(40), RunEnded(state="finished", step=40))
    monkeypatch.setattr(elastic, "Ranks", lambda *arguments: ranks)
    control, events = quiet_control(), list[Event]()
    control.folder = tmp_path
    for event in elastic.elastic_train(small_run(2), control, agent=AGENT, rank=RANK):
        if event == State(state="running"):
            control.ask("leave")
        if event is stays:
            assert ranks.heard == [Ask(request="leave")]
            assert not control.ending
        events.append(event)
    assert events[-1] == RunEnded(state="finished", step=40), "the death of a rank is no end: nobody asked for one"


def test_one_machine_is_never_gone() -> None:
    called = list[bool]()
    # What a meeting leaves in the environment is for the ranks of its own launcher.
    with mock.patch.dict(os.environ):
        meeting = Meeting("127.0.0.1", 0, 1, 1, called.append)
        meeting.next_rendezvous()
        # What torch does to a machine that has said nothing for 15 s, as one whose processes were suspended.
        meeting._torchs._state_holder.state.participants.clear()
        assert meeting.num_nodes_waiting() == 0
        meeting.shutdown()
    assert called == []
    assert MEETING not in os.environ
