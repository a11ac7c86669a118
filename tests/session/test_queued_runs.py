"""Queued runs with a small engine, each in a real process of its own: in order, one at a time, stopped, killed, and there again."""

from __future__ import annotations

import os
import pkgutil
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest
from small_sessions import until

from tuitrain.config import DEFAULTS, ConfigError, RunConfig
from tuitrain.events import Event, Notice, Progress, RunEnded
from tuitrain.runs import catalogue, queue, removal
from tuitrain.runs.errors import RunError
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record
from tuitrain.runs.status import read_status
from tuitrain.runs.summary import RunSummary
from tuitrain.session import detached, queued, turn
from tuitrain.session.control import Control
from tuitrain.session.lines import commands
from tuitrain.session.lines.client import RunLine
from tuitrain.session.queued import QueuedRun

CPU = msgspec.structs.replace(DEFAULTS, device="cpu", data="random")
GPU = msgspec.structs.replace(CPU, device="cuda:0")


@pytest.fixture
def queue_up(runs_dir: Path, small: Callable[[str], None]) -> Callable[..., str]:
    """Queues a run; the engine of it does what is said."""

    def put(config: RunConfig = CPU, *, does: str = "train", heard: Callable[[Event], None] = lambda event: None) -> str:
        small(does)
        return detached.start(config, runs_dir, queue=True, heard=heard)

    return put


@pytest.fixture
def run_of(runs_dir: Path) -> Callable[[str], RunSummary]:
    return lambda run: catalogue.find(runs_dir, run)


def words_of(run: RunSummary) -> str:
    return "" if run.queue is None else run.queue.words


def kill(run: RunSummary, number: int = signal.SIGKILL) -> None:
    """End the process that waits for a run, and wait until it has."""
    assert run.pid is not None
    os.kill(run.pid, number)
    [child] = [child for child in detached._children if child.pid == run.pid]
    child.wait(60)


Queue = Callable[..., str]
RunOf = Callable[[str], RunSummary]


def test_runs_wait_for_their_device_and_begin_in_order(runs_dir: Path, queue_up: Queue, run_of: RunOf) -> None:
    heard: list[Event] = []
    first = queue_up(heard=heard.append)
    until(lambda: run_of(first).state == "running")
    assert not any(isinstance(event, Notice) and "waits" in event.text for event in heard), "its device is free"
    second = queue_up(does="short", heard=heard.append)
    assert heard[-1] == Notice(text=f"It waits for cpu: {first} trains there.")
    third = queue_up(does="short")
    queued = run_of(third)
    assert (queued.state, queued.state_words, queued.step, queued.device) == ("queued", "queued", 0, ("cpu",))
    assert words_of(queued) == f"waits for cpu: {first} trains there"
    assert {path.name: place for path, place in queue.places(catalogue.list_runs(runs_dir)).items()} == {second: 1, third: 2}
    assert commands.stop(run_of(first)) == f"{first} stopped at step 3"
    until(lambda: run_of(third).state == "finished")
    assert run_of(second).state == "finished"
    assert run_of(first).started < run_of(second).started < run_of(third).started, "they began in order"
    log = (runs_dir / third / "log.txt").read_text(encoding="utf-8")
    assert log.count(f"It waits for cpu: {first} trains there.") == 1
    assert "finished at step 3" in log
    assert len(load_record(runs_dir / third).loss) == 3
    until(lambda: not [child for child in detached._children if child.poll() is None])
    assert run_of(third).queue is None


def test_what_could_not_train_is_refused_before_it_waits(runs_dir: Path, queue_up: Queue) -> None:
    heard: list[Event] = []
    with pytest.raises(ConfigError, match="model: not here"):
        queue_up(does="no", heard=heard.append)
    assert heard == [Progress(phase="checking model and devices")]
    assert not runs_dir.exists()


def test_different_devices_are_different_queues(queue_up: Queue, run_of: RunOf) -> None:
    on_gpu, on_cpu = queue_up(GPU), queue_up()
    until(lambda: (run_of(on_gpu).state, run_of(on_cpu).state) == ("running", "running"))
    assert run_of(on_gpu).device == ("cuda:0",)
    both = queue_up(msgspec.structs.replace(GPU, device="cuda:0,cuda:1", strategy="split"))
    behind = queue_up(msgspec.structs.replace(GPU, device="cuda:1"))
    assert words_of(run_of(both)) == f"waits for cuda:0, cuda:1: {on_gpu} trains there"
    assert words_of(run_of(behind)) == f"waits for cuda:1: {both} is before it", "though that device is free"
    for run in (both, behind):
        commands.stop(run_of(run))


def test_never_two_at_once_when_many_wait(runs_dir: Path, queue_up: Queue, run_of: RunOf) -> None:
    first = queue_up()
    until(lambda: run_of(first).state == "running")
    others = [queue_up(does="short") for _ in range(4)]
    most = 0

    def over() -> bool:
        nonlocal most
        runs = catalogue.list_runs(runs_dir)
        most = max(most, sum(run.live and not run.waits for run in runs))
        return all(run.state == "finished" for run in runs if run.run in others)

    commands.stop(run_of(first))
    until(over)
    assert most == 1
    began = [run_of(run).started for run in others]
    assert began == sorted(began)


