"""What happens around a run that trains: it is frozen, its metrics are locked, the clock jumps, its data vanishes."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from host import BOUND, STEPS, Host, small_config, until
from PIL import Image
from tally import Tally
from truth import check_finished, whole

from tuitrain.config import RunConfig, with_changes
from tuitrain.paths import METRICS
from tuitrain.runs import catalogue
from tuitrain.session.worker import WorkerSession

FREEZES = 10
LOCKED_SECONDS = 30.0


def frozen(scratch: Path, times: int) -> Tally:
    """SIGSTOP and SIGCONT, at random moments of a run and for random times."""
    tally = Tally(f"SIGSTOP and SIGCONT, {FREEZES} times a run")
    draw = random.Random(2)
    whole()
    for _ in range(times):
        with tally.trial():
            host = Host(scratch, small_config())
            folder = host.folder
            try:
                for freeze in range(FREEZES):
                    host.wait_for("step", draw.randrange(1, 10) + freeze * (STEPS - 20) // FREEZES)
                    host.signal(signal.SIGSTOP)
                    made = len(host.words("step"))
                    (row,) = [run for run in catalogue.list_runs(scratch) if run.path == folder]
                    assert row.state == "running", row.state
                    time.sleep(draw.uniform(0, 0.1))
                    assert len(host.words("step")) - made <= 1, "it trains while it is frozen"
                    host.signal(signal.SIGCONT)
                assert host.wait() == "finished", host.complaint()
                check_finished(folder)
            finally:
                host.signal(signal.SIGCONT) if host.alive() else None
                host.kill()
    return tally


def locked(scratch: Path, times: int) -> Tally:
    """Another process has the metrics to itself: for half a minute once, which is longer than the run, and for shorter times."""
    tally = Tally(f"metrics.sqlite locked for up to {LOCKED_SECONDS:.0f} s")
    whole()
    for number in range(times):
        with tally.trial():
            host = Host(scratch, small_config())
            host.wait_for("step", 20 + 60 * number)
            with closing(sqlite3.connect(host.folder / METRICS, isolation_level=None, timeout=BOUND)) as other:
                other.execute("BEGIN EXCLUSIVE")
                begun, made = time.monotonic(), len(host.words("step"))
                # Training itself waits for nobody.
                host.wait_for("step", min(made + 100, STEPS))
                until(lambda begun=begun, number=number: time.monotonic() - begun > LOCKED_SECONDS / 6**number, "time")  # type: ignore[misc]
                assert host.alive(), "it ended without its points"
                other.execute("ROLLBACK")
            assert host.wait() == "finished", host.complaint()
            check_finished(host.folder)
    return tally


def clock_jumps(scratch: Path, times: int) -> Tally:
    """The clock is set, an hour back or a day on, in the middle of a run."""
    tally = Tally("the clock is set while a run trains")
    draw = random.Random(6)
    whole()
    for number in range(times):
        with tally.trial():
            seconds = (-3600.0, 86_400.0, -4e8)[number % 3]
            at = draw.randrange(20, STEPS - 20)
            host = Host(scratch, small_config(), meanwhile=lambda session, host, at=at, by=seconds: _jump(session, at, by))  # type: ignore[misc]
            assert host.wait() == "finished", host.complaint()
            check_finished(host.folder)
            # And a run that went on after it.
            again = Host(scratch, small_config(max_steps=STEPS + 10), resume=host.folder)
            assert again.wait() == "finished", again.complaint()
    return tally


def _jump(session: WorkerSession, step: int, seconds: float) -> None:
    until(lambda: session.record is not None and session.record.step >= step, f"step {step}")
    now = time.time
    time.time = lambda: now() + seconds


def data_gone(scratch: Path, times: int) -> Tally:
    """The folder of images goes while a run trains on it; the run ends well, and going on later is refused with a sentence."""
    tally = Tally("the data folder vanishes while a run trains")
    for number in range(times):
        with tally.trial():
            data = scratch.with_name(f"images-{number}")
            _make_images(data)
            host = Host(scratch, _on_images(data))
            host.wait_for("step", 3)
            shutil.rmtree(data)
            assert host.wait() == "finished", host.complaint()
            again = Host(scratch, with_changes(_on_images(data), {"max_steps": 120}), resume=host.folder)
            assert again.wait() == "refused", again.complaint()
            assert str(data) in again.words("ended")[0][2], again.words("ended")
            (row,) = [run for run in catalogue.list_runs(scratch) if run.path == host.folder]
            assert row.state == "finished", row.state
    return tally


def _on_images(data: Path) -> RunConfig:
    return small_config(data=str(data), max_steps=100, epochs=100)


def _make_images(folder: Path) -> None:
    draw = random.Random(1)
    for part in ("train", "test"):
        for name in ("ant", "bee"):
            (folder / part / name).mkdir(parents=True)
            for number in range(16):
                colour = tuple(draw.randrange(256) for _ in range(3))
                Image.new("RGB", (32, 32), colour).save(folder / part / name / f"{number}.png")
