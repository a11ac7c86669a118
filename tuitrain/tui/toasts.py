"""The sentences that come up in the corner and go again."""

from __future__ import annotations

from typing import TypeVar

from textual.app import App
from textual.notifications import Notify
from textual.widget import Widget
from textual.widgets._toast import Toast
from textual.worker import Worker, WorkerState

from tuitrain.text import first_line

Result = TypeVar("Result")


def tell_of_surprise(node: App[Result] | Widget, event: Worker.StateChanged) -> None:
    """Say what a worker of `node` did not expect. It runs with `exit_on_error=False`: the app, and the run that trains in it, live on."""
    if event.state is WorkerState.ERROR and event.worker.error is not None:
        node.notify(f"This did not work: {first_line(event.worker.error)}.", severity="warning", markup=False)


class ToastingApp(App[Result]):
    """An app in which a sentence stands once, also where a key that is held down says it again and again."""

    def on_notify(self, event: Notify) -> None:
        """One that still stands there makes way for the newer. Textual calls this before its own handler, which adds that one."""
        self._take_away(event.notification.message)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What the app's own workers did not expect is said."""
        tell_of_surprise(self, event)

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
