"""The sentences that come up in the corner and go again."""

from __future__ import annotations

from typing import TypeVar

from textual.app import App
from textual.notifications import Notify
from textual.widgets._toast import Toast

Result = TypeVar("Result")


class ToastingApp(App[Result]):
    """An app in which a sentence stands once, also where a key that is held down says it again and again."""

    def on_notify(self, event: Notify) -> None:
        """One that still stands there makes way for the newer. Textual calls this before its own handler, which adds that one."""
        self._take_away(event.notification.message)

    def unsay(self, message: str) -> None:
        """Take a sentence away that does not hold any more, behind all that is yet to be put up."""
        self.call_later(self._take_away, message)

    def _take_away(self, message: str) -> None:
        for toast in self.screen.query(Toast) if self.screen_stack else ():
            if toast._notification.message == message:
                toast._expire()
        # What is yet to be put up.
        for waiting in [one for one in self._notifications if one.message == message]:
            del self._notifications[waiting]
