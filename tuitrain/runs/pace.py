"""How fast a run goes and for how long it has: a rate that is steady enough to read, and a stopwatch without the pauses."""

from __future__ import annotations

import math
from collections.abc import Callable

RATE_SECONDS = 2.0


class Rate:
    """Samples per second over the last two seconds or so of training."""

    def __init__(self) -> None:
        self._samples = 0.0
        self._seconds = 0.0
        self.value: float | None = None
        """Samples per second, `None` before the first stretch."""

    def add(self, samples: float, samples_per_second: float) -> None:
        """Take in a stretch of training; one whose rate is not a positive number says nothing."""
        if samples <= 0 or not math.isfinite(samples_per_second) or samples_per_second <= 0:
            return
        seconds = samples / samples_per_second
        kept = math.exp(-seconds / RATE_SECONDS)
        self._samples = self._samples * kept + samples
        self._seconds = self._seconds * kept + seconds
        self.value = self._samples / self._seconds


class Stopwatch:
    """Seconds that a run was running; one thread starts and stops it, any thread reads it."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        # Seconds kept, and since when it runs: one tuple, so that a reader never sees half a change.
        self._kept: tuple[float, float | None] = (seconds, None)

    @property
    def seconds(self) -> float:
        """The time it ran until now."""
        kept, since = self._kept
        return kept if since is None else kept + self._clock() - since

    def start(self) -> None:
        """Let it run; it may run already."""
        kept, since = self._kept
        if since is None:
            self._kept = (kept, self._clock())

    def stop(self) -> None:
        """Hold it; it may stand already."""
        self._kept = (self.seconds, None)
