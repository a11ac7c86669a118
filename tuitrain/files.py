"""Writing files so that a reader, or a power cut, meets the old content or the new one and nothing in between."""

from __future__ import annotations

import os
from pathlib import Path


def write_durably(path: Path, content: bytes, *, new: bool = False) -> None:
    """Write a file, and return when it is on disk. It is not atomic: the name is there before the content.

    Args:
        new: there must be none of this name.

    Raises:
        FileExistsError: with `new`, there is one.
        OSError: it cannot be written.
    """
    with path.open("xb" if new else "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by a file with `content`.

    Raises:
        OSError: it cannot be written; the old file is as it was.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_durably(beside, content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
