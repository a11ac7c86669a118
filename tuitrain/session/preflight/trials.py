"""One trial after the other, each in a fresh process, so that torch's threads, peaks of memory and a crash of one stay apart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Protocol

import msgspec
import psutil

from tuitrain.config import ConfigError, RunConfig
from tuitrain.python import COMMAND, PACKAGES
from tuitrain.session.preflight.plans import Plan
from tuitrain.session.process_end import how_it_ended, last_line
from tuitrain.session.threads import limit_openmp_spin
from tuitrain.text import clean
from tuitrain.wire import Measured, Trial

STEPS = 20
WARMUP = 5
"""Steps that are not counted: the first ones choose kernels and fill caches."""
START_SECONDS = 180.0
"""How long a trial may take beside its steps: importing torch, reading the data, looking for the largest batch."""

_POLL_SECONDS = 0.05
_KILL_SECONDS = 2.0
_LONGEST_OUTPUT = 1 << 20
_TRIAL = "_trial"


class Cancelled(Exception):
    """Nobody waits for the answer any more."""


class Trials(Protocol):
    """What measures. Both calls block, and raise `Cancelled` soon after `stop` is set."""

    def devices(self, config: RunConfig, stop: threading.Event) -> Measured:
        """Which devices `config.device` means, and how many GPUs torch can use; `error` says why none."""
        ...

    def measure(self, config: RunConfig, plan: Plan, stop: threading.Event) -> Measured:
        """Some steps of `config` done as `plan` says."""
        ...


class ProcessTrials:
    """Trials in processes.

    Args:
        steps: how many are counted in each.
        seconds: when a trial stops counting with fewer.
        free: CUDA ordinals, most free memory first, for the devices that `auto` takes.
    """

    def __init__(self, *, steps: int = STEPS, seconds: float = 30.0, free: Sequence[int] = ()) -> None:
        self._steps = steps
        self._seconds = seconds
        self._free = tuple(free)

    def devices(self, config: RunConfig, stop: threading.Event) -> Measured:
        """As `Trials` says."""
        return self._ask(config, 0, stop)

    def measure(self, config: RunConfig, plan: Plan, stop: threading.Event) -> Measured:
        """As `Trials` says."""
        try:
            config = plan.applied(config)
        except ConfigError as error:
            return Measured(error=str(error), refused=True)
        return self._ask(config, self._steps, stop)

    def _ask(self, config: RunConfig, steps: int, stop: threading.Event) -> Measured:
        try:
            with tempfile.TemporaryDirectory(prefix="tuitrain-", ignore_cleanup_errors=True) as folder:
                trial = Trial(
                    config=config,
                    folder=folder,
                    steps=steps,
                    warmup=WARMUP,
                    seconds=self._seconds,
                    free=self._free,
                )
                # The warm-up may be as slow as the counted steps, and one of them slower than all of the limit.
                return answer_of(msgspec.json.encode(trial), folder, 2 * self._seconds + START_SECONDS, stop)
        except OSError as error:
            return Measured(error=f"The trial's process cannot be started: {error.strerror or error}.")


def answer_of(request: bytes, folder: str, seconds: float, stop: threading.Event) -> Measured:
    """Start a process, hand it `request` and wait for its answer; whatever happens, neither it nor a child of it is left.

    Args:
        folder: for its temporary files.
        seconds: when it is ended, which is then the error.

    Raises:
        Cancelled: `stop` was set.
        OSError: the process cannot be started.
    """
    command = [sys.executable, "-c", COMMAND, PACKAGES, _TRIAL]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=err, env=_environment(folder), start_new_session=True, bufsize=0
        )
        try:
            in_time = _wait(process, request, seconds, stop)
        finally:
            _end_group(process)
        if not in_time:
            return Measured(error=f"It took longer than {seconds:.0f} s and was ended.")
        return _answer(process.returncode, out, err)


def _wait(process: subprocess.Popen[bytes], request: bytes, seconds: float, stop: threading.Event) -> bool:
    """Whether the process ended by itself in time."""
    assert process.stdin is not None
    deadline = time.monotonic() + seconds
    with suppress(BrokenPipeError):
        # The pipe stays open: its end tells the process that nobody waits any more.
        process.stdin.write(request + b"\n")
    while process.poll() is None:
        if stop.wait(_POLL_SECONDS):
            raise Cancelled
        if time.monotonic() > deadline:
            return False
    return True


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that it started, at once: nothing that it holds is worth keeping."""
    if process.poll() is None:
        # Those of ddp are in process groups of their own.
        started = _started_by(process.pid)
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        for one in started:
            with suppress(psutil.Error):
                one.kill()
    assert process.stdin is not None
    process.stdin.close()
    # One inside a hanging driver call goes when the driver lets it.
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_SECONDS)


def _started_by(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return []


def _answer(code: int, out: IO[bytes], err: IO[bytes]) -> Measured:
    out.seek(0)
    try:
        measured = msgspec.json.decode(out.read(_LONGEST_OUTPUT), type=Measured)
    except msgspec.DecodeError:
        return Measured(error=_crash(code, err))
    return msgspec.structs.replace(measured, error=None if measured.error is None else clean(measured.error))


def _crash(code: int, err: IO[bytes]) -> str:
    """How the process ended, and the last thing that it said where it ended by itself."""
    return f"The trial's process {how_it_ended(code)}{last_line(err) if code >= 0 else ''}."


def _environment(folder: str) -> dict[str, str]:
    # As a run has them.
    environment = {**os.environ, "TMPDIR": folder}
    limit_openmp_spin(environment)
    return environment
