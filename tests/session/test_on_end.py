"""The command that runs when a run has ended: what it is told, where its output goes, how long it may take."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_sessions import BOUND, Heard, count_to, session_of, started, until

from tuitrain.cli import wiring
from tuitrain.config import DEFAULTS, ConfigError, RunConfig, with_changes
from tuitrain.console import follow
from tuitrain.console.printers import JsonPrinter
from tuitrain.events import Eval, Event, Notice, RunEnded, Step
from tuitrain.session import on_end
from tuitrain.session.control import Control
from tuitrain.session.worker import WorkerSession


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody collects the dead, a process group that was ended never looks empty."""
    monkeypatch.setattr(on_end, "GRACE_SECONDS", 0.3)


def finish(config: RunConfig, control: Control) -> Iterator[Event]:
    """An engine whose run ends at once."""
    yield started(5)
    yield Step(step=5, epoch=1, loss=1.0, lr=0.1, samples_per_second=1.0)
    yield Eval(step=5, epoch=1, loss=1.0, loss_sum=1.0, accuracy=0.625)
    yield RunEnded(state="finished", step=5)


def refuse(config: RunConfig, control: Control) -> Iterator[Event]:
    raise ConfigError("data: nothing there.")
    yield


def never_begin(config: RunConfig, control: Control) -> Iterator[Event]:
    yield RunEnded(state="stopped", step=0)


def run(command: str, folder: Path, heard: Heard, train: Any = finish, **changes: Any) -> WorkerSession:
    """A session whose run with this `on_end` is over, the command too."""
    session = session_of(train, folder, heard)
    session.start(with_changes(DEFAULTS, {"on_end": command, **changes}))
    assert session.join(BOUND)
    return session


def output(session: WorkerSession) -> list[str]:
    assert session.record is not None
    return [line.text for line in session.record.log.tail(1000) if line.level == "output"]


def notices(session: WorkerSession) -> list[str]:
    assert session.record is not None
    return [notice.text for notice in session.record.notices]


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_command_is_told_of_the_run(tmp_path: Path, heard: Heard) -> None:
    names = ("RUN", "STATE", "NAME", "STEP", "ACCURACY", "FOLDER")
    session = run("; ".join(f'echo "$TUITRAIN_{name}"' for name in names), tmp_path, heard, name="two 猫")
    record = session.record
    assert record is not None
    assert output(session) == [record.run, "finished", "two 猫", "5", "0.625", str(record.path)]
    assert notices(session) == []


def test_a_run_without_a_name_or_an_evaluation(tmp_path: Path, heard: Heard) -> None:
    def broken(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(5)
        raise ZeroDivisionError

    session = run('echo "$TUITRAIN_NAME|$TUITRAIN_STATE|$TUITRAIN_STEP|$TUITRAIN_ACCURACY|"', tmp_path, heard, broken)
    assert output(session)[-1] == "custom|failed|0||"


def test_it_runs_when_all_is_on_disk_and_once(tmp_path: Path, heard: Heard) -> None:
    session = run('cat "$TUITRAIN_FOLDER/state.json"; echo; echo x >> "$TUITRAIN_FOLDER/times"', tmp_path, heard)
    assert session.record is not None
    assert session.record.path is not None
    assert '"state":"finished"' in output(session)[0]
    assert (session.record.path / "times").read_text() == "x\n"


def test_output_and_errors_are_in_the_log_line_by_line_and_clean(tmp_path: Path, heard: Heard) -> None:
    session = run(r"printf 'a\033[2J\n'; printf '\377\r\n' >&2; printf 'end'; cat", tmp_path, heard)
    assert output(session) == ["a·[2J", "\ufffd", "end"]
    assert session.record is not None
    assert session.record.path is not None
    lines = (session.record.path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 1)[1] for line in lines[-4:]] == [
        r"info on_end: printf 'a\033[2J\n'; printf '\377\r\n' >&2; printf 'end'; cat",
        "output a·[2J",
        "output \ufffd",
        "output end",
    ]


def test_output_comes_while_the_command_runs(tmp_path: Path, heard: Heard) -> None:
    session = session_of(finish, tmp_path, heard)
    session.start(with_changes(DEFAULTS, {"on_end": f"echo first; until test -e {tmp_path}/go; do sleep 0.02; done; echo second"}))
    until(lambda: session.record and output(session) == ["first"])
    assert not session.join(0)
    (tmp_path / "go").touch()
    assert session.join(BOUND)
    assert output(session) == ["first", "second"]


def test_the_session_is_free_while_the_command_runs(tmp_path: Path, heard: Heard) -> None:
    session = session_of(finish, tmp_path, heard)
    session.start(with_changes(DEFAULTS, {"on_end": f"until test -e {tmp_path}/go; do sleep 0.02; done; exit 3"}))
    until(lambda: session.state == "ended")
    first = session.record
    assert heard.over.is_set()
    session.start(DEFAULTS)
    until(lambda: session.state == "ended")
    assert not session.join(0)
    (tmp_path / "go").touch()
    assert session.join(BOUND)
    assert first is not None
    assert session.record is not first
    assert (len(first.notices), notices(session)) == (1, [])


def test_a_command_that_fails_is_a_warning(tmp_path: Path, heard: Heard) -> None:
    session = run("exit 3", tmp_path, heard)
    assert notices(session) == ["on_end: 'exit 3' failed with exit code 3."]
    assert [event for event in heard.events if isinstance(event, Notice)] == [Notice(level="warning", text=notices(session)[0])]
    assert isinstance(heard.events[-2], RunEnded)
    assert heard.batches[-2:] == [0, 1], "the notice comes after the run's last, empty batch"
    assert session.record is not None
    assert session.record.path is not None
    assert "warning on_end: 'exit 3' failed with exit code 3." in (session.record.path / "log.txt").read_text()


