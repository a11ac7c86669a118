"""A run that should make steps and makes none, as where a GPU hangs or a model of one's own waits: that is noticed, and told."""

from __future__ import annotations

import time
from collections.abc import Callable

from tuitrain.events import Notice
from tuitrain.runs.record import RunRecord

SHOWN_SECONDS = 10.0
"""From then on the record says it."""
TOLD_SECONDS = 30.0
"""From then on the log does."""
FIRST_SECONDS = 60.0
"""The first step loads kernels, and tries them; a compiler takes its time for a batch of another size too."""
_STEPS = 10
"""Of a run with long steps so many must be overdue."""
_LONGEST_LOOK = 2.0
"""Longer than this passes between two looks only where this process stood still itself, and training with it."""


class Standstill:
    """Watches the steps of a run; whoever hosts it looks every second or so.

    Args:
        record: of the run; its `stalled_seconds` is kept here.
        clock: seconds that only grow.
    """

    def __init__(self, record: RunRecord, clock: Callable[[], float] = time.monotonic) -> None:
        self._record = record
        self._clock = clock
        self._looked = clock()
        self._step = 0
        self._silent = 0.0
        self._told = False

    def look(self) -> Notice | None:
        """See how long the last step ago is; what there is to say of it."""
        record, now = self._record, self._clock()
        passed, self._looked = min(now - self._looked, _LONGEST_LOOK), now
        if record.step != self._step or not record.makes_steps:
            came, self._step = record.step > self._step, record.step
            silent, self._silent = self._silent + passed, 0.0
            record.stalled_seconds = 0.0
            told, self._told = self._told, False
            if told and came and record.live:
                return Notice(level="warning", text=f"Steps come again, after {silent:.0f} s.")
            return None
        self._silent += passed
        assert record.started is not None
        prepares = record.config.compile or record.step == (record.started.resumed_from or 0)
        patience = max(FIRST_SECONDS if prepares else 0.0, _STEPS * (record.step_seconds or 0.0))
        record.stalled_seconds = self._silent if self._silent >= max(SHOWN_SECONDS, patience) else 0.0
        if self._told or self._silent < max(TOLD_SECONDS, patience):
            return None
        self._told = True
        gpus = {device for device in record.started.device if "cuda" in device}
        advice = " Whether the GPUs reach each other says `tuitrain doctor --all-reduce`." if len(gpus) > 1 else ""
        text = f"No step for {self._silent:.0f} s; the last one that was told is step {record.step:,}.{advice}"
        return Notice(level="warning", text=text)
