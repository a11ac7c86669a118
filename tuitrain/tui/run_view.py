"""The run as the screens see it: one place that joins the session's state with the run's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tuitrain.events import END_STATES, Command
from tuitrain.runs.logtail import LogTail

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord
    from tuitrain.session import Session

ENDED = (*END_STATES, "lost")

_TAKEN_IN: dict[Command, tuple[str, ...]] = {
    "pause": ("running",),
    "resume": ("paused",),
    "stop": ("running", "paused"),
    "checkpoint": ("running", "paused"),
}


class RunLike(Protocol):
    """What panes ask about a run; all answers come from memory and at once."""

    @property
    def record(self) -> RunRecord | None:
        """What is known of it; `None` where there is no run. Another thread may end a start between two questions: ask once."""
        ...

    @property
    def alive(self) -> bool:
        """Whether somebody still works on it."""
        ...

    @property
    def state(self) -> str:
        """One word: idle without a run, else what it does or how it ended."""
        ...

    @property
    def ended(self) -> bool:
        """Whether there is a run and it is over."""
        ...


def log_of(run: RunLike) -> LogTail:
    """The run's log, an empty one before it is read."""
    record = run.record
    return LogTail() if record is None else record.log


def takes(state: str, command: Command) -> bool:
    """Whether a run in this state would do it."""
    return state in _TAKEN_IN[command]


def hangs(run: RunLike) -> bool:
    """Whether a run should make steps and makes none."""
    record = run.record
    return run.alive and record is not None and record.stalled_seconds > 0


class StoredView:
    """A run that was read from its folder."""

    def __init__(self, record: RunRecord | None) -> None:
        self.record = record

    @property
    def alive(self) -> bool:
        """Whether a process trains it."""
        return self.record is not None and self.record.live

    @property
    def state(self) -> str:
        """The state that the folder tells; idle before it is read."""
        return "idle" if self.record is None else self.record.state

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.state in ENDED


class RunView:
    """The run of this app's own session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @property
    def record(self) -> RunRecord | None:
        """The run that trains or trained last; `None` before the first one and after a refused start."""
        if self.session.refusal is not None and not self.alive:
            return None
        return self.session.record

    @property
    def alive(self) -> bool:
        """Whether the session still works on a run."""
        return self.session.state not in ("idle", "ended")

    @property
    def unbegun(self) -> bool:
        """Whether there is a run that makes no steps yet: to stop it saves nothing."""
        record = self.record
        return record is not None and record.started is None

    @property
    def state(self) -> str:
        """One word: preparing, running, paused, stopping, or how the run ended; idle without one."""
        state = self.session.state
        record = self.record
        if record is not None and record.state in ENDED:
            return record.state
        return "idle" if record is None else state

    @property
    def ended(self) -> bool:
        """Whether there is a run and it is over."""
        return self.record is not None and self.state in ENDED

    @property
    def awaited(self) -> object:
        """What a person waits for, such as another state, the first step or an evaluation: something else as soon as it is there. Of
        epochs that fly by nobody waits for each."""
        record = self.record
        if record is None:
            return self.state, self.alive
        states = self.state, self.alive, hangs(self), record, record.run, record.step > 0
        return states if record.epochs_fly else (*states, record.phase and record.phase.phase, record.replicas, len(record.evals))

    def takes(self, command: Command) -> bool:
        """Whether the session would do it now."""
        # Other processes' runs are known from their first step on; this one can be stopped before it.
        return takes(self.state, command) or (command == "stop" and self.state == "preparing")

    @property
    def goes_on(self) -> bool:
        """Whether the run is over and was saved; one that fails, or whose disk does, may have been so before its first checkpoint."""
        record = self.record
        return record is not None and self.ended and not self.alive and record.saved
