"""How often what nobody waits for is shown, by what showing it sends to the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable


class Pace:
    """The more bytes it takes to show something, the longer the next time waits, so that they are so many a second on average. Times that
    take few save for one that takes many. It is counted in beats of a second.

    Args:
        sent: how many bytes the terminal has got so far.
        least: beats between two times where they take few bytes; as many can be saved.
        most: beats between two times at most.
        rate: bytes a second.
    """

    def __init__(self, sent: Callable[[], int], *, least: int, most: int, rate: int) -> None:
        self._sent = sent
        self._least, self._most, self._rate = least, most, rate
        self._saved = 0
        self._wait = least
        self._shown = 0
        self._before: int | None = None

    def due(self, beat: int) -> bool:
        """Whether it is time; then something is to be shown at once. To be asked at each beat: what is sent until the next one counts as
        what was shown, and what is sent after it, as for a key, does not."""
        if self._before is not None:
            self._saved = max(self._saved - (self._sent() - self._before), -self._rate * self._most)
            self._wait = max(math.ceil(-self._saved / self._rate), self._least)
            self._before = None
        passed = beat - self._shown
        if passed < self._wait:
            return False
        self._saved = min(self._saved + passed * self._rate, self._least * self._rate)
        self._shown, self._before = beat, self._sent()
        return True
