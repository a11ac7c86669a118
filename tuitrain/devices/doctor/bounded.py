"""Work that may hang, with an end: other processes, and calls into a file system or a driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import IO, TypeVar

import msgspec

from tuitrain.paths import working_directory_is_gone

BEAT_SECONDS = 0.05
KILL_SECONDS = 0.5

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T], otherwise: T) -> T:
    """What `work` returns, or `otherwise` where it raises OSError or takes longer; its thread is then left to itself."""
    answer = [otherwise]

    def run() -> None:
        with suppress(OSError):
            answer[0] = work()

    thread = threading.Thread(target=run, name="doctor-bounded", daemon=True)
    thread.start()
    thread.join(seconds)
    return answer[0]


class Ended(msgspec.Struct, frozen=True):
    """A process that ended or was ended. `code` is `None` where it did not end by itself; `at` is `time.monotonic()` of its end."""

    code: int | None
    out: str
    err: str
    at: float


def python_script(script: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command that runs `script` in the Python that runs this."""
    # The folder that a person happens to stand in must not take the place of a package.
    return [sys.executable or "python3", "-c", "import sys; sys.path[:] = [p for p in sys.path if p]\n" + script, *arguments]


def run_all(
    commands: Sequence[Sequence[str]], environ: Mapping[str, str], seconds: float, stop: threading.Event | None
) -> tuple[Ended, ...]:
    """Run the commands side by side; those that have not ended after `seconds`, or when `stop` is set, are killed with all their children.

    Raises:
        OSError: one could not be started.
    """
    running: list[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]] = []
    with ExitStack() as at_the_end:
        for command in commands:
            out, err = (at_the_end.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=dict(environ),
                # A library that does not find itself from a folder that is gone says nothing about the machine.
                cwd=os.sep if working_directory_is_gone() else None,
                start_new_session=True,
            )
            at_the_end.callback(_end, process)
            running.append((process, out, err))
        _wait([process for process, _, _ in running], seconds, stop)
        at = time.monotonic()
        return tuple(Ended(process.poll(), _text(out), _text(err), at) for process, out, err in running)


def _wait(processes: Sequence[subprocess.Popen[bytes]], seconds: float, stop: threading.Event | None) -> None:
    deadline = time.monotonic() + seconds
    while any(process.poll() is None for process in processes):
        if time.monotonic() > deadline or (stop is not None and stop.is_set()):
            return
        time.sleep(BEAT_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    # One inside a hanging driver call cannot be killed; it goes when the driver lets it.
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILL_SECONDS)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(1 << 20).decode(errors="replace")
