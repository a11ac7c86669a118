"""Runs in the background with a small engine: started, refused, abandoned, handed over; each in a real process of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest
import small_host
from small_sessions import BOUND, SMALL_HOST, Heard, session_of, staying, until

from tuitrain.config import DEFAULTS, ConfigError
from tuitrain.events import Event, Losses, Notice, Progress, RunEnded
from tuitrain.runs import catalogue
from tuitrain.runs.saved import load_record
from tuitrain.session import detached
from tuitrain.session.lines import commands
from tuitrain.session.lines.client import RunLine
from tuitrain.wire import Host


def is_gone(pid: int) -> bool:
    for child in detached._children:
        child.poll()
    return not Path(f"/proc/{pid}").exists()


def processes() -> set[int]:
    return {child.pid for child in detached._children if child.poll() is None}


def test_it_has_begun_when_the_id_is_told_and_it_can_be_stopped(runs_dir: Path, small: Callable[[str], None]) -> None:
    heard: list[Event] = []
    run = detached.start(DEFAULTS, runs_dir, heard=heard.append)
    assert Progress(phase="reading images", done=3, total=9) in heard
    assert Notice(text="nothing to see") in heard
    summary = catalogue.find(runs_dir, run)
    assert summary.state_words in ("queued, detached", "running, detached")
    assert summary.pid is not None
    assert os.getsid(summary.pid) == summary.pid, "a session of its own: a terminal's end does not reach it"
    for descriptor in (0, 1, 2):
        assert "/dev/pts" not in os.readlink(f"/proc/{summary.pid}/fd/{descriptor}")
    os.kill(summary.pid, signal.SIGHUP)
    assert commands.pause(summary).endswith("is paused at step 3")
    assert commands.stop(catalogue.find(runs_dir, run)) == f"{run} stopped at step 3"
    until(lambda: is_gone(summary.pid or 0))
    log = (runs_dir / run / "log.txt").read_text(encoding="utf-8")
    assert "output a word of the engine's" in log


@pytest.mark.parametrize(("number", "state"), [(signal.SIGTERM, "interrupted"), (signal.SIGINT, "interrupted")])
def test_signals_end_it_with_its_state(runs_dir: Path, small: Callable[[str], None], number: int, state: str) -> None:
    run = detached.start(DEFAULTS, runs_dir)
    pid = catalogue.find(runs_dir, run).pid
    assert pid is not None
    os.kill(pid, number)
    until(lambda: catalogue.find(runs_dir, run).state == state)
    until(lambda: is_gone(pid))
    (child,) = [child for child in detached._children if child.pid == pid]
    assert child.returncode == 128 + number


def test_several_at_once(runs_dir: Path, small: Callable[[str], None]) -> None:
    runs = [detached.start(DEFAULTS, runs_dir) for _ in range(3)]
    assert {run.run for run in catalogue.list_runs(runs_dir) if run.live} == set(runs)
    for run in runs:
        commands.stop(catalogue.find(runs_dir, run))


def test_refused_is_the_sentence_and_nothing_is_left(runs_dir: Path, small: Callable[[str], None]) -> None:
    small("refuse")
    with pytest.raises(ConfigError, match=r"^data: not here\.$"):
        detached.start(DEFAULTS, runs_dir)
    assert not runs_dir.exists()
    until(lambda: not processes())


def test_a_process_that_dies_says_how(runs_dir: Path, small: Callable[[str], None]) -> None:
    small("crash")
    with pytest.raises(ConfigError, match="ended by signal 6"):
        detached.start(DEFAULTS, runs_dir)
    assert not runs_dir.exists()


def test_a_process_that_cannot_begin_says_its_last_words(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "_PROGRAM", "raise ImportError('no such thing')")
    with pytest.raises(ConfigError, match="exit code 1: ImportError: no such thing"):
        detached.start(DEFAULTS, runs_dir)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ConfigError, match="no process can be started"):
        detached.start(DEFAULTS, runs_dir)


def test_who_does_not_wait_leaves_nothing_behind(runs_dir: Path, small: Callable[[str], None]) -> None:
    small("wait")
    heard: list[Event] = []
    with pytest.raises(detached.Cancelled):
        detached.start(DEFAULTS, runs_dir, heard=heard.append, cancelled=lambda: bool(heard))
    until(lambda: not processes())
    assert not runs_dir.exists()


def test_a_run_whose_id_nobody_hears_is_removed(runs_dir: Path, small: Callable[[str], None]) -> None:
    """The asker dies at the last moment: the folder is made, and nobody is told."""
    small("unheard")
    with pytest.raises(ConfigError, match="exit code 130"):
        detached.start(DEFAULTS, runs_dir)
    assert runs_dir.exists()
    assert list(runs_dir.iterdir()) == []


def test_an_exception_while_it_prepares_ends_it(runs_dir: Path, small: Callable[[str], None]) -> None:
    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    small("wait")
    with pytest.raises(KeyboardInterrupt):
        detached.start(DEFAULTS, runs_dir, heard=interrupt)
    until(lambda: not processes())
    assert not runs_dir.exists()


def handed(runs_dir: Path, heard: Heard) -> str:
    session = session_of(small_host.train, runs_dir, heard)
    session.start(DEFAULTS)
    heard.wait_for(Losses)
    until(lambda: session.state == "running")
    return detached.hand_over(session)


def test_a_run_is_handed_over_and_goes_on(runs_dir: Path, heard: Heard, small: Callable[[str], None]) -> None:
    run = handed(runs_dir, heard)
    assert not any(isinstance(event, RunEnded) for event in heard.events), "for everybody else it just goes on"
    summary = catalogue.find(runs_dir, run)
    assert summary.live
    assert summary.pid in processes()
    line = RunLine.connect(runs_dir / run)
    assert line is not None
    line.close()
    until(lambda: catalogue.find(runs_dir, run).step == 6)
    assert commands.stop(catalogue.find(runs_dir, run)) == f"{run} stopped at step 6"
    assert len(load_record(runs_dir / run).loss) == 6
    until(lambda: not processes())


def test_a_paused_run_that_is_handed_over_stays_paused(runs_dir: Path, heard: Heard, small: Callable[[str], None]) -> None:
    session = session_of(small_host.train, runs_dir, heard)
    session.start(DEFAULTS)
    until(lambda: session.state == "running")
    session.pause()
    until(lambda: session.state == "paused")
    run = detached.hand_over(session)
    until(lambda: catalogue.find(runs_dir, run).step == 6)
    until(lambda: catalogue.find(runs_dir, run).state_words == "paused, detached")
    assert commands.go_on(catalogue.find(runs_dir, run)) == f"{run} is running at step 6"
    commands.stop(catalogue.find(runs_dir, run))


def test_a_run_that_cannot_be_saved_is_not_handed_over(runs_dir: Path, heard: Heard, small: Callable[[str], None]) -> None:
    session = session_of(staying, runs_dir, heard)
    session.start(DEFAULTS)
    until(lambda: session.state == "running")
    with pytest.raises(ConfigError, match=r"^the run stays here\. The checkpoint at step 1 could not be saved: No space left"):
        detached.hand_over(session)
    until(lambda: [(run.state, run.pid) for run in catalogue.list_runs(runs_dir)] == [("running", os.getpid())])
    until(lambda: not processes())
    session.stop()
    assert session.join(BOUND)


def test_a_run_that_is_just_being_handed_over_is_stopped(
    runs_dir: Path, heard: Heard, small: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the moment at which no process listens for it."""
    tried, connect, send = threading.Event(), RunLine.connect, detached._Child.send
    with ThreadPoolExecutor(1) as beside:
        said: list[Future[str]] = []

        def noted(folder: Path) -> RunLine | None:
            line = connect(folder)
            tried.set()
            return line

        def after_a_stop(child: detached._Child, request: Host) -> None:
            said.append(beside.submit(commands.stop, catalogue.find(runs_dir, "last")))
            assert tried.wait(BOUND)
            send(child, request)

        monkeypatch.setattr(RunLine, "connect", noted)
        monkeypatch.setattr(detached._Child, "send", after_a_stop)
        run = handed(runs_dir, heard)
        assert said[0].result(BOUND).startswith(f"{run} stopped at step ")
    until(lambda: not processes())


