"""Two processes that want the same run, and one that hands it to another."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import psutil
from host import BOUND, STEPS, Host, small_config, until
from tally import Tally
from truth import check_finished, whole

from tuitrain.runs.status import read_status
from tuitrain.session import detached
from tuitrain.session.worker import WorkerSession


def two_resumers(scratch: Path, times: int) -> Tally:
    """Two processes go on with the same killed run at the same moment."""
    tally = Tally("two processes resume the same run at once")
    whole()
    first = Host(scratch, small_config())
    first.wait_for("step", STEPS - 60)
    first.kill()
    for number in range(times):
        with tally.trial():
            folder = scratch.with_name(f"copy-{number}") / first.folder.name
            shutil.copytree(first.folder, folder)
            ready, go = os.pipe()
            both = [Host(folder.parent, small_config(), resume=folder, before=lambda ready=ready: os.read(ready, 1)) for _ in range(2)]  # type: ignore[misc]
            os.write(go, b"12")
            ended = sorted((host.wait(), host.pid) for host in both)
            os.close(ready)
            os.close(go)
            assert [state for state, _ in ended] == ["finished", "refused"], ended
            refused = next(host for host in both if host.words("ended")[0][1] == "refused")
            assert f"(pid {ended[0][1]} on " in refused.words("ended")[0][2], refused.words("ended")
            check_finished(folder)
            shutil.rmtree(folder.parent)
    return tally


def hand_over(scratch: Path, times: int) -> Tally:
    """A run goes from the process that trains it to a detached one."""
    tally = Tally("a run handed over to a process in the background")
    slowest = 0.0
    whole()
    for number in range(times):
        with tally.trial():
            step = 5 + number * 7 % 200
            host = Host(scratch, small_config(), meanwhile=_hand_over)
            host.wait_for("step", step)
            host.errors.with_suffix(".go").touch()
            until(lambda host=host: not host.alive(), "the end of the first process")  # type: ignore[misc]
            handed = host.words("handed")
            assert handed, host.complaint()
            slowest = max(slowest, handed[0][1])
            folder = host.folder
            until(lambda folder=folder: read_status(folder).state == "finished", "the end of the run")  # type: ignore[misc]
            heir = read_status(folder).pid
            assert heir != host.pid
            psutil.wait_procs([psutil.Process(heir)] if psutil.pid_exists(heir) else [], BOUND)
            check_finished(folder)
    tally.facts = [f"at most {slowest:.1f} s to the prompt"]
    return tally


def _hand_over(session: WorkerSession, host: Host) -> None:
    go = host.errors.with_suffix(".go")
    until(go.exists, "the word to hand over")
    until(lambda: session.state == "running", "that it runs")
    began = time.monotonic()
    detached.hand_over(session)
    host.say("handed", time.monotonic() - began)
