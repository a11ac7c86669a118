"""What the app asks of other processes; all of it waits, so it is done in threads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tuitrain.config import RunConfig

if TYPE_CHECKING:
    from tuitrain.events import Command, Event
    from tuitrain.runs.silence import Wait
    from tuitrain.runs.summary import RunSummary
    from tuitrain.session import Session


class Line(Protocol):
    """An open line to the process that trains a run."""

    def watch(self) -> Iterator[Event]:
        """What the run says until it ends or goes to another process; it counts as watched while this is read."""
        ...

    def close(self) -> None:
        """Hang up, from any thread; `watch` then ends."""
        ...


class Outside(Protocol):
    """Every method may raise `ConfigError`, whose text is a sentence for the person."""

    def connect(self, path: Path) -> Line | None:
        """A line to the run in folder `path`; `None` where no process on this machine answers for it."""
        ...

    def ask(self, path: Path, command: Command) -> None:
        """Give the run in folder `path` a command."""
        ...

    def plan(self, run: RunSummary, changes: Mapping[str, str]) -> RunConfig:
        """The configuration with which an ended run goes on, `changes` taken into account."""
        ...

    def start(self, config: RunConfig, runs_dir: Path, *, resume: Path | None = None, queue: bool = False) -> str:
        """Start a run, or go on with the one in folder `resume`, in a process of its own; its id, when it has begun or is in the queue."""
        ...

    def wait_again(self, run: RunSummary) -> str:
        """Let a queued run that nobody waits for wait for its turn again; a sentence."""
        ...

    def revive(self, runs_dir: Path) -> list[str]:
        """Do so with all queued runs of this machine that nobody waits for; their ids."""
        ...

    def take_out(self, run: RunSummary, wait: Wait) -> str:
        """Take a run out of the queue; what became of it. `wait`: called while a process that is out of sight is watched."""
        ...

    def hand_over(self, session: Session) -> str:
        """Have a process of its own go on with the run that `session` trains; the run's id."""
        ...


class OtherProcesses:
    """The real ones."""

    def connect(self, path: Path) -> Line | None:
        """See `Outside`."""
        from tuitrain.session.lines.client import RunLine

        return RunLine.connect(path)

    def ask(self, path: Path, command: Command) -> None:
        """See `Outside`."""
        from tuitrain.runs.summary import summarize
        from tuitrain.session.lines.commands import reach

        with reach(summarize(path, time.time()), command) as line:
            line.ask(command)

    def plan(self, run: RunSummary, changes: Mapping[str, str]) -> RunConfig:
        """See `Outside`."""
        from tuitrain.session.resume import plan

        return plan(run, dict(changes))

    def start(self, config: RunConfig, runs_dir: Path, *, resume: Path | None = None, queue: bool = False) -> str:
        """See `Outside`."""
        from tuitrain.session import detached

        return detached.start(config, runs_dir, resume=resume, queue=queue)

    def wait_again(self, run: RunSummary) -> str:
        """See `Outside`."""
        from tuitrain.session import detached

        return detached.wait_again(run)

    def revive(self, runs_dir: Path) -> list[str]:
        """See `Outside`."""
        from tuitrain.session import detached

        return detached.revive(runs_dir)

    def take_out(self, run: RunSummary, wait: Wait) -> str:
        """See `Outside`."""
        from tuitrain.session.lines import commands

        return commands.stop(run, wait)

    def hand_over(self, session: Session) -> str:
        """See `Outside`."""
        from tuitrain.session import detached

        return detached.hand_over(session)
