"""What comes to the app from other threads and from its screens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from tuitrain.config import RunConfig

if TYPE_CHECKING:
    from tuitrain.tui.launch.recipe_file import RecipeFile


class News(Message, bubble=False):
    """There is something new. It carries nothing: who hears it looks for all of it, and a message that is dropped loses nothing."""

    def can_replace(self, message: Message) -> bool:
        """A newer one says as much as all before it."""
        return type(message) is type(self)


class RunChanged(News, bubble=False):
    """The run has something new."""


class StartBeside(Message):
    """The person wants a run in a process of its own; it would take `devices` now."""

    def __init__(self, config: RunConfig, devices: tuple[str, ...]) -> None:
        super().__init__()
        self.config = config
        self.devices = devices


class OpenRun(Message):
    """The person wants to see the run in folder `path`, called `title` until it is read, and then `look`, an action of the app."""

    def __init__(self, path: Path, title: str, look: str | None = None) -> None:
        super().__init__()
        self.path = path
        self.title = title
        self.look = look


class GoOn(Message):
    """The person wants the run in folder `path` to go on."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path


class NewLike(Message):
    """The person wants to start a run like the one in folder `path`, or one that begins with its `weights` too."""

    def __init__(self, path: Path, *, weights: bool) -> None:
        super().__init__()
        self.path = path
        self.weights = weights


class Launched(Message):
    """A person starts what the launcher holds, here or in the background; `file` is that of the chosen recipe, where that is their own."""

    def __init__(self, file: RecipeFile | None) -> None:
        super().__init__()
        self.file = file