def test_while_another_process_decides_nobody_begins(runs_dir: Path, queue_up: Queue, run_of: RunOf) -> None:
    runs_dir.mkdir()
    with queue.locked(runs_dir) as alone:
        assert alone
        run = queue_up()
        until(lambda: words_of(run_of(run)) == "waits for cpu")
        assert run_of(run).waits
    until(lambda: run_of(run).state == "running")


def test_a_run_is_taken_out_of_the_queue(runs_dir: Path, queue_up: Queue, run_of: RunOf) -> None:
    first, second = queue_up(), queue_up()
    until(lambda: run_of(second).queue is not None and words_of(run_of(second)).endswith("trains there"))
    for command in (commands.pause, commands.go_on):
        with pytest.raises(ConfigError, match="is queued and has not begun; there is nothing to"):
            command(run_of(second))
    with pytest.raises(ConfigError, match="stop it first"):
        removal.delete(runs_dir / second)
    pid = run_of(second).pid
    assert commands.stop(run_of(second)) == f"{second} stopped at step 0"
    until(lambda: pid not in [child.pid for child in detached._children if child.poll() is None])
    assert "stopped at step 0" in (runs_dir / second / "log.txt").read_text(encoding="utf-8")
    third = queue_up()
    kill(run_of(third))
    assert commands.stop(run_of(third)) == f"{third} stopped at step 0", "also where nobody waits"
    assert run_of(third).state == "stopped"
    assert run_of(first).state == "running"


def test_a_killed_one_stays_in_the_queue_and_is_revived_in_its_place(runs_dir: Path, queue_up: Queue, run_of: RunOf) -> None:
    first, second, third = queue_up(), queue_up(does="short"), queue_up(does="short")
    kill(run_of(second))
    left = run_of(second)
    assert (left.state, left.state_words, left.live, left.pid) == ("queued", "queued, nobody waits", False, None)
    until(lambda: list(queue.places(catalogue.list_runs(runs_dir)).values()) == [1])
    kill(run_of(third), signal.SIGTERM)
    assert run_of(third).state_words == "queued, nobody waits", "a machine that is switched off sends SIGTERM"
    commands.stop(run_of(first))
    # As after a restart: nobody trains, and all come at the same moment.
    assert detached.revive(runs_dir) == [second, third]
    until(lambda: run_of(third).state == "finished")
    assert run_of(second).state == "finished"
    assert run_of(second).started < run_of(third).started
    assert detached.revive(runs_dir) == []


