"""What the ranks that a launcher started say beside the run's events, and which of them says what all would say."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tuitrain.events import Event, Progress, RunStarted
from tuitrain.exit_codes import FAILED, REFUSED
from tuitrain.session import Session
from tuitrain.session.launched import Note, World
from tuitrain.session.rank_output import LOGS
from tuitrain.text import clean
from tuitrain.wire import Joined

_FIRST_SPEAKS_SECONDS = 5.0
_LATE_SECONDS = 10.0


def let_first_speak(world: World) -> None:
    """To be called before a rank says why it is refused.

    What is refused is mostly refused on all ranks of a machine, and the first end of one makes most launchers end all: the first one speaks
    for them. Who is still here after that says it too.
    """
    if world.local_rank:
        time.sleep(_FIRST_SPEAKS_SECONDS)


class Words:
    """What ranks say beside the run's events: rank 0 as any run, each other one to a file of its own in the run folder.

    What such a rank says before the run has a folder is kept until then, and comes on stderr when it fails without one.

    Args:
        world: whose rank this is.
        session: hosts the run.
    """

    def __init__(self, world: World, session: Session) -> None:
        self._world, self._session = world, session
        self._joined = world.rank == 0
        self._begun = False
        self._phase: str | None = None
        self._late: threading.Timer | None = None
        if world.rank:
            self._stderr = os.dup(2)
            # Where the process prints, until its end.
            self._early = tempfile.TemporaryFile()  # noqa: SIM115
            self._send_to(self._early.fileno())
        session.subscribe(self._hear)

    def close(self, code: int) -> None:
        """The process will end with `code`."""
        self._expect(None)
        sys.stdout.flush()
        sys.stderr.flush()
        if not self._joined and code == REFUSED:
            let_first_speak(self._world)
        if not self._joined and code in (FAILED, REFUSED):
            with open(self._stderr, "wb", closefd=False) as stderr:
                stderr.write(b"".join(b"rank %d: " % self._world.rank + line for line in self._early_words().splitlines(keepends=True)))

    def _hear(self, batch: Sequence[Event]) -> None:
        """From the recorder's thread."""
        for event in batch:
            if isinstance(event, (RunStarted, Joined)):
                self._begun = True
                self._expect(None)
            elif isinstance(event, Progress) and not self._begun:
                self._expect(event.phase)
            if isinstance(event, RunStarted) and self._session.record is not None and self._session.record.path is not None:
                with suppress(OSError):  # a restart then begins a new run
                    Note(self._world.job, self._world.parent).keep(self._session.record.path)
            elif isinstance(event, Joined) and not self._joined:
                self._join(Path(event.folder) / LOGS)

    def _expect(self, phase: str | None) -> None:
        """Say that `phase` takes long, unless the next one comes in time: a log file would not tell which rank is missed."""
        if phase == self._phase:
            return
        self._phase = phase
        if self._late is not None:
            self._late.cancel()
            self._late = None
        if phase is not None:
            who = f"rank {self._world.rank} of {self._world.size}"
            sentence = clean(f"tuitrain: {who} is still {phase}, after {_LATE_SECONDS:g} s.")
            self._late = threading.Timer(_LATE_SECONDS, self._say, (sentence,))
            self._late.daemon = True
            self._late.start()

    def _say(self, sentence: str) -> None:
        """A line on what was standard error from the first."""
        with suppress(OSError):
            if self._world.rank:
                os.write(self._stderr, f"{sentence}\n".encode())
            else:
                print(sentence, file=sys.stderr, flush=True)

    def _join(self, folder: Path) -> None:
        if not os.path.isdir(folder.parent):
            return  # on another machine, with a disk of its own
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            with open(folder / f"rank-{self._world.rank}.log", "ab") as log:
                early = self._early_words()
                log.write(early)
                log.flush()
                self._send_to(log.fileno())
                # What another thread has printed meanwhile.
                log.write(self._early_words(len(early)))
            self._joined = True

    def _early_words(self, start: int = 0) -> bytes:
        # Whoever prints writes to where the file's one position stands, so that is not to be moved.
        file = self._early.fileno()
        return os.pread(file, os.fstat(file).st_size - start, start)

    def _send_to(self, descriptor: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
