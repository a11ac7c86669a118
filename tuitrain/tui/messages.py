"""What comes to the app from other threads."""

from __future__ import annotations

from textual.message import Message


class RunChanged(Message, bubble=False):
    """The run has something new. It carries nothing: the record has it all, and a message that is dropped loses nothing."""

    def can_replace(self, message: Message) -> bool:
        """A newer one says as much as all before it."""
        return isinstance(message, RunChanged)
