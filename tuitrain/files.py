"""Writing files so that a reader, or a power cut, meets the old content or the new one and nothing in between; and reading many of them."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

LONGEST_NAME = 240
"""Of a file's name, in bytes: that of the temporary file beside it is longer."""

Stamp = tuple[int, int, int]

_MOST_ENTRIES = 20_000
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
_OWN_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")


def read_in(folder: Path, name: str) -> bytes:
    """All of a file in `folder`. Of two thousand small ones, pathlib's own ways take twice as long.

    Raises:
        OSError: it cannot be read.
    """
    with open(f"{folder}/{name}", "rb", buffering=0) as file:
        return file.read()


def some_entries(folder: str) -> list[os.DirEntry[str]]:
    """What a folder holds; of one with very many, such as a million images, a part.

    Raises:
        OSError: it cannot be read.
        ValueError: its path cannot be one.
    """
    with os.scandir(folder) as entries:
        return list(islice(entries, _MOST_ENTRIES))


def mode_at(path: Path) -> int | None:
    """The kind and the rights of what `path` leads to, `None` where nothing is.

    Raises:
        OSError: nobody can tell. `Path.exists` and its like would take that for nothing there, from Python 3.14 on.
    """
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def stamp(path: str | Path) -> Stamp | None:
    """What a file has as long as it is the same one, unchanged; `None` where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def write_durably(path: Path, content: bytes | Iterable[bytes | memoryview], *, new: bool = False) -> None:
    """Write a file, and return when it is on disk. It is not atomic: the name is there before the content.

    Args:
        content: all of it, or its parts.
        new: there must be none of this name.

    Raises:
        FileExistsError: with `new`, there is one.
        OSError: it cannot be written.
    """
    with path.open("xb" if new else "wb") as file:
        for part in [content] if isinstance(content, bytes) else content:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Replace `path` by a file with `content`, all of it or its parts.

    Raises:
        OSError: it cannot be written; the old file is as it was.
    """
    with _taking_its_place(path) as file:
        file.writelines([content] if isinstance(content, bytes) else content)
    sync_folder(path.parent)


def sweep(folder: Path, replaced: Iterable[str]) -> None:
    """Remove what killed processes have left that replaced one of these files of `folder`; nobody may replace one meanwhile."""
    left = tuple(f".{name}." for name in replaced)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(left):
                (folder / name).unlink()


def check_place(path: Path) -> None:
    """Check that `written_where_asked` can begin, for one who needs time to make what is to be written.

    Raises:
        OSError: nothing can be written there.
    """
    if (descriptor := _own_descriptor(path)) is not None:
        os.fstat(descriptor)
        return
    target = _target(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if _replaceable(target):
        # A folder that is not there says so itself.
        os.stat(target.parent)
        if not os.access(target.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def written_where_asked(path: Path) -> Iterator[BinaryIO]:
    """A file to write, under a name that a person gave.

    A regular file, or one that is not there yet, takes its name only when all is written; of a symlink that is the file it leads to.
    What else is there, such as a FIFO or a device, is written to as it is: a file in its place would end it. So is a file that is open
    already and named as such, like `/dev/stdout`, from the place in it that was reached.

    Raises:
        OSError: it cannot be written; a regular file is as it was.
    """
    if (descriptor := _own_descriptor(path)) is not None:
        # Opened by its name, it would be emptied and written from its start, and what comes there later written over that.
        with open(os.dup(descriptor), "wb") as file:
            yield file
        return
    target = _target(path)
    if str(path).startswith("/proc/") or not _replaceable(path):
        with path.open("wb") as file:
            yield file
        return
    with _taking_its_place(target) as file:
        yield file


@contextlib.contextmanager
def _taking_its_place(path: Path) -> Iterator[BinaryIO]:
    """A file that replaces `path` once it is written and on disk; what goes wrong before leaves nothing of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def is_standard_output(path: Path) -> bool:
    """Whether what is written to `path` comes where standard output leads."""
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False


def _own_descriptor(path: Path) -> int | None:
    """The number of a file that this process has open, where `path` names it by that."""
    if str(path.parent) in _OWN_DESCRIPTORS and path.name.isdecimal():
        return int(path.name)
    return _STANDARD.get(str(path))


def _target(path: Path) -> Path:
    target = Path(os.path.realpath(path))
    if len(os.fsencode(target.name)) > LONGEST_NAME:
        raise OSError(errno.ENAMETOOLONG, f"its name is too long, at most {LONGEST_NAME} bytes are allowed")
    return target


def _replaceable(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_nowhere(descriptor: int) -> None:
    """Let nothing be read from or written to a file descriptor, so that nobody meets an error there."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere == descriptor:
        # It was closed, and the lowest free number is its own.
        os.set_inheritable(descriptor, True)
        return
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
