"""Processes that are killed, at moments at random and inside their saves, and runs that go on afterwards."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
from commands import recipe, tuitrain
from host import BOUND, POLL_SECONDS, STEPS, Host, small_config, until
from tally import Tally
from truth import check_finished, check_so_far, losses, whole

from tuitrain.engine import checkpoint
from tuitrain.paths import CHECKPOINTS
from tuitrain.runs import catalogue
from tuitrain.runs.status import read_status

A_SECOND = 1.3
"""What may be lost is a second's steps, and those of the tenths in which they are on their way and written."""


def kill_and_resume(scratch: Path, times: int) -> Tally:
    """SIGKILL at random moments, every third within a save; what is kept is looked at after each, and at the end."""
    tally = Tally("SIGKILL of a training process, then resume")
    whole()
    draw = random.Random(7)
    folder: Path | None = None
    within, lost, finished, config = 0, 0.0, 0, small_config()
    while tally.tried < times:
        with tally.trial():
            if folder is None:
                # Where saves are rare, it shows how seldom losses are written.
                config = small_config(checkpoint_every_steps=draw.choice([15, 100]))
            host = Host(scratch, config, resume=folder)
            try:
                saving = _wait_for_a_moment(host, draw, folder if tally.tried % 3 == 0 else None, last=tally.tried % 8 == 0)
                over = not host.alive()
                moment = host.kill()
                within += saving
                folder = host.folder if folder is None and host.words("started") else folder
                if folder is not None:
                    lost = max(lost, _check_after_kill(host, folder, moment))
                    if not checkpoint.checkpoints(folder / CHECKPOINTS):
                        folder = None  # it was never saved, and starts anew
            finally:
                host.kill()
            if over:
                done, folder = folder, None
                assert host.wait() == "finished", host.complaint()
                assert done is not None
                check_finished(done)
                finished += 1
    tally.facts = [f"{within} within a save", f"{finished} runs finished and equal to the unbroken one", f"at most {lost:.2f} s lost"]
    return tally


def _wait_for_a_moment(host: Host, draw: random.Random, folder: Path | None, *, last: bool) -> bool:
    """Wait until it is time to kill; with a folder, until a save is under way; the last time for the end. Whether a save was."""
    if last:
        host.wait()
        return False
    end = time.monotonic() + draw.uniform(0.0, 1.2)
    if folder is None:
        while time.monotonic() < end and host.alive():
            time.sleep(POLL_SECONDS)
        return False
    before = {path.name for path in (folder / CHECKPOINTS).glob(".step-*")}
    while host.alive():
        if {path.name for path in (folder / CHECKPOINTS).glob(".step-*")} - before:
            time.sleep(draw.uniform(0.0, 0.004))
            return any((folder / CHECKPOINTS).glob(".step-*"))
    return False


def _check_after_kill(host: Host, folder: Path, moment: float) -> float:
    """What a killed process leaves is whole; for how many seconds nothing had been written."""
    (row,) = [run for run in catalogue.list_runs(folder.parent) if run.path == folder]
    assert not row.live, f"it is shown as {row.state}"
    assert row.broken is None, row.broken
    kept = check_so_far(folder)
    if host.resumed_from is None:
        return 0.0
    made = [words[1] for words in host.words("step")]
    unwritten = made[max(kept - host.resumed_from, 0) :]
    seconds = moment - unwritten[0] if unwritten and moment > unwritten[0] else 0.0
    assert seconds <= A_SECOND, f"the steps of {seconds:.2f} s are lost ({len(unwritten)} of them)"
    return seconds


def kill_detached(scratch: Path, times: int) -> Tally:
    """The same with the commands that a person types: `run --detach`, kill -9, `resume --detach`; the last one is let be."""
    tally = Tally("SIGKILL of a detached run, then tuitrain resume --detach")
    draw = random.Random(11)
    run, finished = "", 0
    while tally.tried < times or (run and tally.tried < times + 3):
        with tally.trial():
            run = tuitrain(scratch, *(("resume", run) if run else ("run", str(recipe(scratch)))), "--detach")
            folder = scratch / run
            status = read_status(folder)
            if tally.tried < times:
                _wait_for_step(folder, min(status.step + draw.randrange(5, STEPS // 2), STEPS))
                with suppress(ProcessLookupError):
                    os.kill(status.pid, signal.SIGKILL)
            psutil.wait_procs([psutil.Process(status.pid)] if psutil.pid_exists(status.pid) else [], BOUND)
            check_so_far(folder)
            if read_status(folder).state == "finished":
                run = ""
                check_finished(folder)
                finished += 1
    tally.facts = [f"{finished} runs finished and equal to the unbroken one"]
    return tally


def _wait_for_step(folder: Path, step: int) -> None:
    until(lambda: len(losses(folder)) >= step, f"step {step}")


def kill_saves(scratch: Path, times: int) -> Tally:
    """Processes that do nothing but save, killed one after the other."""
    from killed_saves import KilledSaves

    tally = Tally("SIGKILL of a process that saves without end")
    scratch.mkdir()
    saves = KilledSaves(scratch)
    for _ in range(times):
        with tally.trial():
            saves.kill_one()
    tally.facts = [f"{saves.within} within a save"]
    return tally
