"""A log as rows of text: broken at a width, searched, and kept up to date line by line."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from tuitrain.runs.logtail import LOG_LINES, LogLine, LogTail
from tuitrain.tui.wrap import wrap


class LogText:
    """The lines that a log keeps, each broken into pieces once. Lines have numbers that stay when the oldest ones are dropped."""

    def __init__(self) -> None:
        self.first = 0
        """The number of the oldest line."""
        self.lines: list[LogLine] = []
        self._pieces: list[list[str]] = []
        self._starts: list[int] = [0]
        self.log: LogTail | None = None
        """Whose lines these are."""
        self.width = 0
        """What they are broken at."""
        self._seen = 0

    def __len__(self) -> int:
        """How many rows there are."""
        return self._starts[-1]

    def update(self, log: LogTail, width: int) -> int:
        """Take in what is new, and everything where the log or the width is another one; how many rows came at the end."""
        if log is not self.log or width != self.width:
            self.log, self.width, self._seen = log, width, 0
            self.first, self.lines, self._pieces, self._starts = 0, [], [], [0]
        new, total = log.since(self._seen)
        if not new and total == self._seen:
            return 0
        pieces = [wrap(line.text, width) for line in new]
        if len(new) < total - self._seen:
            # More came at once than is kept: nothing joins on to the lines from before.
            self.lines, self._pieces = [], []
        self.lines = (self.lines + new)[-LOG_LINES:]
        self._pieces = (self._pieces + pieces)[-LOG_LINES:]
        self.first, self._seen = total - len(self.lines), total
        self._starts = [0, *accumulate(map(len, self._pieces))]
        return sum(map(len, pieces))

    def row(self, index: int) -> tuple[int, str, int, bool]:
        """Row `index`: the number of its line, its text, where in the line's text that begins, and whether the line begins here."""
        line = bisect_right(self._starts, index) - 1
        part = index - self._starts[line]
        pieces, text, start = self._pieces[line], self.lines[line].text, 0
        for piece in pieces[:part]:
            start = max(text.find(piece, start), start) + len(piece)
        return self.first + line, pieces[part], max(text.find(pieces[part], start), start), part == 0

    def line(self, number: int) -> LogLine:
        """A kept line."""
        return self.lines[number - self.first]

    def rows_of(self, number: int) -> tuple[int, int]:
        """The first row of a kept line, and the one after its last."""
        return self._starts[number - self.first], self._starts[number - self.first + 1]


class Search:
    """Which lines hold a text, in any case of letters, and which of them one looks at."""

    def __init__(self) -> None:
        self.text = ""
        self.matches: list[int] = []
        """Numbers of lines, oldest first."""
        self.at: int | None = None
        """The number of the line that one looks at."""
        self._pattern = re.compile("")
        self._searched = 0

    @property
    def place(self) -> int:
        """Where among the matches one is, from 1; 0 where there is none."""
        return self.matches.index(self.at) + 1 if self.at in self.matches else 0

    def find(self, text: str, log: LogText, near: int) -> None:
        """Look for another text; what one looks at becomes the last match up to line `near`, else the first after it."""
        self.text, self._pattern = text, re.compile(re.escape(text), re.IGNORECASE)
        self.matches, self._searched = [], 0
        self.update(log)
        before = [number for number in self.matches if number <= near]
        self.at = before[-1] if before else self.matches[0] if self.matches else None

    def update(self, log: LogText) -> None:
        """Take in the lines that are new, and forget those that are no longer kept."""
        if not self.text:
            return
        start = max(self._searched, log.first)
        new = [number for number, line in enumerate(log.lines, log.first) if number >= start and self._pattern.search(line.text)]
        self.matches = [number for number in self.matches if number >= log.first] + new
        self._searched = log.first + len(log.lines)
        if self.at is None or self.at < log.first:
            self.at = self.matches[0] if self.matches else None

    def move(self, by: int) -> None:
        """The next or previous match; after the last comes the first."""
        if self.matches:
            place = max(self.place - 1, 0)
            self.at = self.matches[(place + by) % len(self.matches)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where `text` holds what is looked for."""
        return [match.span() for match in self._pattern.finditer(text)] if self.text else []


def cut(piece: str, start: int, spans: list[tuple[int, int]]) -> list[tuple[str, bool]]:
    """`piece`, which begins at `start` of its line, in parts that lie in one of the line's `spans` or in none."""
    parts: list[tuple[str, bool]] = []
    at = 0
    for left, right in ((max(left - start, 0), min(right - start, len(piece))) for left, right in spans):
        if left < right:
            parts += [(piece[at:left], False), (piece[left:right], True)]
            at = right
    return [part for part in (*parts, (piece[at:], False)) if part[0]]
