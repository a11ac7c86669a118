"""What the list of runs can do with a run, with the words for what came of it; what reads or changes its folder waits for the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from tuitrain.config import ConfigError
from tuitrain.recipes import command_line
from tuitrain.tui.browse.steering import answer

if TYPE_CHECKING:
    from tuitrain.runs.silence import Wait
    from tuitrain.runs.summary import RunSummary
    from tuitrain.tui.hosts.outside import Outside


class Outcome(msgspec.Struct, frozen=True):
    """What came of it: a sentence where there is something to say, and a text for the clipboard."""

    sentence: str = ""
    wrong: bool = False
    copied: str | None = None


def outcome(change: Callable[[], Outcome]) -> Outcome:
    """Do it, and say so where it is refused."""
    try:
        return change()
    except ConfigError as error:
        return Outcome(error.reason, wrong=True)


def check_deletable(run: RunSummary) -> Outcome:
    """Raises: ConfigError: it trains."""
    from tuitrain.runs import removal

    if not run.waits:
        removal.check_deletable(run)
    return Outcome()


def what_is_deleted(run: RunSummary) -> str:
    """What a person is told before it is."""
    what = "it is taken out of the queue, and its folder removed" if run.waits else "its curve, log and checkpoints are removed"
    return f"{run.run}: {what} from disk. This cannot be undone."


def watching(say: Callable[[Outcome], object], ends: Callable[[], bool]) -> Wait:
    """How to wait while it is watched whether a process that is out of sight still has a run: with a word, as long as `ends` is false."""
    from tuitrain.runs.silence import announced, let_pass

    return announced(lambda text: say(Outcome(text)), lambda progress: let_pass(progress) or ends())


def delete(run: RunSummary, outside: Outside, wait: Wait) -> Outcome:
    """Raises: ConfigError: it trains, or cannot be deleted."""
    from tuitrain.runs import removal

    if run.waits:
        take_out(run, outside, wait)
    removal.delete(run.path, wait)
    return Outcome(f"Deleted {run.run}.")


def stop(run: RunSummary, outside: Outside) -> Outcome:
    """Tell a run that trains to stop.

    Raises:
        ConfigError: it does not any more, or cannot be told so.
    """
    outside.ask(run.path, "stop")
    words = answer("stop", run.state, hangs=bool(run.stalled_seconds))
    return Outcome(f"{run.run}: {words[0].lower()}{words[1:]}")


def take_out(run: RunSummary, outside: Outside, wait: Wait) -> Outcome:
    """Take a run out of the queue, if it is still there.

    Raises:
        ConfigError: it is not, or cannot be told so.
    """
    from tuitrain.runs.errors import RunError
    from tuitrain.runs.summary import summarize

    found = summarize(run.path, time.time())
    if not found.waits:
        does = "begins at this moment" if found.queue is not None else f"is {found.state_words}"
        raise RunError(f"{run.run} is not in the queue any more: it {does}.")
    outside.take_out(found, wait)
    return Outcome(f"{run.run} is taken out of the queue.")


def copy_command(run: RunSummary) -> Outcome:
    """Raises: ConfigError: its configuration cannot be read."""
    from tuitrain.runs.made_with import config_of

    return Outcome(copied=command_line(config_of(run.path)))


def edit(run: RunSummary, field: Literal["name", "note"], text: str) -> Outcome:
    """Raises: ConfigError: it cannot be written."""
    from tuitrain.runs import label

    (label.rename if field == "name" else label.annotate)(run.path, text)
    return Outcome()
