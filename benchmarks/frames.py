"""What one redraw costs the event loop of the whole app in a real terminal, in processor time, whatever else the machine does."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.programs import Screen

SETTLE_SECONDS = 2.0
QUIET_SECONDS = 0.12
"""What a key brings is drawn by then."""
ANSWER_SECONDS = 20.0


class Note(NamedTuple):
    """Processor seconds so far: of the event loop's thread, and of the whole process."""

    loop: float
    process: float


class Metered:
    """`tuitrain ARGUMENTS...` in a terminal, which notes what it has used whenever it is asked to.

    Args:
        shown: when the screen's text says that there is something to measure.
        opening: keys that lead there.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        shown: Callable[[str], bool],
        *,
        columns: int = 120,
        rows: int = 40,
        opening: str = "",
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "notes.jsonl"
        self._asked = 0
        command = [sys.executable, "-m", "benchmarks.metered_app", str(self._file), *arguments]
        self._screen = Screen(command, dict(env), columns, rows)
        try:
            self._screen.wait(lambda text: "Quit" in text)
            self._screen.child.send(opening)
            self._screen.wait(shown)
            self._screen.discard(SETTLE_SECONDS)
        except BaseException:
            self.close()
            raise

    def press(self, key: str) -> None:
        """Note before the key, and after what it has drawn."""
        self._note()
        self._screen.child.send(key)
        self._screen.discard(QUIET_SECONDS)
        self._note()

    def watch(self, seconds: float, count: int) -> None:
        """Note before and after each of `count` spans of `seconds`."""
        for _ in range(count):
            self._note()
            self._screen.discard(seconds)
            self._note()

    def leave(self) -> list[Note]:
        """Quit, and what was noted, two for each key or span."""
        notes = [Note(*json.loads(line)) for line in self._notes()]
        self._screen.child.send("q")
        self._screen.rest()
        return notes

    def close(self) -> None:
        """End the program, whatever it does."""
        self._screen.close()
        self._folder.cleanup()

    def _note(self) -> None:
        """Have it noted what is used by now. A signal that comes before the last one was heard is lost, so it is waited for."""
        os.kill(self._screen.child.pid, signal.SIGUSR2)
        self._asked += 1
        end = time.perf_counter() + ANSWER_SECONDS
        while len(self._notes()) < self._asked:
            if time.perf_counter() > end:
                raise RuntimeError(f"the app did not answer a signal within {ANSWER_SECONDS:.0f} s")
            self._screen.discard(0.005)

    def _notes(self) -> list[str]:
        return self._file.read_text(encoding="utf-8").splitlines() if self._file.exists() else []


def press_in_turn(apps: Sequence[Metered], keys: Iterable[str], count: int) -> None:
    """`count` keys, which are taken from `keys` over and over, each in one app after the other."""
    for key in islice(cycle(keys), count):
        for app in apps:
            app.press(key)


def spent(notes: Sequence[Note], *, process: bool = False) -> list[float]:
    """Milliseconds of the event loop, or of the whole process, from each first note to its second."""
    times = [note.process if process else note.loop for note in notes]
    return [1000 * (after - before) for before, after in zip(times[::2], times[1::2], strict=True)]
