"""A run's `log.txt`, read as it grows."""

from __future__ import annotations

from pathlib import Path

from tuitrain.runs.logtail import LOG_LEVELS, LOG_LINES, LogTail
from tuitrain.runs.utc import from_utc

# More than the newest lines take: a file that is longer is read from there on.
_NEWEST_BYTES = 512 * 1024


class LogFile:
    """The newest lines of a log file; one thread at a time calls `follow`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._log = LogTail()

    def follow(self) -> LogTail:
        """The lines up to now, in the same `LogTail` as before with the new ones added; a file that was cut or is gone starts anew."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                if size < self._read:
                    self._read, self._log = 0, LogTail()
                before = self._read
                start = file.seek(max(size - _NEWEST_BYTES, self._read))
                content = file.read()
                self._read = file.tell()
        except OSError:
            self._read, self._log = 0, LogTail()
            return self._log
        # A line that is being written right now is taken when it is whole.
        whole = content[: content.rfind(b"\n") + 1]
        self._read -= len(content) - len(whole)
        lines = whole.decode("utf-8", errors="replace").splitlines()
        if start > before or len(lines) > LOG_LINES:
            self._log.leave_out()
        for line in lines[-LOG_LINES:]:
            self._add(line)
        return self._log

    def _add(self, line: str) -> None:
        words = line.split(" ", 2)
        moment = from_utc(words[0])
        if len(words) == 3 and words[1] in LOG_LEVELS and moment is not None:
            self._log.add(words[1], words[2], moment)
