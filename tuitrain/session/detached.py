"""Runs in the background: a process of its own, in a session of its own, that outlives the terminal."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import Event, Notice, Progress
from tuitrain.python import COMMAND, PACKAGES
from tuitrain.runs import queue as queue_of
from tuitrain.runs.made_with import config_of
from tuitrain.runs.status import read_status
from tuitrain.runs.summary import RunSummary, summarize
from tuitrain.session import Session
from tuitrain.session.process_end import how_it_ended, last_line
from tuitrain.text import clean
from tuitrain.wire import Checked, Host, Hosting, Refused

LET_GO_SECONDS = 60.0
"""How long a step may take until a run that is handed over is at its boundary."""
TAKE_SECONDS = 20.0
"""How long the new process may take to make the run its own."""

_POLL_SECONDS = 0.2
_PIECE = 1 << 16
_PROGRAM = COMMAND
_HOST, _CHECK = "_host", "_check"
_MESSAGES = Progress | Notice | Refused | Checked | Hosting
_Answer = TypeVar("_Answer", Checked, Hosting)

_children: list[subprocess.Popen[bytes]] = []
"""Those that were started from here; the ones that have ended are waited for at the next start, so that no dead ones pile up."""


class Cancelled(Exception):
    """Whoever started a run did not wait for it; the run's process ends and leaves nothing."""


