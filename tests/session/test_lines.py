"""The control socket: commands, viewers who read, stall, die or talk nonsense, other users, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small_sessions import BOUND, Heard, count_to, session_of, started, until

from tuitrain.config import DEFAULTS, RunConfig
from tuitrain.events import Event, Notice, Replica, Replicas, RunEnded, RunStarted, State, Step
from tuitrain.files import write_atomically
from tuitrain.paths import control_sockets
from tuitrain.runs import catalogue
from tuitrain.runs.errors import RunError
from tuitrain.runs.record import RunRecord
from tuitrain.runs.status import InQueue, read_status
from tuitrain.runs.summary import RunSummary, summarize
from tuitrain.session.control import Control
from tuitrain.session.lines import commands, connection, place, server
from tuitrain.session.lines.client import RunLine, decode
from tuitrain.session.lines.endpoint import Endpoint
from tuitrain.session.lines.server import ControlServer
from tuitrain.session.worker import WorkerSession
from tuitrain.tui.hosts.outside import OtherProcesses


@pytest.fixture(autouse=True)
def runtime_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for sockets of the test's own; a short name, as sockets need."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def running(folder: Path, heard: Heard, steps: int = 3) -> tuple[WorkerSession, Path]:
    """A session whose run has made its steps and waits for a request, and the run's folder."""
    session = session_of(count_to(steps), folder, heard)
    session.start(DEFAULTS)
    heard.wait_for(Step, steps)
    assert session.record is not None
    assert session.record.path is not None
    return session, session.record.path


def line_to(folder: Path) -> RunLine:
    line = RunLine.connect(folder)
    assert line is not None
    return line


def raw(folder: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(BOUND)
    line.connect(str(control_sockets(folder)[0]))
    return line


def answers(line: socket.socket, count: int) -> list[dict[str, object]]:
    got = b""
    while got.count(b"\n") < count and (piece := line.recv(65536)):
        got += piece
    return [json.loads(one) for one in got.splitlines()]


def test_a_viewer_hears_the_start_and_the_state_first_and_then_what_happens(tmp_path: Path, heard: Heard) -> None:
    session, folder = running(tmp_path, heard)
    with line_to(folder) as line:
        events = line.watch()
        first, second = next(events), next(events)
        assert isinstance(first, RunStarted)
        assert first.run == folder.name
        assert second == State(state="running")
        line.ask("pause")
        assert next(events) == State(state="paused")
        line.ask("resume")
        assert next(events) == State(state="running")
        line.ask("stop")
        rest = list(events)
    assert isinstance(rest[-1], RunEnded)
    assert rest[-1].state == "stopped"
    assert session.join(BOUND)


def test_the_app_tells_a_run_what_to_do_or_why_that_cannot_be(tmp_path: Path, heard: Heard) -> None:
    session, folder = running(tmp_path, heard)
    OtherProcesses().ask(folder, "stop")
    assert session.join(BOUND)
    assert read_status(folder).state == "stopped"
    with pytest.raises(RunError, match=f"{folder.name} stopped at step .*; there is nothing to stop"):
        OtherProcesses().ask(folder, "stop")


def test_the_run_counts_its_screens(tmp_path: Path, heard: Heard) -> None:
    session, folder = running(tmp_path, heard)
    assert session.record is not None
    assert session.record.attached == 0
    session.screen_attached = True
    lines = [line_to(folder) for _ in range(3)]
    for line in lines:
        next(line.watch())
    until(lambda: session.record is not None and session.record.attached == 4)
    # It waits for a request: what `runs` shows is written all the same.
    until(lambda: catalogue.find(tmp_path, "last").attached == 4)
    assert catalogue.find(tmp_path, "last").state_words == "running"
    lines[0].close()
    until(lambda: session.record is not None and session.record.attached == 3)
    session.screen_attached = False
    for line in lines[1:]:
        line.close()
    until(lambda: catalogue.find(tmp_path, "last").state_words == "running, detached")
    session.screen_attached = True
    session.stop()
    assert session.join(BOUND)
    assert (read_status(folder).state, read_status(folder).attached) == ("stopped", 0)


def test_the_server_of_an_earlier_run_counts_no_screens_of_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a second after a run's end its viewers may still read what they were told, and go one by one."""
    counts: list[Callable[[int], None]] = []
    monkeypatch.setattr(server, "ControlServer", lambda folder, obey, watched: counts.append(watched))
    endpoint, records = Endpoint(lambda command: None), [RunRecord(DEFAULTS), RunRecord(DEFAULTS)]
    for record in records:
        endpoint.open(tmp_path, record)
    earlier, latest = counts
    latest(2)
    earlier(1)
    assert [record.attached for record in records] == [0, 2]


def test_nothing_is_left_of_it(tmp_path: Path, heard: Heard, runtime_dir: Path) -> None:
    before = set(threading.enumerate())
    session, folder = running(tmp_path, heard)
    (path,) = (runtime_dir / "tuitrain").iterdir()
    assert path == control_sockets(folder)[0]
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.lstat().st_mode) == 0o700
    viewer = raw(folder)
    session.stop()
    assert session.join(BOUND)
    assert viewer.recv(1) == b""
    viewer.close()
    assert list((runtime_dir / "tuitrain").iterdir()) == []
    assert set(threading.enumerate()) == before
    assert RunLine.connect(folder) is None


