"""The app without its terminal, ended by a signal, and left while its run goes on; and other terminals that attach."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from programs import RESTING, runs, until
from terminal import TUITRAIN, Terminal

from tuitrain.runs import catalogue

TRAIN = [TUITRAIN, "run", *RESTING, "--tui"]
DEAF = ["sh", "-c", f"trap '' HUP; exec {' '.join(TRAIN)}"]


def newest(env: dict[str, str]) -> dict[str, Any]:
    """The newest run, as `tuitrain runs --json` tells it."""
    return runs(env)[0]


def open_terminals(pid: int) -> list[str]:
    """The terminals that a process still holds."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        found += [target] if target.startswith(("/dev/pts", "/dev/tty")) else []
    return found


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lives(process: psutil.Process) -> bool:
    """Whether a process does anything; one whose parent has died is dead for a while before somebody takes it away."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def rests(pid: int) -> bool:
    """Whether a process leaves the processor alone for a second."""
    before, began = cpu_seconds(pid), time.monotonic()
    until(lambda: time.monotonic() - began >= 1.0)
    return cpu_seconds(pid) - before < 0.1


def restored(terminal: Terminal) -> bool:
    """Whether the terminal is as it was: the screen before the app, and a cursor."""
    raw = terminal.raw
    return b"\x1b[?1049l" in raw and raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l")


@pytest.mark.parametrize("command", [TRAIN, DEAF], ids=["hang-up", "end of input"])
def test_a_terminal_that_goes_leaves_the_run_to_other_terminals(env: dict[str, str], command: list[str]) -> None:
    with Terminal(command, env) as first:
        first.wait(r"\[30, 5\] → \[30, 2\]")
        first.press(" ")
        first.wait("paused")
        first.hang_up()
        until(lambda: not open_terminals(first.pid))
        until(lambda: newest(env)["attached"] == 0)
        assert newest(env)["state"] == "paused"
        assert newest(env)["pid"] == first.pid, "the run goes on in the same process"
        os.kill(first.pid, signal.SIGCONT)
        until(lambda: rests(first.pid))
        with Terminal([TUITRAIN, "attach", "last"], env) as second, Terminal([TUITRAIN, "attach", "last"], env, 80, 24) as third:
            second.wait("space Go on")
            third.wait("space Go on")
            until(lambda: newest(env)["attached"] == 2)
            third.hang_up()
            until(lambda: newest(env)["attached"] == 1)
            second.press(" ")
            second.wait("space Pause")
            second.press("x")
            second.wait("■ stopped")
            until(lambda: not first.running)
            second.press("q")
            assert second.exit_code() == 0
    assert newest(env)["state"] == "stopped"


def test_sigterm_saves_and_gives_the_terminal_back(env: dict[str, str], tmp_path: Path) -> None:
    with Terminal(TRAIN, env) as terminal:
        terminal.wait(r"\[30, 5\] → \[30, 2\]")
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.exit_code() == 143
        assert restored(terminal)
    assert newest(env)["state"] == "interrupted"
    assert list((tmp_path / "runs").glob("*/checkpoints/step-*"))


@pytest.mark.parametrize("stop", [signal.SIGSTOP, signal.SIGTSTP, None], ids=["SIGSTOP", "SIGTSTP", "SIGCONT alone"])
def test_an_app_that_stood_still_takes_the_terminal_again_and_can_be_left(env: dict[str, str], stop: int | None) -> None:
    with Terminal(TRAIN, env) as terminal:
        terminal.wait(r"\[30, 5\] → \[30, 2\]")
        app = psutil.Process(terminal.pid)
        threads, taken = app.num_threads(), terminal.raw.count(b"\x1b[?1049h")
        for times in (taken + 1, taken + 2):
            if stop is not None:
                app.send_signal(stop)
                until(lambda: terminal.read(0.01) and app.status() == psutil.STATUS_STOPPED)
            app.send_signal(signal.SIGCONT)
            until(lambda times=times: terminal.read(0.01) and terminal.raw.count(b"\x1b[?1049h") >= times)
        terminal.press("?")
        terminal.wait("themes")
        terminal.press("?")
        terminal.wait(r"\[30, 5\] → \[30, 2\]")
        until(lambda: terminal.read(0.01) and app.num_threads() <= threads)
        # As Slurm ends what it has suspended, and systemd in the other order.
        app.send_signal(signal.SIGCONT)
        app.send_signal(signal.SIGTERM)
        app.send_signal(signal.SIGCONT)
        assert terminal.exit_code() == 143
        assert restored(terminal)


@pytest.mark.parametrize("line", ["{}", "sh -c '{}; exit $?'"], ids=["alone", "in a script"])
def test_ctrl_z_leads_to_the_shell_and_fg_back(env: dict[str, str], line: str) -> None:
    with Terminal(["bash", "--norc", "--noprofile", "-i"], {**env, "PS1": "> "}) as shell:
        shell.wait(">")
        shell.press(line.format(" ".join(TRAIN)), "Enter")
        shell.wait(r"\[30, 5\] → \[30, 2\]")
        app = next(child for child in psutil.Process(shell.pid).children(recursive=True) if "--tui" in child.cmdline()[2:])
        for times in (1, 2):
            shell.press("\x1a")
            until(
                lambda times=times: shell.read(0.01) and shell.raw.count(b"random-linear stands still with tuitrain; fg goes on.") == times
            )
            until(lambda: shell.read(0.01) and app.status() == psutil.STATUS_STOPPED)
            shell.press("echo $((41 * 271))", "Enter")
            shell.wait("11111")
            shell.press("clear; fg", "Enter")
            until(lambda times=times: shell.read(0.01) and shell.raw.count(b"\x1b[?1049h") > times)
            shell.wait(r"\[30, 5\] → \[30, 2\]")
        shell.press("q")
        shell.wait("Stop and save")
        shell.press("Enter")
        until(lambda: shell.read(0.01) and not lives(app))
        shell.press("echo $? after tuitrain", "Enter")
        shell.wait("0 after tuitrain")
    assert newest(env)["state"] == "stopped"


@pytest.mark.parametrize(
    ("line", "number", "saved"),
    [
        ("{}", signal.SIGKILL, True),
        ("{}", signal.SIGSEGV, False),
        ("sh -c '{}; until stty -a | grep -q \" icanon\"; do :; done'", signal.SIGKILL, False),
    ],
    ids=["killed", "crashed", "killed in a script that goes on"],
)
def test_an_app_that_is_killed_leaves_a_terminal_to_work_on_and_says_how_its_run_goes_on(
    env: dict[str, str], line: str, number: int, saved: bool
) -> None:
    with Terminal(["bash", "--norc", "--noprofile", "-i"], {**env, "PS1": "> "}) as shell:
        shell.wait(">")
        shell.press(line.format(" ".join(TRAIN)), "Enter")
        shell.wait(r"\[30, 5\] → \[30, 2\]")
        below = psutil.Process(shell.pid).children(recursive=True)
        app = next(child for child in below if "--tui" in child.cmdline()[2:])
        if saved:
            shell.press("c")
            shell.wait("manual checkpoint")
        # What is shown may be told of a moment later; an answer to a key comes after that.
        shell.press("?")
        shell.wait("themes")
        app.send_signal(number)
        goes_on = f"; its run goes on with: tuitrain resume {newest(env)['run']}"
        words = f"tuitrain was killed, or it crashed{goes_on if saved else ', and with it a run that had saved nothing yet.'}\r\n"
        until(lambda: shell.read(0.01) and words.encode() in shell.raw)
        assert restored(shell)
        assert shell.raw.rfind(b"\x1b[?1003l") > shell.raw.rfind(b"\x1b[?1003h"), "the mouse is nobody's"
        until(lambda: shell.read(0.01) and not any(map(lives, below)))
        # What is typed is seen, and comes in lines.
        shell.press("clear; until stty -a | grep -q ' icanon.* echo '; do :; done; echo $((41 * 271))", "Enter")
        shell.wait("11111")
    assert newest(env)["state"] == "lost"
    crash = "Its process crashed: Segmentation fault" if number == signal.SIGSEGV else "The process that trained it is gone"
    assert catalogue.list_runs(Path(env["TUITRAIN_RUNS"]))[0].error.startswith(crash)


def test_ctrl_z_without_a_shell_says_so(env: dict[str, str]) -> None:
    with Terminal([TUITRAIN], env) as terminal:
        terminal.wait("Enter trains")
        terminal.press("\x1a")
        terminal.wait("No shell started tuitrain")
        terminal.press("q")
        assert terminal.exit_code() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_without_a_run(env: dict[str, str], number: int, code: int) -> None:
    with Terminal([TUITRAIN], env) as terminal:
        terminal.wait("Enter trains")
        os.kill(terminal.pid, number)
        assert terminal.exit_code() == code
        assert restored(terminal)


@pytest.mark.parametrize("leave", ["q", "hang up", "kill"])
def test_what_warms_torch_up_goes_with_the_app(env: dict[str, str], leave: str) -> None:
    with Terminal([TUITRAIN], env) as terminal:
        terminal.wait("seed-cnn")
        app = psutil.Process(terminal.pid)
        until(lambda: terminal.read(0.01) and bool(app.children()))
        warming = app.children()
        if leave == "q":
            terminal.press("q")
            assert terminal.exit_code() == 0
            assert not any(lives(child) for child in warming)
        else:
            terminal.hang_up() if leave == "hang up" else app.kill()
            until(lambda: not any(lives(child) for child in warming))


def test_q_leaves_the_run_in_the_background(env: dict[str, str]) -> None:
    with Terminal(TRAIN, env) as terminal:
        terminal.wait(r"\[30, 5\] → \[30, 2\]")
        before = newest(env)
        terminal.press("q")
        terminal.wait("Keep running in the background")
        terminal.press("Down", "Enter")
        assert terminal.exit_code() == 0
        assert restored(terminal)
        assert f"tuitrain attach {before['run']}".encode() in terminal.raw[terminal.raw.rfind(b"\x1b[?1049l") :]
    try:
        until(lambda: newest(env)["step"] > before["step"] and newest(env)["state"] == "running")
        after = newest(env)
        assert (after["run"], after["attached"]) == (before["run"], 0)
        assert after["pid"] != before["pid"]
    finally:
        subprocess.run([TUITRAIN, "stop", "last"], env={**os.environ, **env}, check=True, capture_output=True, timeout=60)
    assert newest(env)["state"] == "stopped"