def start(
    config: RunConfig,
    runs_dir: Path,
    *,
    resume: Path | None = None,
    queue: bool = False,
    heard: Callable[[Event], None] = lambda event: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> str:
    """Start a run in the background, and wait until its configuration and data are found good and it trains, or is in the queue.

    What is to wait for its turn is checked by a process that then ends: one that waits has no torch.

    Args:
        config: what to train.
        runs_dir: where its folder is made.
        resume: the folder of the run that goes on, in the place of a new one.
        queue: the run, which has not begun, is to wait until its devices are free.
        heard: called with each `Progress` and `Notice` of the preparations.
        cancelled: asked several times a second.

    Returns:
        The run's id.

    Raises:
        ConfigError: the run is refused, or its process cannot be started or dies; nothing is left of it.
        Cancelled: `cancelled` said so. Any other exception, such as KeyboardInterrupt, ends the run's process too.
    """
    request = Host(config=config, runs_dir=os.fsencode(runs_dir), resume=None if resume is None else os.fsencode(resume), queue=queue)
    if queue and resume is None:
        heard(Progress(phase="checking model and devices"))
        with _Child(_CHECK) as child:
            child.send(request)
            child.wait(Checked, heard, cancelled)
    with _Child(cwd=None if resume is None or not queue else _where_queued(resume)) as child:
        child.send(request)
        return child.wait(Hosting, heard, cancelled).run


def wait_again(run: RunSummary) -> str:
    """Let a queued run that nobody waits for wait for its turn again; what it waits for, as a sentence.

    Raises:
        ConfigError: it cannot, or somebody waits for it.
    """
    start(config_of(run.path), run.path.parent, resume=run.path, queue=True)
    found = summarize(run.path, time.time())
    return f"{found.run} {found.queue.words}." if found.queue and found.queue.words else f"{found.run} begins now."


def revive(runs_dir: Path) -> list[str]:
    """Let every queued run of this host that nobody waits for wait for its turn again; their ids. Waits for none of them."""
    revived = []
    # A run that cannot be read stays as it is, and the lists say so.
    with suppress(ConfigError):
        for run in queue_of.left_behind(runs_dir):
            with suppress(ConfigError), _Child(cwd=_where_queued(run.path)) as child:
                child.send(Host(config=config_of(run.path), runs_dir=os.fsencode(runs_dir), resume=os.fsencode(run.path), queue=True))
                revived.append(run.run)
    return revived


def _where_queued(path: Path) -> str | None:
    """The folder in which a run was queued, where it is still there: what its configuration names is looked for there."""
    queue = read_status(path).queue
    return queue.cwd if queue is not None and os.path.isdir(queue.cwd) else None


def hand_over(session: Session) -> str:
    """Let a process in the background go on with the session's run, from a checkpoint of this moment.

    To everybody else the run just goes on, or waits where it was paused; only its process is another one. The new process does not need
    this one any more when this returns.

    Returns:
        The run's id.

    Raises:
        ConfigError: there is no run that has started; it cannot be saved, and goes on here; it ended by itself meanwhile; or no process
            takes it: it has then stopped, with its checkpoint.
    """
    record = session.record
    if record is None or record.path is None or session.state not in ("running", "paused"):
        raise ConfigError("there is no run that could go on in the background: none has started, or it has ended.")
    # It starts up while the checkpoint is written.
    with _Child() as child:
        if not session.let_go(LET_GO_SECONDS):
            raise ConfigError(f"the run {record.state} meanwhile, at step {record.step:,}.")
        runs_dir, resume = os.fsencode(record.path.parent), os.fsencode(record.path)
        end = time.monotonic() + TAKE_SECONDS
        try:
            paused = record.state == "paused"
            child.send(Host(config=record.config, runs_dir=runs_dir, resume=resume, heir_of=os.getpid(), paused=paused))
            return child.wait(Hosting, lambda event: None, lambda: time.monotonic() > end).run
        except Cancelled:
            session.stop_after_all()
            sentence = f"the process in the background did not answer within {TAKE_SECONDS:.0f} s; the run has stopped."
            raise ConfigError(sentence) from None
        except BaseException:
            session.stop_after_all()
            raise


class _Child:
    """A process that waits to be told what to train, or to check. Left before it has said that it goes on alone, it ends."""

    def __init__(self, command_name: str = _HOST, *, cwd: str | None = None) -> None:
        _children[:] = [child for child in _children if child.poll() is None]
        command = [sys.executable, "-c", _PROGRAM, PACKAGES, command_name]
        try:
            with ExitStack() as undo:
                self._complaints = undo.enter_context(tempfile.TemporaryFile())
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._complaints,
                    start_new_session=True,
                    bufsize=0,
                    cwd=cwd,
                )
                undo.pop_all()
        except OSError as error:
            raise ConfigError(f"no process can be started in the background: {error.strerror or error}.") from None
        _children.append(self._process)

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *error: object) -> None:
        # The end of its stdin tells it, where it has not said that it goes on alone, that nobody waits for it.
        for pipe in (self._process.stdin, self._process.stdout, self._complaints):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    def send(self, request: Host) -> None:
        """Tell what to train."""
        assert self._process.stdin is not None
        content = memoryview(msgspec.json.encode(request) + b"\n")
        with suppress(BrokenPipeError):  # it is dead, and `wait` says how
            while content:
                content = content[os.write(self._process.stdin.fileno(), content) :]

    def wait(self, answer: type[_Answer], heard: Callable[[Event], None], cancelled: Callable[[], bool]) -> _Answer:
        """Hear it until it says what `answer` is.

        Raises:
            ConfigError: it has refused, or died.
            Cancelled: `cancelled` said so.
        """
        for message in self._messages(cancelled):
            if isinstance(message, answer):
                return message
            if isinstance(message, Refused):
                raise ConfigError(clean(message.text))
            heard(message)
        raise ConfigError(self._how_it_died())

    def _messages(self, cancelled: Callable[[], bool]) -> Iterator[Event]:
        assert self._process.stdout is not None
        decoder = msgspec.json.Decoder(cast(Any, _MESSAGES))
        rest = b""
        while not cancelled():
            if not select.select([self._process.stdout], [], [], _POLL_SECONDS)[0]:
                continue
            piece = os.read(self._process.stdout.fileno(), _PIECE)
            if not piece:
                return
            *lines, rest = (rest + piece).split(b"\n")
            yield from (decoder.decode(line) for line in lines)
        raise Cancelled

    def _how_it_died(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(TAKE_SECONDS)
        code = self._process.returncode
        how = "does not answer" if code is None else how_it_ended(code)
        return f"the run's process in the background {how}{last_line(self._complaints)}."
