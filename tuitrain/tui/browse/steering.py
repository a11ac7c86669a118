"""What keys can do to an opened run, what is said of it there, and what of a run that they cannot reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from tuitrain.text import clean
from tuitrain.tui.browse.opened_run import OpenedRun
from tuitrain.tui.hosts.attachment import Attachment
from tuitrain.tui.run_view import ENDED, hangs, takes

if TYPE_CHECKING:
    from tuitrain.events import Command

_ANSWERS_AT_ONCE: Mapping[str, Mapping[Command, str]] = {
    "queued": {"stop": "It ends before it has begun."},
    "paused": {"checkpoint": "A checkpoint is written now.", "stop": "It stops now, with a checkpoint."},
}
_ANSWERS: Mapping[Command, str] = {
    "checkpoint": "A checkpoint is written at the next step.",
    "stop": "It stops at the next step, with a checkpoint.",
}
_LATE_ANSWERS: Mapping[str, str] = {
    "pause": "It pauses when the step ends in which it hangs.",
    "checkpoint": "A checkpoint is written when the step ends in which it hangs.",
    "stop": "It stops when the step ends in which it hangs.",
}
_HINTS = {
    "failed": "o shows the log · R goes on",
    "stopped": "R goes on",
    "interrupted": "R goes on",
    "finished": "R trains on",
    "lost": "R goes on from its newest checkpoint",
}
_NEVER_SAVED = {
    **dict.fromkeys(_HINTS, "never saved"),
    "failed": "o shows the log · never saved: y copies its command",
}


class Steering(msgspec.Struct, frozen=True):
    """All that decides what the keys mean."""

    read: bool
    """The folder was read: there is something to show and copy."""
    state: str
    left: bool
    """It is queued, and no process waits for its turn."""
    heard: bool
    """Its process lives and listens."""
    saved: bool
    """It has a checkpoint."""
    gone: bool = False
    """Its folder was there, and is not any more or cannot be read."""
    hangs: bool = False
    """It should make steps and makes none."""

    def takes(self, command: Command) -> bool:
        """Whether its process would do it now."""
        return self.heard and takes(self.state, command)

    @property
    def leaves_queue(self) -> bool:
        """Whether it can be taken out of the queue."""
        return self.heard and self.state == "queued"

    @property
    def goes_on(self) -> bool:
        """Whether it can go on, or wait for its turn again."""
        return not self.gone and ((self.state in ENDED and self.saved) or self.left or (self.state == "paused" and self.heard))

    def answer(self, command: Command) -> str:
        """What is said when its process has taken a command; empty where the state says it by itself."""
        return answer(command, self.state, hangs=self.hangs)

    def hints(self) -> dict[str, str]:
        """What to press, or why nothing helps, for each state."""
        if self.heard:
            living = {"paused": "space goes on", "queued": "x takes it out of the queue"}
        else:
            living = {"paused": "by another process", "queued": "R lets it wait again" if self.left else "by another process"}
        if self.gone:
            return {} if self.left else living
        return living | (_HINTS if self.saved else _NEVER_SAVED)


def answer(command: Command, state: str, *, hangs: bool) -> str:
    """What is said when the process of a run in this state has taken a command; empty where the state says it by itself."""
    if hangs:
        return _LATE_ANSWERS.get(command, "")
    return _ANSWERS_AT_ONCE.get(state, _ANSWERS).get(command, "")


def steering(run: OpenedRun, attachment: Attachment) -> Steering:
    """How the run can be steered now."""
    return Steering(
        read=run.record is not None,
        state=run.state,
        left=run.left,
        heard=run.alive and attachment.attached,
        saved=bool(run.checkpoints),
        gone=run.record is not None and run.problem is not None,
        hangs=hangs(run),
    )


def why_apart(run: OpenedRun, attachment: Attachment) -> str:
    """Why a live run hears no keys, or that its folder has gone; empty for all others."""
    if run.record is not None and run.problem is not None:
        return run.problem
    if run.alive and not run.here:
        return f"it trains on {clean(run.host)}, and keys are heard only there"
    if run.alive and attachment.missed:
        return f"the process that trains it (pid {run.pid}) does not answer"
    return ""


def why_late(run: OpenedRun) -> str:
    """What ends a run that hangs in a step, for whose end its keys wait; empty for all others."""
    return f"keys wait for the end of its step; `kill -9 {run.pid}` ends the run without" if run.here and hangs(run) else ""
