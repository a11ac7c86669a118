"""What the list of runs can do with a run, with the words for what came of it; all but `check_deletable` waits for the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tuitrain.config import ConfigError
from tuitrain.recipes import command_line

if TYPE_CHECKING:
    from tuitrain.runs.catalogue import RunSummary


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
        # The command line names its argument, which nobody has typed here.
        return Outcome(str(error).removeprefix("RUN: "), wrong=True)


def check_deletable(run: RunSummary) -> Outcome:
    """Raises: ConfigError: it is live."""
    from tuitrain.runs import catalogue

    catalogue.check_deletable(run)
    return Outcome()


def delete(runs_dir: Path, run: RunSummary) -> Outcome:
    """Raises: ConfigError: it is live, or cannot be deleted."""
    from tuitrain.runs import catalogue

    catalogue.delete(runs_dir, run.run)
    return Outcome(f"Deleted {run.run}.")


def copy_command(run: RunSummary) -> Outcome:
    """Raises: ConfigError: its configuration cannot be read."""
    from tuitrain.runs.catalogue import config_of

    return Outcome(copied=command_line(config_of(run)))


def edit(run: RunSummary, field: Literal["name", "note"], text: str) -> Outcome:
    """Raises: ConfigError: it cannot be written."""
    from tuitrain.runs import label

    (label.rename if field == "name" else label.annotate)(run.path, text)
    return Outcome()
