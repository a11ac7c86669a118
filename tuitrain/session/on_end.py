"""The command that a person wants run when a run has ended (`on_end`)."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from tuitrain.events import Notice
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.logtail import LogLevel
from tuitrain.runs.record import RunRecord

SECONDS = 60.0
"""How long the command may take."""
GRACE_SECONDS = 2.0
KEPT_BYTES = 256 * 1024
"""How much of its output the log takes."""

_POLL_SECONDS = 0.1
_LONGEST_LINE = 4000


class OnEnd:
    """Runs the command once, in a thread of its own.

    Args:
        command: for the shell.
        record: of the run that has ended; it gets the notices and, line by line, the output.
        folder: of that run; its log gets the same lines.
        tell: hears the notices.
    """

    def __init__(self, command: str, record: RunRecord, folder: RunFolder, tell: Callable[[Notice], None]) -> None:
        self._command = command
        self._record = record
        self._folder = folder
        self._tell = tell
        self._ending = threading.Event()
        # A process that leaves without waiting for it leaves the command running.
        self._thread = threading.Thread(target=self._run, name="tuitrain-on-end", daemon=True)

    def start(self) -> None:
        """Start the command."""
        self._thread.start()

    def end(self) -> None:
        """Have the command ended before its time."""
        self._ending.set()

    def join(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the command; whether it is over."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self._log("info", f"on_end: {self._command}")
        try:
            # A file and no pipe: what the command leaves running in the background can go on printing when nobody reads any more.
            with tempfile.TemporaryFile() as file:
                fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
                self._watch(self._start(file), _Output(file, lambda line: self._log("output", line)))
        except OSError as error:
            self._warn(f"on_end: {self._command!r} cannot be started: {error.strerror or error}.")

    def _start(self, output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **environment(self._record, self._folder.path)},
        )

    def _watch(self, process: subprocess.Popen[bytes], output: _Output) -> None:
        """Take the output as it comes, until the command is over or has to be."""
        deadline = time.monotonic() + SECONDS
        while not _is_over(process, _POLL_SECONDS) and time.monotonic() < deadline and not self._ending.is_set():
            output.take()
        in_time = process.poll() is not None
        if not in_time:
            _end_group(process)
        output.finish()
        if self._ending.is_set() and not in_time:
            self._warn(f"on_end: {self._command!r} was ended before it was done.")
        elif not in_time:
            self._warn(f"on_end: {self._command!r} took longer than {SECONDS:.0f} s and was ended; put & at its end to leave it running.")
        elif process.returncode > 0:
            self._warn(f"on_end: {self._command!r} failed with exit code {process.returncode}.")
        elif process.returncode < 0:
            self._warn(f"on_end: {self._command!r} was ended by signal {-process.returncode}.")

    def _log(self, level: LogLevel, text: str) -> None:
        line = self._record.log.add(level, text)
        with suppress(OSError):  # a disk that is full costs the line in the file, and the screen has it
            self._folder.log([line])

    def _warn(self, text: str) -> None:
        notice = Notice(level="warning", text=text)
        self._record.notices.append(notice)
        self._log(notice.level, notice.text)
        self._tell(notice)


def environment(record: RunRecord, folder: Path) -> dict[str, str]:
    """What the command learns of the run that has ended, as environment variables; see `RunConfig.on_end`."""
    return {
        "TUITRAIN_RUN": record.run,
        "TUITRAIN_STATE": record.state,
        "TUITRAIN_NAME": record.config.title(),
        "TUITRAIN_STEP": str(record.step),
        "TUITRAIN_ACCURACY": "" if record.best_accuracy is None else str(record.best_accuracy),
        "TUITRAIN_FOLDER": str(folder.absolute()),
    }


def _is_over(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process ends within `seconds`."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.poll() is not None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started: first so that they can clean up, and after a while for good."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        end = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < end:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(_POLL_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Output:
    """What a command writes into a file, as lines."""

    def __init__(self, file: IO[bytes], line: Callable[[str], None]) -> None:
        self._descriptor = file.fileno()
        self._line = line
        self._taken = 0
        self._rest = b""

    def take(self) -> None:
        """Hand on the lines that are complete."""
        if self._taken >= KEPT_BYTES:
            # Nobody reads further: do not let it fill the disk.
            os.ftruncate(self._descriptor, 0)
            return
        # The command's writes go to the end of the file, so its place is not to be moved.
        content = os.pread(self._descriptor, KEPT_BYTES - self._taken, self._taken)
        self._taken += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            self._hand_on(line)
        if self._taken >= KEPT_BYTES:
            self._rest = "…".encode()

    def finish(self) -> None:
        """Hand on what is left."""
        self.take()
        if self._rest:
            self._hand_on(self._rest)

    def _hand_on(self, line: bytes) -> None:
        self._line(line.decode("utf-8", errors="replace").rstrip("\r")[:_LONGEST_LINE])
