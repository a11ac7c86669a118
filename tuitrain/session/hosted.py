"""The process of a run in the background, as `tuitrain.session.detached` starts it: asked on stdin, answering on stdout, and then alone."""

from __future__ import annotations

import os
import queue
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import Event, Notice, Progress, RunStarted
from tuitrain.exit_codes import DONE, FAILED, INTERRUPTED, REFUSED
from tuitrain.paths import check_working_directory
from tuitrain.python import leave_at_once
from tuitrain.runs import removal
from tuitrain.session.unseen import end_on_signals
from tuitrain.session.worker import WorkerSession
from tuitrain.wire import Checked, Host, Hosting, Joined, Refused

ABANDONED_SECONDS = 15.0
"""How long a run that nobody waits for any more has to end: as long as torch may take to load."""


class Asker:
    """The process that asked, until `let_go`: stdin is its question and then only its life, what was stdout is for the answers."""

    def __init__(self) -> None:
        self._answers = os.dup(1)
        self._nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(self._nothing, 1)

    def request(self) -> Host | None:
        """What to train; `None` where the one that asked has gone without a word."""
        line = sys.stdin.buffer.readline()
        return msgspec.json.decode(line, type=Host) if line.endswith(b"\n") else None

    def say(self, message: Event) -> bool:
        """Answer; whether somebody is there to hear it."""
        content = memoryview(msgspec.json.encode(message) + b"\n")
        try:
            while content:
                content = content[os.write(self._answers, content) :]
        except OSError:
            return False
        return True

    def is_gone(self, wake: int) -> bool:
        """Wait until there is something to read at `wake` or the one that asked has gone; whether it has."""
        return 0 in select.select([0, wake], [], [])[0]

    def let_go(self) -> None:
        """Go on alone."""
        os.dup2(self._nothing, 0)
        os.close(self._answers)


def answer_check(asker: Asker, check: Callable[[RunConfig], None]) -> int:
    """Tell `asker` whether its configuration could be trained with; the exit code.

    Args:
        check: raises ConfigError where something speaks against it.
    """
    request = asker.request()
    if request is None:
        return REFUSED
    try:
        check_working_directory()
        check(request.config)
    except ConfigError as error:
        asker.say(Refused(text=str(error)))
        return REFUSED
    asker.say(Checked())
    return DONE


class HostedRun:
    """Hosts the run of one request in `session`, and waits for its end.

    Args:
        asker: hears of the preparations and then the run's id.
        prints_to: says where what the process prints is to go.
    """

    def __init__(self, session: WorkerSession, request: Host, asker: Asker, prints_to: Callable[[Callable[[str], object]], object]) -> None:
        self._session = session
        self._request = request
        self._asker = asker
        self._prints_to = prints_to
        self._batches: queue.SimpleQueue[Sequence[Event]] = queue.SimpleQueue()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._alone = False
        self._received: list[int] = []

    def run(self) -> int:
        """Train; the exit code."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._received = end_on_signals(self._session)
        self._session.subscribe(self._hear)
        resume = None if self._request.resume is None else Path(os.fsdecode(self._request.resume))
        try:
            request = self._request
            self._session.start(request.config, resume=resume, heir_of=request.heir_of, queue=request.queue, paused=request.paused)
        except ConfigError as error:
            self._asker.say(Refused(text=str(error)))
            return REFUSED
        assert self._session.record is not None
        self._prints_to(partial(self._session.record.log.add, "output"))
        # A run that was in the queue already does not end with whoever lets it wait again.
        if not self._prepare() and not (self._request.queue and resume is not None):
            return self._abandon()
        self._alone = True
        self._asker.let_go()
        while not self._session.join(1.0):
            pass
        return self._code()

    def _hear(self, batch: Sequence[Event]) -> None:
        """From the recorder's thread."""
        if self._alone:
            return
        self._batches.put(batch)
        with suppress(OSError):
            os.write(self._wake, b".")

    def _prepare(self) -> bool:
        """Tell the asker how it goes, until the run is this process's, or refused; whether the asker has heard the answer."""
        while not self._asker.is_gone(self._woken):
            os.read(self._woken, 1)
            batch = self._batches.get()
            for event in batch:
                if isinstance(event, (Progress, Notice)) and not self._asker.say(event):
                    return False
            answer = self._answer(batch)
            if answer is not None:
                return self._asker.say(answer)
        return False

    def _answer(self, batch: Sequence[Event]) -> Event | None:
        """What the asker waits for, when it is known."""
        record = self._session.record
        assert record is not None
        if joined := next((event for event in batch if isinstance(event, Joined)), None):
            return Hosting(run=PurePath(joined.folder).name)
        if not batch:
            return Refused(text=self._session.refusal or "the run was ended before it began.")
        taken = self._request.heir_of is not None or self._request.queue or any(isinstance(event, RunStarted) for event in batch)
        return Hosting(run=record.path.name) if record.path is not None and taken else None

    def _abandon(self) -> int:
        """Nobody waits for the run: end it, and leave nothing of a new one."""
        self._session.interrupt()
        if not self._session.join(ABANDONED_SECONDS):
            leave_at_once(INTERRUPTED)
        record = self._session.record
        if self._request.resume is None and record is not None and record.path is not None:
            with suppress(ConfigError):
                removal.delete(record.path)
        return INTERRUPTED

    def _code(self) -> int:
        record = self._session.record
        if self._session.refusal is not None or record is None:
            return REFUSED
        return 128 + self._received[0] if self._received else FAILED if record.state == "failed" else DONE
