"""The rest of a path that is being typed."""

from __future__ import annotations

import os
from functools import partial

from textual.suggester import Suggester

from tuitrain.files import some_entries
from tuitrain.text import clean
from tuitrain.tui.hosts.in_thread import in_thread


class Paths(Suggester):
    """Offers folders. A disk may be slow: a thread asks it, and the field takes what still fits its text.

    Args:
        files: how the names of files end that are offered too.
    """

    def __init__(self, files: tuple[str, ...]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._files = files

    async def get_suggestion(self, value: str) -> str | None:
        """See `begun`."""
        return await in_thread(partial(begun, value, self._files))


def begun(typed: str, files: tuple[str, ...] = ()) -> str | None:
    """The path of the first folder, in the order of their names, that begins with what is typed; `None` where there is none.

    Args:
        files: a file whose name ends so is as good.
    """
    parent, slash, name = typed.rpartition("/")
    if not slash or not name:
        return None
    try:
        entries = some_entries(os.path.expanduser(parent + slash))
        begin_so = (entry for entry in entries if entry.name.startswith(name))
        found = [entry.name for entry in begin_so if entry.is_dir() or entry.name.endswith(files)]
    except (OSError, ValueError):
        return None
    # What a terminal would obey, or cannot show, is not offered to be typed.
    first = min((each for each in found if each == clean(each)), default=None)
    return None if first is None else f"{parent}{slash}{first}"