@pytest.mark.parametrize("told", [b"hello\n", b"\xff\xfe\n", b"[]\n", b'{"command":"fly"}\n', b'{"command":["stop"]}\n', b"{\n"])
def test_nonsense_is_answered_and_the_line_stays_open(tmp_path: Path, heard: Heard, told: bytes) -> None:
    session, folder = running(tmp_path, heard)
    with raw(folder) as line:
        line.sendall(told + b'\n{"command":"checkpoint"}\n')
        (wrong, right) = answers(line, 2)
    assert "pause, resume, stop, checkpoint, watch" in str(wrong["error"])
    assert right == {"ok": True}
    session.stop()
    assert session.join(BOUND)


@pytest.mark.parametrize(
    "told",
    [b"x" * (connection.LONGEST_ORDER + 1), b'{"command": "stop"}' + b" " * connection.LONGEST_ORDER + b"\n"],
    ids=["endless", "whole"],
)
def test_a_message_that_is_too_long_is_refused(tmp_path: Path, heard: Heard, told: bytes) -> None:
    session, folder = running(tmp_path, heard)
    with raw(folder) as line:
        line.sendall(told)
        (refused,) = answers(line, 1)
        assert "longer than" in str(refused["error"])
        assert _received(line) == b""
    assert session.state == "running"
    session.stop()
    assert session.join(BOUND)


