"""The newest lines of a run's log, and what the log says of an event."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import Literal, get_args

import msgspec

from tuitrain import events
from tuitrain.device_names import in_words
from tuitrain.text import clean

LOG_LINES = 2000

LogLevel = Literal["info", "warning", "error", "output"]
LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)


class LogLine(msgspec.Struct, frozen=True):
    """One line of a log: Unix time, what it is (`output` came from a library's stdout or stderr), clean text."""

    time: float
    level: LogLevel
    text: str


class LogTail:
    """The newest lines of a log; any thread may add and read."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque(maxlen=LOG_LINES)
        self._lock = threading.Lock()
        self.total = 0
        """How many lines were ever added."""
        self.warning: LogLine | None = None
        """The newest line that warns."""
        self._begins_late = False

    def add(self, level: LogLevel, text: str, now: float | None = None) -> LogLine:
        """Add one line, stamped `now` (Unix seconds, the present when `None`); control characters are replaced."""
        line = LogLine(time.time() if now is None else now, level, clean(text))
        with self._lock:
            self._lines.append(line)
            self.total += 1
            if level == "warning":
                self.warning = line
        return line

    def leave_out(self) -> None:
        """The log has lines that are older than all that are added."""
        self._begins_late = True

    @property
    def cut(self) -> bool:
        """Whether the log has older lines than those that are kept here."""
        return self._begins_late or self.total > LOG_LINES

    def since(self, seen: int) -> tuple[list[LogLine], int]:
        """The kept lines that were added after the first `seen` ones, and the `total` that belongs to them."""
        with self._lock:
            new = self.total - seen
            return list(self._lines)[-new:] if new > 0 else [], self.total

    def tail(self, count: int) -> list[LogLine]:
        """The newest `count` lines that are kept, oldest first."""
        with self._lock:
            return list(self._lines)[-count:] if count > 0 else []


def describe(event: events.Event, train_loss: float | None = None) -> tuple[LogLevel, str] | None:
    """The line that a log gets for `event`, or `None` for what happens too often to be logged, or follows from another line.

    Args:
        event: what has happened.
        train_loss: that of the epoch which ended with it.
    """
    match event:
        case events.Notice():
            return event.level, event.text
        case events.Printed():
            return "output", event.text
        case events.RunStarted():
            samples = f"{event.train_samples:,} training and {event.test_samples:,} test samples"
            again = f"; going on after step {event.resumed_from:,}" if event.resumed_from is not None else ""
            return "info", f"{event.recipe} on {in_words(event.device)} ({event.strategy}), {event.data} data: {samples}{again}"
        case events.State():
            return "info", event.state
        case events.Eval():
            losses = f"test loss {event.loss:.4f}" if train_loss is None else f"loss {train_loss:.4f}, test {event.loss:.4f}"
            return "info", f"epoch {event.epoch}: {losses}" + ("" if math.isnan(event.accuracy) else f", accuracy {event.accuracy:.1%}")
        case events.Checkpoint(kind="epoch") if train_loss is None:
            return None  # each evaluation is followed by one
        case events.Checkpoint():
            return "info", f"step {event.step:,}: {event.kind} checkpoint" + ("" if train_loss is None else f", loss {train_loss:.4f}")
        case events.RunEnded(error=None):
            return "info", f"{event.state} at step {event.step:,}"
        case events.RunEnded():
            return "error", f"{event.state}: {event.error}"
        case _:
            return None