def test_one_run_is_let_wait_again(runs_dir: Path, queue_up: Queue, run_of: RunOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    first, second = queue_up(), queue_up()
    monkeypatch.chdir(tmp_path)
    kill(run_of(second))
    assert detached.wait_again(run_of(second)) == f"{second} waits for cpu: {first} trains there."
    again = run_of(second)
    assert again.live
    assert os.readlink(f"/proc/{again.pid}/cwd") == str(tmp_path / "here"), "what its configuration names is looked for where it was queued"
    with pytest.raises(ConfigError, match=f"belongs to another process .pid {again.pid} on"):
        detached.wait_again(again)
    assert run_of(second).pid == again.pid
    commands.stop(run_of(second))
    kill(run_of(first))
    with pytest.raises(ConfigError, match="is not in the queue any more: it is stopped"):
        detached.wait_again(run_of(second))
    assert run_of(first).state == "lost", "one that has begun is lost"
    assert detached.revive(runs_dir) == []


def test_one_that_prepares_when_it_is_killed_is_in_the_queue_again(queue_up: Queue, run_of: RunOf) -> None:
    config = msgspec.structs.replace(CPU, device="auto")
    run = queue_up(config, does="wait")
    until(lambda: run_of(run).queue is not None and not run_of(run).waits)
    assert (run_of(run).state, run_of(run).device) == ("queued", ("cpu",))
    behind = queue_up()
    assert words_of(run_of(behind)) == f"waits for cpu: {run} trains there"
    kill(run_of(run))
    assert run_of(run).state_words == "queued, nobody waits"
    assert run_of(run).waits


def test_refused_when_its_turn_comes_it_has_failed_with_the_sentence(
    runs_dir: Path, queue_up: Queue, run_of: RunOf, tmp_path: Path
) -> None:
    run = queue_up(msgspec.structs.replace(CPU, on_end=f"echo $TUITRAIN_STATE > {tmp_path / 'ended'}"), does="refuse")
    until(lambda: run_of(run).state == "failed")
    assert run_of(run).error == "data: not here."
    assert "failed: data: not here." in (runs_dir / run / "log.txt").read_text(encoding="utf-8")
    until(lambda: (tmp_path / "ended").exists() and (tmp_path / "ended").read_text() == "failed\n")
    child = detached._children[-1]
    assert child.wait(60) == 1
    after = queue_up()
    until(lambda: run_of(after).state == "running")


def test_what_is_wrong_at_once_is_refused_at_once(runs_dir: Path, queue_up: Queue) -> None:
    with pytest.raises(ConfigError, match="data: the folder /no/such/folder does not exist"):
        queue_up(msgspec.structs.replace(CPU, data="/no/such/folder"))
    assert not runs_dir.exists()


def test_who_does_not_wait_for_the_answer_leaves_nothing(runs_dir: Path, queue_up: Queue) -> None:
    first = queue_up()
    with pytest.raises(detached.Cancelled):
        detached.start(CPU, runs_dir, queue=True, cancelled=lambda: True)
    until(lambda: len([child for child in detached._children if child.poll() is None]) == 1)
    assert [run.run for run in catalogue.list_runs(runs_dir)] == [first]


def test_who_waits_is_watched_and_costs_little(runs_dir: Path, queue_up: Queue, run_of: RunOf) -> None:
    queue_up()
    second = queue_up()
    line = RunLine.connect(runs_dir / second)
    assert line is not None
    said: list[Event] = []
    with line:
        watching = threading.Thread(target=lambda: said.extend(line.watch()))
        watching.start()
        until(lambda: run_of(second).attached == 1)
        assert run_of(second).state_words == "queued"
        commands.stop(run_of(second))
        watching.join(60)
    assert isinstance(said[-1], RunEnded)
    third = queue_up()
    process = psutil.Process(run_of(third).pid)
    assert process.memory_info().rss < 40 * 2**20
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    until(lambda: time.monotonic() - began > 1.0)
    # Here it looks twenty times as often as a person's does.
    assert sum(process.cpu_times()[:2]) - before <= 0.3
    maps = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
    assert not [name for name in ("libtorch", "numpy", "libnvidia") if name in maps]


def test_a_folder_that_is_gone_ends_the_waiting(runs_dir: Path, queue_up: Queue, run_of: RunOf) -> None:
    first, second = queue_up(), queue_up()
    until(lambda: words_of(run_of(second)).endswith("trains there"))
    shutil.rmtree(runs_dir / second)
    commands.stop(run_of(first))
    until(lambda: not [child for child in detached._children if child.poll() is None])
    assert [run.run for run in catalogue.list_runs(runs_dir)] == [first]


def test_a_clock_that_is_set_back_changes_no_order_and_keeps_nobody_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, first = time.time, QueuedRun.new(tmp_path, RunRecord(CPU))
    monkeypatch.setattr(time, "time", lambda: real() - 7200)
    second, third = QueuedRun.new(tmp_path, RunRecord(CPU)), QueuedRun.new(tmp_path, RunRecord(CPU))
    runs = catalogue.list_runs(tmp_path)
    assert queue.places(runs) == {waiting.folder.path: place for place, waiting in enumerate((first, second, third), 1)}
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + queued.BEAT_SECONDS)
    first.beat()
    assert read_status(first.folder.path).heartbeat < real() - 7000
    for waiting in (first, second, third):
        waiting.end(None)


def test_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = QueuedRun.new(tmp_path, RunRecord(CPU))

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tuitrain.runs.folder.write_atomically", full)
    waiting.wait_for("waits for cpu", ("cpu",))
    with pytest.raises(OSError, match="No space left on device"):
        waiting.take_turn(("cpu",))
    waiting.end(None)
    monkeypatch.undo()
    assert catalogue.list_runs(tmp_path)[0].state == "queued"


@pytest.mark.parametrize("what", ["runs.shelf.folders", "runs.status.read_in", "runs.queue.os.open", "runs.folder.write_atomically"])
def test_a_disk_that_refuses_for_a_moment_costs_nobody_his_turn(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the runs cannot be read, or the run's own state, or the lock cannot be made, or its turn be told."""
    waiting, said = QueuedRun.new(tmp_path, RunRecord(CPU)), list[Event]()
    really = pkgutil.resolve_name(f"tuitrain.{what}")
    refusals: list[Exception] = [RunError("no")] if what.endswith("folders") else [OSError(5, "Input/output error")]

    def for_a_moment(*given: object, **named: object) -> object:
        if refusals:
            raise refusals.pop()
        return really(*given, **named)

    monkeypatch.setattr(f"tuitrain.{what}", for_a_moment)
    monkeypatch.setattr(turn, "LOOK_SECONDS", 0.01)
    assert turn.wait_for_turn(waiting, Control(lambda: []), said.append) is None
    assert not refusals
    (run,) = catalogue.list_runs(tmp_path)
    assert run.state_words == "queued, begins"


def test_while_the_driver_does_not_answer_a_run_of_any_gpu_waits_and_does_not_take_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, said = QueuedRun.new(tmp_path, RunRecord(msgspec.structs.replace(CPU, device="auto"))), list[Event]()
    answers: list[list[int] | None] = [None, None, [1, 0], [1, 0]]
    monkeypatch.setattr(turn, "LOOK_SECONDS", 0.01)
    control = Control(lambda: answers.pop(0))
    assert turn.wait_for_turn(waiting, control, said.append) is None
    assert said == [Notice(text="It waits for a GPU: the NVIDIA driver does not answer.")]
    assert (catalogue.list_runs(tmp_path)[0].device, control.free_cuda_devices()) == (("cuda:1",), [1])
