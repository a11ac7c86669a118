"""The name of the theme, kept for the next start of the app."""

from __future__ import annotations

from tuitrain import paths

_LONGEST = 100
"""Bytes that are read, whatever lies there."""


def keep(name: str) -> None:
    """Remember `name`.

    Raises:
        OSError: it cannot be written; what was kept before is as it was.
    """
    from tuitrain.files import write_atomically

    path = paths.theme()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, name.encode())


def read() -> str | None:
    """The name that was kept, which may be one that nobody knows any more; `None` where there is none."""
    try:
        path = paths.theme()
        # A device or a pipe in its place could make the first frame wait for ever.
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(_LONGEST).decode().strip()
    except (OSError, UnicodeDecodeError):
        return None
