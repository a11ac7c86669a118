"""The rest of a path that is being typed."""

from __future__ import annotations

import os
from functools import partial

from textual.suggester import Suggester

from tuitrain.files import some_entries
from tuitrain.text import clean
from tuitrain.tui.hosts.in_thread import in_thread


class Folders(Suggester):
    """Offers folders. A disk may be slow: a thread asks it, and the field takes what still fits its text."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """See `begun`."""
        return await in_thread(partial(begun, value))


def begun(typed: str) -> str | None:
    """The path of the first folder, in the order of their names, that begins with what is typed; `None` where there is none."""
    parent, slash, name = typed.rpartition("/")
    if not slash or not name:
        return None
    try:
        entries = some_entries(os.path.expanduser(parent + slash))
        found = [entry.name for entry in entries if entry.name.startswith(name) and entry.is_dir()]
    except (OSError, ValueError):
        return None
    # What a terminal would obey, or cannot show, is not offered to be typed.
    first = min((each for each in found if each == clean(each)), default=None)
    return None if first is None else f"{parent}{slash}{first}"