def test_a_signal_is_named(tmp_path: Path, heard: Heard) -> None:
    assert notices(run("kill -9 $$", tmp_path, heard)) == ["on_end: 'kill -9 $$' was ended by signal 9."]


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_command_that_takes_too_long_is_ended_with_all_it_started(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch, stubborn: bool
) -> None:
    monkeypatch.setattr(on_end, "SECONDS", 2.0)
    command = f"{'trap : TERM; ' if stubborn else ''}sleep 1000 & echo $!; wait; while true; do sleep 0.05; done"
    session = run(command, tmp_path, heard)
    assert len(notices(session)) == 1
    assert notices(session)[0].endswith(" took longer than 2 s and was ended; put & at its end to leave it running.")
    assert not is_alive(int(output(session)[0]))


def test_what_is_left_in_the_background_goes_on_and_may_print(tmp_path: Path, heard: Heard) -> None:
    command = f"(until test -e {tmp_path}/go; do sleep 0.02; done; echo late; touch {tmp_path}/done) & echo $!"
    session = run(command, tmp_path, heard)
    assert notices(session) == []
    assert is_alive(int(output(session)[0]))
    (tmp_path / "go").touch()
    until((tmp_path / "done").exists)


def test_a_flood_of_output_is_cut(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_end, "KEPT_BYTES", 100)
    monkeypatch.setattr(on_end, "_LONGEST_LINE", 20)
    lines = output(run("printf '%050d\\n' 7; yes | head -n 50000", tmp_path, heard))
    assert lines[0] == "0" * 20
    assert lines[-1] == "…"
    assert len(lines) < 50


def test_a_command_that_cannot_be_started_is_a_sentence(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **options: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(on_end.tempfile, "TemporaryFile", full)
    assert notices(run("true", tmp_path, heard)) == ["on_end: 'true' cannot be started: No space left on device."]


@pytest.mark.parametrize("train", [refuse, never_begin])
def test_a_start_that_made_no_run_runs_nothing(tmp_path: Path, heard: Heard, train: Any) -> None:
    run(f"touch {tmp_path}/ran", tmp_path / "runs", heard, train)
    assert not (tmp_path / "ran").exists()


def test_without_a_command_there_is_no_thread(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_end, "OnEnd", None)
    session = session_of(finish, tmp_path, heard)
    session.start(DEFAULTS)
    assert session.join(BOUND)


def test_no_thread_is_left(tmp_path: Path, heard: Heard) -> None:
    before = set(threading.enumerate())
    run("true", tmp_path, heard)
    assert set(threading.enumerate()) == before


def test_interrupt_ends_the_run_first_and_then_the_command(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(1), tmp_path, heard)
    session.start(with_changes(DEFAULTS, {"on_end": "echo $$; sleep 1000"}))
    session.interrupt()
    until(lambda: session.state == "ended" and len(output(session)) == 1)
    session.interrupt()
    assert session.join(BOUND)
    assert notices(session) == ["on_end: 'echo $$; sleep 1000' was ended before it was done."]
    assert not is_alive(int(output(session)[0]))


# -- on the console ---------------------------------------------------------------------------------------------------


def test_the_console_waits_and_its_json_is_the_runs_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = WorkerSession(lambda: finish, tmp_path, lambda: [])
    config = with_changes(DEFAULTS, {"on_end": f"sleep 0.2; touch {tmp_path}/ran; exit 7"})
    assert follow(session, config, JsonPrinter()) == 0
    assert (tmp_path / "ran").exists()
    out, err = capsys.readouterr()
    assert '"event":"run_ended"' in out.splitlines()[-1]
    assert err == f"tuitrain: on_end: {config.on_end!r} failed with exit code 7.\n"


def test_a_signal_while_the_console_waits_ends_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = WorkerSession(lambda: finish, tmp_path, lambda: [])
    # The command itself asks for what a person's Ctrl+C does.
    config = with_changes(DEFAULTS, {"on_end": f"sleep 0.3; kill -INT {os.getpid()}; sleep 1000"})
    begin = time.monotonic()
    assert follow(session, config, JsonPrinter()) == 128 + signal.SIGINT
    assert time.monotonic() - begin < BOUND
    err = capsys.readouterr().err
    assert "ending on_end" in err
    assert "was ended before it was done" in err


def test_leaving_the_app_waits_for_the_command_and_says_so(tmp_path: Path, heard: Heard, capsys: pytest.CaptureFixture[str]) -> None:
    session = session_of(finish, tmp_path, heard)
    session.start(with_changes(DEFAULTS, {"on_end": f"sleep 0.8; touch {tmp_path}/ran"}))
    until(lambda: session.state == "ended")
    assert wiring._end(session)
    assert (tmp_path / "ran").exists()
    assert "waiting for on_end" in capsys.readouterr().err


def test_it_follows_a_run_that_no_other_process_took_over(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(5), tmp_path, heard)
    session.start(with_changes(DEFAULTS, {"on_end": "echo $TUITRAIN_STATE $TUITRAIN_STEP"}))
    heard.wait_for(Step, 5)
    assert session.let_go(BOUND)
    assert output(session) == [], "the run goes on elsewhere"
    session.stop_after_all()
    assert session.join(BOUND)
    assert output(session) == ["stopped 5"]
