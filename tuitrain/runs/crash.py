"""Where a process crashed that trained a run, as in C code of a network or of a driver: Python writes it to a file in the run's folder."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import IO

from tuitrain.python import crashes_to
from tuitrain.text import clean

CRASH = "crash.txt"
_READ_BYTES = 65_536
FATAL = "Fatal Python error: "
"""How Python's account of a crash begins."""
_KIND = re.compile(rf"{FATAL}(.{{1,80}})")
_FRAME = re.compile(r'  File "(.{1,4096})", line (\d+) in (.{1,200})')
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python")


class CrashNote:
    """While it is open, a crash of this process writes the stacks of its threads to `crash.txt`, see `crashes_to`. Where that cannot be
    opened, they go elsewhere.

    Args:
        folder: the run's.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / CRASH
        self._file: IO[bytes] | None = None
        with suppress(OSError):
            self._file = self._path.open("wb")
            crashes_to("run", self._file)

    def close(self) -> None:
        """The process has the run no more, and has not crashed."""
        file, self._file = self._file, None
        if file is not None:
            crashes_to("run", None)
            file.close()
            with suppress(OSError):
                self._path.unlink()


def crashed(folder: Path) -> str | None:
    """How and where a process crashed that trained the run in `folder`, see `crash_in`."""
    try:
        with (folder / CRASH).open("rb") as file:
            return crash_in(file.read(_READ_BYTES).decode(errors="replace"))
    except OSError:
        return None


def crash_in(text: str) -> str | None:
    """What Python has written of a crash, such as "Segmentation fault, in forward (nets.py, line 12)"; `None` where that is nothing."""
    kind = _KIND.search(text)
    return kind and f"{clean(kind[1].strip())}{_place(text)}"


def _place(text: str) -> str:
    """Of the thread that crashed the innermost frame that is not a library's."""
    frames = list(_FRAME.finditer(text.partition("Current thread ")[2].partition("\n\n")[0]))
    found = next((frame for frame in frames if not any(library in frame[1] for library in _LIBRARIES)), frames[0] if frames else None)
    return "" if found is None else clean(f", in {found[3]} ({Path(found[1]).name}, line {found[2]})")
