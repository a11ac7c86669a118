"""The file that the launcher's recipe was read from, which may be edited while the app is open."""

from __future__ import annotations

from pathlib import Path

from tuitrain.files import stamp
from tuitrain.text import clean


class RecipeFile:
    """A recipe's file as it was when it was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = stamp(path)

    def edited(self) -> str | None:
        """What to say where it has changed since the last look; it waits for the disk."""
        before, self._seen = self._seen, stamp(self._path)
        if self._seen in (None, before):
            return None
        return f"{clean(self._path.name)} was edited since tuitrain read it: this run has what the launcher shows."
