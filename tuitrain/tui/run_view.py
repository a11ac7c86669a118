"""The run as the screens see it: one place that joins the session's state with the run's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord
    from tuitrain.session import Session

ENDED = ("finished", "stopped", "failed", "interrupted", "lost")


class RunView:
    """What panes ask about the run; all answers come from memory and at once."""

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
