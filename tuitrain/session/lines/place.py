"""Where control sockets are, and that nobody but their user comes to them."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")


def own_folder(folder: Path) -> bool:
    """Whether `folder` is the user's own and closed to everybody else."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077


def make_folder(folder: Path) -> None:
    """Make `folder` for its user alone; its parent must be there.

    Raises:
        OSError: it cannot be made, or what is there belongs to somebody else or is open to others.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    if not own_folder(folder):
        raise PermissionError(f"{folder} is not a folder of this user alone")


def sweep(folder: Path) -> None:
    """Remove the sockets that processes left in `folder` when they were killed."""
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError), socket.socket(socket.AF_UNIX) as line:
                line.setblocking(False)
                found = path.lstat()
                # One without a dot got its name when somebody listened, so a refusal means that nobody ever will again.
                if (
                    "." not in path.name
                    and stat.S_ISSOCK(found.st_mode)
                    and line.connect_ex(str(path)) == errno.ECONNREFUSED
                    and path.lstat() == found
                ):
                    path.unlink()


def is_own(line: socket.socket) -> bool:
    """Whether the process at the other end of a connection is of the same user."""
    return peer_uid(line) in (None, os.getuid())


def peer_uid(line: socket.socket) -> int | None:
    """The user at the other end; `None` where the system does not say, and the folder's permissions are what keeps others out."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    return int(_CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1])


def listen(path: Path) -> socket.socket:
    """A socket that listens at `path`, in the place of whatever a dead process left there.

    Raises:
        OSError: it cannot be made.
    """
    make_folder(path.parent)
    sweep(path.parent)
    beside = path.with_name(f"{path.name[:8]}.{os.getpid():x}")
    listener = socket.socket(socket.AF_UNIX)
    try:
        beside.unlink(missing_ok=True)
        listener.bind(str(beside))
        beside.chmod(0o600)
        listener.listen()
        listener.setblocking(False)
        # Renamed only now: who finds the name can connect.
        beside.replace(path)
    except OSError:
        listener.close()
        beside.unlink(missing_ok=True)
        raise
    return listener
