"""Counting: how often a fault was tried, and how often all was as it should be afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_SHOWN = 5


class Tally:
    """One fault.

    Args:
        name: what is done to a run.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tried = self.expected = 0
        self.facts: list[str] = []
        """Numbers for the line."""
        self.left_out = ""
        """Why it cannot be tried here."""
        self.problems: list[str] = []
        """What was not as expected, a line each."""
        self._began = time.monotonic()

    @contextmanager
    def trial(self, what: object = "") -> Iterator[None]:
        """One try: an assertion that fails in it is counted, and the next try comes."""
        self.tried += 1
        try:
            yield
        except Exception as error:
            self.problems.append(f"{what or f'number {self.tried}'}: {type(error).__name__}: {error}")
        else:
            self.expected += 1

    @property
    def good(self) -> bool:
        """Whether it was tried, and every time as expected; or cannot be tried here."""
        return bool(self.left_out) or self.tried == self.expected > 0

    def report(self) -> str:
        """`name: n tried, n as expected`, and the first problems below it."""
        if self.left_out:
            return f"{self.name}: not tried: {self.left_out}"
        facts = "".join(f"; {fact}" for fact in self.facts)
        lines = [f"{self.name}: {self.tried} tried, {self.expected} as expected{facts} ({time.monotonic() - self._began:.0f} s)"]
        lines += [f"    {problem}" for problem in self.problems[:_SHOWN]]
        if len(self.problems) > _SHOWN:
            lines.append(f"    and {len(self.problems) - _SHOWN} more")
        return "\n".join(lines)