def test_another_user_is_refused(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    session, folder = running(tmp_path, heard)
    monkeypatch.setattr(place, "peer_uid", lambda line: os.getuid() + 1)
    with raw(folder) as line:
        (refused,) = answers(line, 1)
        assert "another user" in str(refused["error"])
        assert line.recv(1) == b""
    # Nor does a client of ours talk to somebody else's process.
    assert RunLine.connect(folder) is None
    assert session.state == "running"
    session.stop()
    assert session.join(BOUND)


def test_the_uid_of_the_other_end_is_the_kernels_word() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert place.peer_uid(here) == os.getuid()


def test_a_folder_that_is_open_to_others_is_not_used(tmp_path: Path, runtime_dir: Path) -> None:
    (runtime_dir / "tuitrain").mkdir(mode=0o755)
    (runtime_dir / "tuitrain").chmod(0o755)
    one = ControlServer(tmp_path, lambda command: None, lambda count: None)
    line = RunLine.connect(tmp_path)
    assert line is not None, "the next place is used"
    line.close()
    assert list((runtime_dir / "tuitrain").iterdir()) == []
    one.finish()
    assert one.join(BOUND)


def test_no_place_for_a_socket_is_a_notice_and_the_run_goes_on(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "control_sockets", lambda folder: (tmp_path / "missing" / "folder" / "x",))
    session, _ = running(tmp_path / "runs", heard)
    (notice,) = [event for event in heard.events if isinstance(event, Notice)]
    assert "control socket" in notice.text
    session.stop()
    assert session.join(BOUND)


def test_what_a_killed_process_left_is_replaced_and_swept_away(tmp_path: Path, runtime_dir: Path) -> None:
    (runtime_dir / "tuitrain").mkdir(mode=0o700)
    stale = [control_sockets(tmp_path)[0], runtime_dir / "tuitrain" / "another"]
    for path in stale:
        with socket.socket(socket.AF_UNIX) as line:
            line.bind(str(path))
    one = ControlServer(tmp_path, lambda command: None, lambda count: None)
    line_to(tmp_path).close()
    assert not stale[1].exists()
    one.finish()
    assert one.join(BOUND)
    assert not stale[0].exists()


def test_a_socket_whose_file_goes_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CHECK_SECONDS", 0.02)
    one = ControlServer(tmp_path, lambda command: None, lambda count: None)
    control_sockets(tmp_path)[0].unlink()

    def is_back() -> bool:
        line = RunLine.connect(tmp_path)
        if line is not None:
            line.close()
        return line is not None

    until(is_back)
    one.finish()
    assert one.join(BOUND)


def test_the_next_process_of_a_run_takes_the_name_and_keeps_it(tmp_path: Path) -> None:
    heard: list[str] = []
    before = ControlServer(tmp_path, lambda command: heard.append("before"), lambda count: None)
    after = ControlServer(tmp_path, lambda command: heard.append("after"), lambda count: None)
    before.finish()
    assert before.join(BOUND)
    with line_to(tmp_path) as line:
        line.ask("pause")
    assert heard == ["after"]
    after.finish()
    assert after.join(BOUND)


def endless(stopped: threading.Event) -> Callable[[RunConfig, Control], Iterator[Event]]:
    """An engine that makes steps as fast as it can, until it is stopped."""

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(10**9)
        yield State(state="running")
        yield Replicas(step=1, batch=(2,), replicas=(Replica(index=0, device="cpu", input=(2,), output=(2,), loss=1.0),))
        step = 0
        while control.take(wait=False) != "stop":
            step += 1
            yield Step(step=step, epoch=1, loss=1.0, lr=0.1, samples_per_second=1.0)
            if step % 100 == 0:
                stopped.wait(0.001)  # as training does, it lets other threads have the lock
        stopped.set()
        yield RunEnded(state="stopped", step=step)

    return train


def test_a_viewer_who_does_not_read_holds_up_nothing_and_misses_steps(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BEHIND_BYTES", 20_000)
    stopped = threading.Event()
    session = session_of(endless(stopped), tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(Replicas)
    assert session.record is not None
    assert session.record.path is not None
    stalled = raw(session.record.path)
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.sendall(b'{"command":"watch"}\n')
    until(lambda: session.record is not None and session.record.attached == 1)
    with line_to(session.record.path) as line:
        seen = 0
        for event in line.watch():
            if isinstance(event, Step):
                seen = event.step
            if seen > 20_000:
                break
        line.ask("stop")
        assert stopped.wait(BOUND), "commands are obeyed meanwhile"
    assert session.join(BOUND)
    # What the stalled one gets when it reads at last: no line cut in two but the last, and fewer steps than there were.
    stalled.settimeout(0.5)
    got = b""
    while piece := _received(stalled):
        got += piece
    stalled.close()
    lines = [decode(one) for one in got.split(b"\n")[:-1]]
    assert isinstance(lines[1], RunStarted)
    assert 0 < sum(isinstance(event, Step) for event in lines) < seen


def test_a_viewer_who_takes_nothing_at_all_is_hung_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CUT_OFF_BYTES", 50_000)
    counts: list[int] = []
    one = ControlServer(tmp_path, lambda command: None, counts.append)
    with raw(tmp_path) as line:
        line.sendall(b'{"command":"watch"}\n')
        until(lambda: counts == [1])
        end = time.monotonic() + BOUND
        while counts == [1]:
            one.tell([Notice(text="x" * 10_000)])
            assert time.monotonic() < end
            threading.Event().wait(0.001)
    assert counts == [1, 0]
    one.finish()
    assert one.join(BOUND)


def test_many_viewers_and_no_more_than_that(tmp_path: Path) -> None:
    counts: list[int] = []
    one = ControlServer(tmp_path, lambda command: None, counts.append)
    one.tell([started(3)])
    lines = [line_to(tmp_path) for _ in range(server.MOST_CONNECTIONS)]
    for line in lines:
        assert isinstance(next(line.watch()), RunStarted)
    until(lambda: counts[-1] == server.MOST_CONNECTIONS)
    with raw(tmp_path) as line:
        (refused,) = answers(line, 1)
        assert str(server.MOST_CONNECTIONS) in str(refused["error"])
    for line in lines:
        line.close()
    until(lambda: counts[-1] == 0)
    line_to(tmp_path).close()
    one.finish()
    assert one.join(BOUND)


def test_a_line_can_be_closed_while_it_is_watched(tmp_path: Path, heard: Heard) -> None:
    session, folder = running(tmp_path, heard)
    line = line_to(folder)
    watched = line.watch()
    next(watched)
    watcher = threading.Thread(target=lambda: list(watched))
    watcher.start()
    line.close()
    watcher.join(BOUND)
    assert not watcher.is_alive()
    session.stop()
    assert session.join(BOUND)


def test_a_loss_that_is_no_number_comes_through() -> None:
    event = decode(b'{"event":"step","step":3,"epoch":1,"loss":null,"lr":0.1,"samples_per_second":2.0}')
    assert isinstance(event, Step)
    assert event.loss != event.loss
    assert decode(b'{"ok":true}') is None
    assert decode(b'{"event":"of a later version"}') is None


# -- the commands of the shell -----------------------------------------------------------------------------------------


def test_pause_go_on_and_stop_wait_until_it_is_so(tmp_path: Path, heard: Heard) -> None:
    session, folder = running(tmp_path, heard)
    run = folder.name
    assert commands.pause(catalogue.find(tmp_path, "last")) == f"{run} is paused at step 3"
    assert read_status(folder).state == "paused"
    assert commands.pause(catalogue.find(tmp_path, "last")) == f"{run} is paused at step 3"
    assert commands.go_on(catalogue.find(tmp_path, "last")) == f"{run} is running at step 3"
    assert commands.stop(catalogue.find(tmp_path, "last")) == f"{run} stopped at step 3"
    assert RunLine.connect(folder) is None
    assert session.join(BOUND)
    with pytest.raises(RunError, match=f"{run} stopped at step 3; there is nothing to stop"):
        commands.stop(catalogue.find(tmp_path, "last"))


def test_the_process_that_takes_a_run_over_is_told_too(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    session, folder = running(tmp_path, heard)
    run, ask = catalogue.find(tmp_path, "last"), session._ask

    def let_go_instead(request: object) -> None:
        monkeypatch.setattr(session, "_ask", ask)
        content = (folder / "state.json").read_bytes()
        assert f'"pid":{os.getpid()},'.encode() in content
        write_atomically(folder / "state.json", content.replace(f'"pid":{os.getpid()},'.encode(), f'"pid":{os.getppid()},'.encode()))

    # As when it is handed over at this moment: the process that ends it does so for another reason.
    monkeypatch.setattr(session, "_ask", let_go_instead)
    monkeypatch.setattr(commands, "has_process", lambda status, now: True)
    monkeypatch.setattr("tuitrain.runs.summary.is_lost", lambda status, now: False)
    assert commands.stop(run) == f"{run.run} stopped at step 3"
    assert session.join(BOUND)


def test_a_process_that_goes_when_it_has_obeyed_has_not_lost_its_run(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    session, folder = running(tmp_path, heard)
    run = catalogue.find(tmp_path, "last")

    def is_there(status: object, now: float) -> bool:
        """It ends between the look at its state and this one."""
        until(lambda: read_status(folder).state == "stopped")
        return False

    monkeypatch.setattr(commands, "has_process", is_there)
    assert commands.stop(run) == f"{run.run} stopped at step 3"
    assert session.join(BOUND)


def test_a_run_that_cannot_be_reached_says_why(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    session, folder = running(tmp_path, heard)
    run = catalogue.find(tmp_path, "last")
    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "elsewhere")
        with pytest.raises(RunError, match=rf"trains on {run.host} \(pid {run.pid}\)"):
            commands.stop(run)
    with monkeypatch.context() as patch:
        patch.setattr(RunLine, "connect", lambda folder: None)
        patch.setattr(commands, "REACH_SECONDS", 0.0)
        for what, other in (("_pid_namespace", 5), ("_boot_id", "another boot")):
            with monkeypatch.context() as outside:
                outside.setattr(f"tuitrain.runs.process.{what}", lambda other=other: other)
                where = f"in another container of {run.host}, or on another machine of that name"
                with pytest.raises(RunError, match=f"{run.run} trains {where}, and only there"):
                    commands.stop(catalogue.find(tmp_path, "last"))
        with pytest.raises(RunError, match=f"kill {run.pid}"):
            commands.pause(run)
        patch.setattr(commands.os, "getuid", lambda: os.geteuid() + 1)
        with pytest.raises(RunError, match="belongs to another user"):
            commands.pause(run)
    with monkeypatch.context() as patch:
        # In another container that shares the folder of sockets.
        patch.setattr("tuitrain.runs.process._pid_namespace", lambda: 5)
        commands.reach(catalogue.find(tmp_path, "last"), "pause").close()
    with monkeypatch.context() as patch:
        patch.setattr(commands, "OBEY_SECONDS", 0.05)
        patch.setattr(session._control, "ask", lambda request: None)
        with pytest.raises(RunError, match=r"has not after .* s; `tuitrain show .*` says when"):
            commands.stop(run)
        with patch.context() as hanging:
            stalled = msgspec.structs.replace(read_status(folder), stalled_seconds=75.2)
            hanging.setattr(commands, "read_status", lambda path: stalled)
            hanging.setattr(commands, "_SILENT_SECONDS", 0.0)
            said: list[str] = []
            hanging.setattr(commands, "passing_line", said.append)
            way_out = f"no step for 75 s: `kill -9 {run.pid}` ends the run at once"
            with pytest.raises(RunError, match=f"has not after 0 s; {way_out}"):
                commands.stop(run)
            assert said == [way_out, ""]
        patch.setattr(commands, "has_process", lambda status, now: False)
        with pytest.raises(RunError, match="went before it could stop"):
            commands.stop(run)
        waiting = msgspec.structs.replace(read_status(folder), state="queued", queue=InQueue(since=1.0))
        patch.setattr(commands, "read_status", lambda path: waiting)
        with pytest.raises(RunError, match=f"{run.run} is still in the queue: its process"):
            commands.stop(run)
    session.stop()
    assert session.join(BOUND)
    assert folder.is_dir()


def test_a_folder_that_was_copied_or_renamed_names_the_run_that_its_process_trains(tmp_path: Path, heard: Heard) -> None:
    session, folder = running(tmp_path, heard)
    copy = Path(shutil.copytree(folder, tmp_path / "backup"))
    pid = f"its process (pid {os.getpid()}) is that of run {folder.name}, whose folder was copied or renamed to this one"
    for command in (commands.stop, commands.pause):
        with pytest.raises(RunError) as refused:
            command(summarize(copy, time.time()))
        assert str(refused.value) == f"RUN: backup cannot be reached: {pid}; name {folder.name} instead."
    renamed = folder.rename(tmp_path / "renamed")
    with pytest.raises(RunError) as refused:
        commands.stop(summarize(renamed, time.time()))
    assert str(refused.value) == f"RUN: renamed cannot be reached: {pid}; rename it back to {folder.name}."
    renamed.rename(folder)
    commands.stop(summarize(folder, time.time()))
    assert session.join(BOUND)


@pytest.mark.parametrize(
    ("fields", "saved", "sentence"),
    [
        ({"broken": "x: state.json is damaged."}, False, "RUN: x: state.json is damaged."),
        ({}, False, "RUN: x is lost: its process (pid 7 on box) is gone; it was never saved; start it anew."),
        ({}, True, "RUN: x is lost: its process (pid 7 on box) is gone; `tuitrain resume x` goes on from its last checkpoint."),
        ({"state": "failed", "step": 5}, True, "RUN: x failed at step 5; there is nothing to let go on."),
        ({"state": "queued", "queue": InQueue(since=1.0)}, False, "RUN: x is queued and has not begun; there is nothing to let go on."),
    ],
)
def test_a_run_without_a_process_that_trains_it_says_why(tmp_path: Path, fields: dict[str, Any], saved: bool, sentence: str) -> None:
    if saved:
        (tmp_path / "checkpoints" / "step-00000005").mkdir(parents=True)
    with pytest.raises(RunError) as refused:
        commands.go_on(RunSummary(path=tmp_path, run="x", host="box", pid=7, **fields))
    assert str(refused.value) == sentence


def _received(line: socket.socket) -> bytes:
    try:
        return line.recv(65536)
    except OSError:
        return b""
