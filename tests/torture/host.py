"""Processes that host a run as `tuitrain run --detach` does, with all that is tuitrain's in them; torch is imported once, before they fork.

They say what they do in a pipe, in which all is that a killed process has said, and which needs no disk.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import workload
from workload import SAMPLES

from tuitrain.config import DEFAULTS, RunConfig, with_changes
from tuitrain.engine.train import train
from tuitrain.events import Event, RunStarted
from tuitrain.session.worker import WorkerSession

STEPS = 300
BATCH = 8
EPOCHS = -(-STEPS // (SAMPLES // BATCH))
BOUND = 60.0
POLL_SECONDS = 0.002


def small_config(**changes: Any) -> RunConfig:
    """A run of `STEPS` steps whose losses depend on every random generator there is, saved often."""
    small = {"data": "workload:make_images", "model": "workload:make_net", "device": "cpu", "batch_size": BATCH, "epochs": 10}
    chance = {"max_steps": STEPS, "shuffle": True, "optimizer": "adam", "lr": 0.003, "checkpoint_every_steps": 15, "keep_checkpoints": 2}
    return with_changes(DEFAULTS, small | chance | changes)


class Host:
    """A run in a process of its own.

    Args:
        runs_dir: where the run is, or is to be.
        config: what it trains.
        resume: the folder of the run that goes on.
        before: called in the new process before anything else.
        meanwhile: called in the new process when the run was started.
    """

    _count = 0
    _living: ClassVar[set[int]] = set()

    def __init__(
        self,
        runs_dir: Path,
        config: RunConfig,
        resume: Path | None = None,
        *,
        before: Callable[[], object] = lambda: None,
        meanwhile: Callable[[WorkerSession, Host], object] = lambda session, host: None,
    ) -> None:
        Host._count += 1
        self.errors = Path(os.environ["TORTURE"]) / f"host-{Host._count}.err"
        self.exit_code: int | None = None
        sys.stdout.flush()
        self._said = b""
        self._ear, self._mouth = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(lambda: self._train(runs_dir, config, resume, before, meanwhile))
        Host._living.add(self.pid)
        os.close(self._mouth)
        os.set_blocking(self._ear, False)

    def __del__(self) -> None:
        os.close(self._ear)

    def say(self, *words: Any) -> None:
        """In the process itself: what `words` finds."""
        os.write(self._mouth, json.dumps(words).encode() + b"\n")

    @classmethod
    def end_all(cls) -> None:
        """Kill those that are left."""
        for pid in cls._living:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def words(self, kind: str) -> list[list[Any]]:
        """What it has said of one kind, whole lines only."""
        with suppress(BlockingIOError):
            while piece := os.read(self._ear, 1 << 16):
                self._said += piece
        lines = self._said.split(b"\n")[:-1]
        return [words for line in lines if (words := json.loads(line))[0] == kind]

    def wait_for(self, kind: str, count: int = 1) -> list[Any]:
        """Wait until it has said something for the `count`-th time; what that was."""
        end = time.monotonic() + BOUND
        while len(found := self.words(kind)) < count:
            assert self.alive(), f"the host ended without {kind!r}: {self.complaint()}"
            assert time.monotonic() < end, f"{kind!r} did not come in {BOUND:.0f} s"
            time.sleep(POLL_SECONDS)
        return found[count - 1]

    def alive(self) -> bool:
        """Whether the process is there."""
        if self.exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._ended(status)
        return self.exit_code is None

    def wait(self) -> str:
        """Wait for its end; the state of the run then, or what was refused."""
        end = time.monotonic() + BOUND
        while self.alive():
            if time.monotonic() > end:
                self.kill()
                raise AssertionError(f"the host did not end in {BOUND:.0f} s: {self.complaint()}")
            time.sleep(POLL_SECONDS)
        ended = self.words("ended")
        assert ended, f"the host died with {self.exit_code}: {self.complaint()}"
        return str(ended[0][1])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> float:
        """End it without a word; the moment."""
        moment = time.time()
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
            self._ended(os.waitpid(self.pid, 0)[1])
        return moment

    def complaint(self) -> str:
        """The last lines of what it printed."""
        with suppress(FileNotFoundError):
            return f"{self.words('ended')} {self.errors.read_text(errors='replace')[-2000:]}"
        return ""

    @property
    def resumed_from(self) -> int | None:
        """The step it went on from, 0 for a new run; `None` before it began."""
        started = self.words("started")
        return started[0][2] or 0 if started else None

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.wait_for("started")[1])

    def _ended(self, status: int) -> None:
        self.exit_code = os.waitstatus_to_exitcode(status)
        Host._living.discard(self.pid)

    def _run(self, work: Callable[[], int]) -> NoReturn:
        os.setsid()
        os.close(self._ear)
        errors = os.open(self.errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        code = 3
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _train(
        self,
        runs_dir: Path,
        config: RunConfig,
        resume: Path | None,
        before: Callable[[], object],
        meanwhile: Callable[[WorkerSession, Host], object],
    ) -> int:
        session = WorkerSession(lambda: train, runs_dir, list)
        signal.signal(signal.SIGTERM, lambda number, frame: session.interrupt())
        workload.on_step = lambda: self.say("step", time.time())
        session.subscribe(lambda batch: self._heard(session, batch))
        before()
        session.start(config, resume=resume)
        meanwhile(session, self)
        while not session.join(1.0):
            pass
        assert session.record is not None
        refused = session.refusal is not None
        self.say("ended", "refused" if refused else session.record.state, session.refusal or session.record.error)
        self.say("notices", [notice.text for notice in session.record.notices])
        return 2 if refused else 0

    def _heard(self, session: WorkerSession, batch: Sequence[Event]) -> None:
        assert session.record is not None
        for event in batch:
            if isinstance(event, RunStarted):
                self.say("started", str(session.record.path), event.resumed_from)


def until(true: Callable[[], bool], what: str, seconds: float = BOUND) -> None:
    """Wait until something is true.

    Raises:
        AssertionError: it does not become so in time.
    """
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not in {seconds:.0f} s"
        time.sleep(POLL_SECONDS)
