"""How the app ends: by key, by a signal, or because its terminal has gone; and what becomes of the run that it trains."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tuitrain.config import ConfigError
from tuitrain.text import first_line
from tuitrain.tui.hosts.in_thread import in_thread
from tuitrain.tui.hosts.outside import Outside
from tuitrain.tui.run_view import hangs

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord
    from tuitrain.tui.hosts.beside import Beside
    from tuitrain.tui.navigation import NavigatedApp
    from tuitrain.tui.screens.ask import QuitDialog

_POLL_SECONDS = 0.1
_LONG = 30.0
_STOPPING = "Stopping: tuitrain closes when the last checkpoint is written."
_WRITING = "tuitrain closes when all of the run is written."
_STARTING = "tuitrain closes when the run in the background has begun; q again leaves without it."
_STOPPING_UNBEGUN = "Stopping before the next step: tuitrain then closes, and there is nothing to save."


class Leaving:
    """The way out of `app`. Everything is called on the event loop."""

    def __init__(self, app: NavigatedApp, beside: Beside, outside: Outside) -> None:
        self._app = app
        self._beside = beside
        self._view = app.view
        self._outside = outside
        self._waits_for = ""
        """What the app waits for before it ends."""
        self._signal = 0
        self._handing = False
        self._dialog: QuitDialog | None = None
        """What asks now."""
        self.farewell = ""
        """What to print at the prompt."""
        self.hung_up = False
        """The terminal has gone. A run that trains here goes on without it."""
        self.at_once = False
        """A second signal came, or SIGQUIT, or somebody does not want to wait: nothing is waited for."""

    def ask(self) -> None:
        """By key: leave, or ask first while a run trains; one that has ended is written to its end first."""
        from tuitrain.tui.screens.ask import QuitDialog

        if self._waits_for and (self._handing or (self._view.alive and self._view.state != "stopping")):
            self._app.notify(self._waits_for, timeout=3)
        elif self._view.alive and self._view.ended and self._dialog is None:
            self._wait_for_run(_WRITING)
        elif self._view.alive:
            if self._dialog is None:
                self._dialog = QuitDialog(self._view.state, stalled=hangs(self._view))
                self._app.push_screen(self._dialog, self._answered)
        elif self._waits_for:
            self._app.exit()
        else:
            self._end()

    def run_changed(self) -> None:
        """What is asked is about what the run does now."""
        if self._dialog is not None:
            self._dialog.follow(self._view.state, stalled=hangs(self._view))

    def hang_up(self) -> None:
        """The terminal has gone, and with it the screen; a run that trains goes on."""
        self.hung_up = True
        self._view.session.screen_attached = False
        # What is being handed over is in nobody's hands until that is done.
        if not self._handing:
            self._app.exit(return_code=128 + signal.SIGHUP)

    def terminate(self, number: int) -> None:
        """A signal asks the process to end: the run gets its last checkpoint first, but at SIGQUIT, which waits for nothing."""
        if number == signal.SIGQUIT:
            self.at_once = True
            self._app.exit(return_code=128 + number)
            return
        if self._handing:
            self._signal = number
            return
        if self._signal or not self._view.alive:
            self.at_once = self._view.alive
            self._app.exit(return_code=128 + number)
            return
        self._signal = number
        sentence = "Ending before the next step." if self._view.unbegun else "Ending after this step, with a checkpoint."
        self._view.session.interrupt()
        self._wait_for_run(sentence)

    def _answered(self, answer: str | None) -> None:
        self._dialog = None
        if answer == "leave":
            self._wait_for_run(_WRITING)
        elif answer == "at once":
            self.at_once = True
            self._app.exit()
        elif answer == "stop" and not self._waits_for:
            sentence = _STOPPING_UNBEGUN if self._view.unbegun else _STOPPING
            self._view.session.stop()
            self._app.main.show("run")
            self._wait_for_run(sentence)
        elif answer == "background":
            self._app.main.show("run")
            self._waits_for = "The run goes on in the background as soon as it has begun: tuitrain then closes."
            if self._view.state == "preparing":
                self._app.notify(self._waits_for, timeout=_LONG)
            self._app.run_worker(self._hand_over(), exit_on_error=False)

    def _wait_for_run(self, sentence: str) -> None:
        """End the app with the run. That it could not be saved, as on a full disk, is said at the prompt: no screen is there to do so."""

        def lasts() -> bool:
            if self._view.alive:
                return True
            self.farewell = _unsaved(self._view.record)
            return False

        self._wait(sentence, lasts)

    def _wait(self, sentence: str, lasts: Callable[[], bool]) -> None:
        """Say what is waited for, and end the app when it does not last any more."""
        self._waits_for = sentence
        self._app.notify(sentence, timeout=_LONG)

        def look() -> None:
            self._app.main.run_changed()
            if not lasts():
                timer.stop()
                self._end()

        timer = self._app.set_interval(_POLL_SECONDS, look)

    def _end(self) -> None:
        """End the app, but not before a run that was asked for has begun in the background: it would not begin without the app."""
        if self._beside.starting and not (self._signal or self.hung_up):
            self._wait(_STARTING, lambda: self._beside.starting > 0)
        else:
            self._app.exit(return_code=128 + self._signal if self._signal else 0)

    async def _hand_over(self) -> None:
        from tuitrain.tui.screens.ask import Patience

        while self._view.state == "preparing":
            # There is nothing to hand over before a checkpoint can be written.
            await asyncio.sleep(_POLL_SECONDS)
        if self._signal:
            return
        self._handing = True
        patience = Patience("Handing over…", "A process in the background goes on with the run from a checkpoint of this moment.")
        self._app.push_screen(patience)
        try:
            run = await in_thread(partial(self._outside.hand_over, self._view.session))
            record = self._view.record
            does = "stays paused" if record is not None and record.state == "paused" else "goes on"
            self.farewell = f"{run} {does} in the background: tuitrain attach {run}"
        except Exception as error:  # the run stays here, whatever keeps a process from beginning
            self._waits_for = ""
            reason = error.reason if isinstance(error, ConfigError) else f"{first_line(error)}."
            self._app.notify(f"Not handed over: {reason}", severity="error", markup=False, timeout=_LONG)
        finally:
            self._handing = False
        if self._signal and self._view.alive:
            # It stayed here, and is to end as if nothing had been asked before.
            patience.dismiss()
            number, self._signal = self._signal, 0
            self.terminate(number)
        elif self.farewell or self._signal or self.hung_up:
            if self._beside.starting:
                patience.dismiss()
            self._end()
        else:
            patience.dismiss()


def _unsaved(record: RunRecord | None) -> str:
    """That the last step of an ended run is in no checkpoint; nothing where it is, or where the run failed, which comes unforeseen."""
    if record is None or record.started is None or record.state == "failed":
        return ""
    saved = record.checkpoint.step if record.checkpoint is not None else record.started.resumed_from or 0
    if saved >= record.step:
        return ""
    again = f"it goes on from step {saved:,}" if saved else "there is none to go on from"
    return f"{record.run} {record.state} at step {record.step:,} without a checkpoint of that step; {again}."
