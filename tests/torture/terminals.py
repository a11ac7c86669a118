"""The terminal of the app: nobody reads it, it changes its size without end, it goes away."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from commands import HERE, TUITRAIN, environment, recipe
from host import Host, small_config, until
from tally import Tally
from terminal import Terminal

STALLED_SECONDS = 60.0
RESIZES = 200
GONE_SECONDS = 2.0
IDLE_PERCENT = 20


def stalled(scratch: Path, times: int) -> Tally:
    """Nobody reads what the app draws; the run goes on as fast as before, and afterwards keys work."""
    tally = Tally(f"a terminal that nobody reads for {STALLED_SECONDS:.0f} s")
    ratios = []
    for number in range(times):
        with tally.trial(), _training(scratch / str(number)) as (terminal, state):
            # Beside it trains a run without any terminal: other work on the machine slows both.
            peer = Host(scratch / "peers", small_config(max_steps=None, epochs=100_000))
            try:
                peer.wait_for("step")
                before = _speed_beside(peer, state, terminal, lambda: terminal.read(0.25))
                during = _speed_beside(peer, state, terminal, lambda: time.sleep(0.25))
            finally:
                peer.kill()
            ratios.append(during / before)
            assert during > 0.8 * before, f"{during:.2f} of its peer's speed in the place of {before:.2f}"
            terminal.press("x")
            terminal.wait("stopped")
            terminal.press("q")
            assert terminal.exit_code() == 0
            assert state()["state"] == "stopped"
    tally.facts = ["speed beside before: " + ", ".join(f"{ratio:.2f}" for ratio in ratios)]
    return tally


def resized(scratch: Path, times: int) -> Tally:
    """Two hundred sizes within two seconds, one cell among them."""
    tally = Tally(f"{RESIZES} changes of size in 2 s")
    draw, most = random.Random(8), 0
    for number in range(times):
        with tally.trial(), _training(scratch / str(number)) as (terminal, state):
            already, made = len(terminal.raw), state()["step"]
            for resize in range(RESIZES):
                columns, rows = (1, 1) if resize % 20 == 7 else (draw.randrange(1, 240), draw.randrange(1, 80))
                terminal.resize(columns, rows)
                assert terminal.read(2 / RESIZES), terminal.text
            terminal.resize(120, 40)
            terminal.wait(r"x Stop")
            most = max(most, len(terminal.raw) - already)
            until(lambda made=made: state()["step"] > made, "steps")  # type: ignore[misc]
            terminal.press("x")
            terminal.wait("stopped")
            terminal.press("q")
            assert terminal.exit_code() == 0
    tally.facts = [f"at most {most / 1e6:.1f} MB drawn"]
    return tally


def hung_up(scratch: Path, times: int) -> Tally:
    """The terminal goes while the app is in each of its states: without a run the app goes too, and else the run goes on."""
    tally = Tally("hang-up of the app in each state")
    states = ("no run", "preparing", "running", "paused", "stopping")
    slowest = 0.0
    for number in range(times):
        what = states[number % len(states)]
        with tally.trial(what), app(scratch / str(number), at_once=what != "no run") as (terminal, state):
            process = psutil.Process(terminal.pid)
            _bring_to(what, terminal)
            terminal.hang_up()
            began = time.monotonic()
            if what == "no run":
                until(lambda process=process: _has_ended(process), "its end", GONE_SECONDS)  # type: ignore[misc]
                slowest = max(slowest, time.monotonic() - began)
                continue
            if what == "stopping":
                until(lambda: state()["state"] == "stopped", "the stop")
                until(lambda process=process: _has_ended(process), "its end")  # type: ignore[misc]
                continue
            until(lambda: bool(state()) and state()["attached"] == 0, "that nobody is attached")
            slowest = max(slowest, time.monotonic() - began) if what != "preparing" else slowest
            if what == "paused":
                process.cpu_percent()
                assert process.cpu_percent(interval=1.0) < IDLE_PERCENT, "a thread spins"
                assert state()["state"] == "paused"
            else:
                step = state()["step"]
                until(lambda step=step: state()["step"] > step + 5, "steps without a terminal")  # type: ignore[misc]
            assert state()["pid"] == process.pid
            process.terminate()
            until(lambda: state()["state"] == "interrupted", "its last checkpoint")
            until(lambda process=process: _has_ended(process), "its end")  # type: ignore[misc]
    tally.facts = [f"the screen was gone after at most {slowest:.1f} s"]
    return tally


def _bring_to(state: str, terminal: Terminal) -> None:
    if state == "no run":
        terminal.wait("Enter")
        return
    terminal.wait("preparing|importing torch|reading|running" if state == "preparing" else r"\[8, 3, 8, 8\]")
    if state == "paused":
        terminal.press(" ")
        terminal.wait("paused")
    elif state == "stopping":
        terminal.press("x")
        terminal.wait("(?i)stopp")


def _has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def _speed_beside(peer: Host, state: Any, terminal: Terminal, pass_time: Callable[[], object]) -> float:
    """The app's steps for each step of its peer, while there is much to draw: what nobody reads soon fills every buffer on the way."""
    began, own, others = time.monotonic(), state()["step"], len(peer.words("step"))
    while time.monotonic() - began < STALLED_SECONDS:
        for columns, rows in ((118, 38), (120, 40)):
            terminal.resize(columns, rows)
            pass_time()
        peer.words("step")
    return float(state()["step"] - own) / (len(peer.words("step")) - others)


@contextmanager
def _training(home: Path) -> Iterator[tuple[Terminal, Any]]:
    with app(home, at_once=True) as (terminal, state):
        terminal.wait(r"\[8, 3, 8, 8\]")
        yield terminal, state


@contextmanager
def app(home: Path, *, at_once: bool, folder: Path = HERE, **more: str) -> Iterator[tuple[Terminal, Any]]:
    """The app in a terminal, and what the `state.json` of its run says; whatever lives on is killed.

    Args:
        home: where its runs are.
        at_once: whether it begins with a run.
        folder: where it is started: what it saves by key goes there, and it finds `workload` there.
        more: variables of its environment.
    """
    home.mkdir(parents=True, exist_ok=True)
    runs = home / "runs"
    small = [TUITRAIN, "run", str(recipe(runs)), "--tui", "--max-steps", "none", "--epochs", "100000"] if at_once else [TUITRAIN]

    def state() -> dict[str, Any]:
        return next((json.loads(path.read_bytes()) for path in runs.glob("2*/state.json")), {})

    os.chdir(folder)
    with Terminal(small, environment(runs) | more) as terminal:
        process = psutil.Process(terminal.pid)
        try:
            yield terminal, state
        finally:
            if process.is_running():
                process.kill()
