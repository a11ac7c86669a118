"""Which of the marked runs can be deleted, what a person is asked about them, and doing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from tuitrain.text import first_few, plural
from tuitrain.tui.browse.run_changes import Outcome, check_deletable, delete, outcome

if TYPE_CHECKING:
    from tuitrain.runs.silence import Wait
    from tuitrain.runs.summary import RunSummary
    from tuitrain.tui.browse.run_rows import RunRow
    from tuitrain.tui.hosts.outside import Outside

_NAMED = 4


class Marked(msgspec.Struct, frozen=True):
    """The marked runs: those that go, those that stay because they train, and how many of those that go the list does not show."""

    going: tuple[RunSummary, ...]
    staying: tuple[RunSummary, ...]
    hidden: int = 0

    @classmethod
    def of(cls, rows: Sequence[RunRow], shown: Sequence[RunRow]) -> Marked:
        """Sort the marked `rows` out; `shown` are all that the filter leaves."""
        keys = {row.key for row in shown}
        going = [row for row in rows if refusal(row.summary) is None]
        staying = tuple(row.summary for row in rows if row not in going)
        return cls(tuple(row.summary for row in going), staying, sum(row.key not in keys for row in going))

    @property
    def title(self) -> str:
        """The question."""
        return f"Delete {len(self.going)} marked {plural('run', len(self.going))}?"

    @property
    def sentence(self) -> str:
        """Which runs go, and what of them; which ones stay."""
        hidden = f" The filter hides {self.hidden} of them." if self.hidden else ""
        states = ", ".join(sorted({run.state for run in self.staying}))
        stay = f" Not deleted, because {states}: {_named(self.staying)}." if self.staying else ""
        what = "its curve, log and checkpoints" if len(self.going) == 1 else "their curves, logs and checkpoints"
        return f"{_named(self.going)}.{hidden}{stay} On disk {what} are removed. This cannot be undone."


def refusal(run: RunSummary) -> str | None:
    """Why a run cannot be deleted now."""
    checked = outcome(partial(check_deletable, run))
    return checked.sentence if checked.wrong else None


def delete_each(runs: Sequence[RunSummary], outside: Outside, wait: Wait, ends: Callable[[], bool]) -> Outcome:
    """Delete the runs one after the other; one that cannot be is passed over and named. As soon as `ends`, the others are left."""
    if len(runs) == 1:
        return outcome(partial(delete, runs[0], outside, wait))
    refused: list[str] = []
    deleted = 0
    for run in runs:
        if ends():
            break
        told = outcome(partial(delete, run, outside, wait))
        if told.wrong:
            refused.append(told.sentence)
        else:
            deleted += 1
    if not refused:
        return Outcome(f"Deleted {deleted} {plural('run', deleted)}.")
    return Outcome(f"Deleted {deleted} of {len(runs)} runs. {' '.join(refused[:_NAMED])}", wrong=True)


def _named(runs: Sequence[RunSummary]) -> str:
    return first_few([run.name or run.run for run in runs], _NAMED)
