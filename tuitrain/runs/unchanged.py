"""What was made of files, kept for as long as they are the same ones: for those who look at a run again and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tuitrain.files import Stamp, stamp

T = TypeVar("T")


class Unchanged(Generic[T]):
    """Any thread may ask; two that do so at once may both read.

    Args:
        read: makes the value; what it raises, `get` raises.
        paths: the files, or folders for what they list, that the value is made of.
    """

    def __init__(self, read: Callable[[], T], *paths: Path) -> None:
        self._read = read
        self._paths = paths
        self._kept: tuple[tuple[Stamp | None, ...], T] | None = None

    def get(self) -> T:
        """The value of the files as they are now."""
        # Before reading: a file that is replaced meanwhile is read again the next time.
        stamps = tuple(map(stamp, self._paths))
        kept = self._kept
        if kept is None or kept[0] != stamps:
            self._kept = kept = (stamps, self._read())
        return kept[1]