def test_a_run_that_nobody_takes_has_stopped(
    runs_dir: Path, heard: Heard, small: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detached, "_PROGRAM", "raise ImportError('no such thing')")
    with pytest.raises(ConfigError, match="no such thing"):
        handed(runs_dir, heard)
    (summary,) = catalogue.list_runs(runs_dir)
    assert summary.state == "stopped"
    assert isinstance(heard.events[-1], RunEnded)
    # Nothing holds it: it can go on.
    monkeypatch.setattr(detached, "_PROGRAM", SMALL_HOST)
    run = detached.start(DEFAULTS, runs_dir, resume=summary.path)
    assert run == summary.run
    commands.stop(catalogue.find(runs_dir, run))


def test_without_a_place_for_temporary_files_the_run_stays_where_it_is(
    runs_dir: Path, heard: Heard, small: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that is full."""

    def full() -> IO[bytes]:
        raise FileNotFoundError(2, "No usable temporary directory found")

    session = session_of(small_host.train, runs_dir, heard)
    session.start(DEFAULTS)
    until(lambda: session.state == "running")
    monkeypatch.setattr(detached.tempfile, "TemporaryFile", full)
    sentence = r"^no process can be started in the background: No usable temporary directory found\.$"
    with pytest.raises(ConfigError, match=sentence):
        detached.hand_over(session)
    assert session.state == "running"
    session.stop()
    assert session.join(BOUND)
    with pytest.raises(ConfigError, match=sentence):
        detached.start(DEFAULTS, runs_dir)


def test_there_must_be_a_run_to_hand_over(runs_dir: Path, heard: Heard, small: Callable[[str], None]) -> None:
    before = processes()
    session = session_of(small_host.train, runs_dir, heard)
    with pytest.raises(ConfigError, match="no run"):
        detached.hand_over(session)
    assert processes() <= before, "no process is started for nothing"
