"""What is typed is the app's alone: anything else in the process that reads standard input finds its end there.

File descriptor 0 becomes empty, so that a model that asks something (`input()`, a debugger, a process that it starts) takes no key away
and does not wait for an answer that nobody sees it wants. Textual goes on reading the terminal through a duplicate that takes the place of
`sys.__stdin__`.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType

from tuitrain.files import to_nowhere


class Keyboard:
    """While entered, the terminal's keys are read from `sys.__stdin__` and from nowhere else."""

    def __enter__(self) -> Keyboard:
        self._before = (sys.stdin, sys.__stdin__)
        self._keys = open(os.dup(0), encoding="utf-8", errors="replace")
        to_nowhere(0)
        # What Python has read ahead for the one from before belongs to nobody.
        sys.stdin = open(0, encoding="utf-8", closefd=False)
        setattr(sys, "__stdin__", self._keys)  # noqa: B010 - typed as final
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.dup2(self._keys.fileno(), 0)
        sys.stdin.close()
        sys.stdin = self._before[0]
        setattr(sys, "__stdin__", self._before[1])  # noqa: B010
        self._keys.close()

    def leave_terminal(self) -> None:
        """The terminal has gone: keep nothing of it open."""
        to_nowhere(self._keys.fileno())
