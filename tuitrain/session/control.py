"""What the host and the engine of one run say to each other while it goes."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tuitrain.config import RunConfig
from tuitrain.events import Event, Printed, Request
from tuitrain.session.threads import yield_to_the_screen
from tuitrain.text import clean, traceback_of


class Control:
    """Requests on their way to the engine, which obeys them at a step boundary, and what the two tell each other at the start.

    The engine sets `resolved` and `environment` before it yields `RunStarted`; the host then sets `folder` before it asks for the
    next event.
    """

    def __init__(self, free_cuda_devices: Callable[[], Sequence[int] | None]) -> None:
        self.folder = Path()
        self.resolved: RunConfig | None = None
        self.environment: dict[str, Any] = {}
        self.free_cuda_devices = free_cuda_devices
        self.output: Callable[[str], object] = lambda line: None
        """Takes what processes of the run printed, a line at a time; the host sets it."""
        self.tell: Callable[[Event], object] = lambda event: None
        """Takes events that the engine does not yield; the host sets it."""
        self.prints_errors = False
        """Whether what is raised goes to stderr too: where that is not what fills the log."""
        self.recorded: Callable[[], object] = lambda: None
        """See `engine.control.Control`; the host sets it."""
        self.lost: str | None = None
        """Why the run ends here without another step: it is not this process's any more."""
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._ending = threading.Event()
        self._leaving = False
        self._interrupted = False

    def placed(self, devices: Sequence[str]) -> None:
        """The engine says where it trains. On the CPU the calling thread, and all that it starts from now on, yields to the screen."""
        if all(device == "cpu" for device in devices):
            yield_to_the_screen()

    def raised(self, error: BaseException) -> None:
        """See `engine.control.Control`."""
        text = traceback_of(error)
        for line in text.splitlines():
            self.tell(Printed(text=line))
        if self.prints_errors:
            sys.stderr.write(text)

    def lost_output(self, lines: Iterable[str]) -> None:
        """What processes of a run printed, which `output` got already, where there will be no folder to keep it."""
        if self.prints_errors:
            sys.stderr.writelines(f"{clean(line)}\n" for line in lines)

    def ask(self, request: Request) -> None:
        """Queue a request; from any thread."""
        if request in ("stop", "interrupt"):
            self._ending.set()
            self._interrupted |= request == "interrupt"
        elif request == "leave":
            self._leaving = True
        self._requests.put(request)

    def give_up(self, reason: str) -> None:
        """Have the host end the run at its next event, which comes soon also where it is paused or evaluates."""
        self.lost, self._leaving = reason, True
        self._requests.put("resume")

    def stay(self) -> None:
        """See `engine.control.Control`."""
        self._leaving = False

    def take(self, *, wait: bool) -> Request | None:
        """The next request, or `None`; `wait` blocks until there is one (the engine waits so while it is paused)."""
        try:
            return self._requests.get(block=wait)
        except queue.Empty:
            return None

    def asked_to_end(self, timeout: float) -> Request | None:
        """A stop or an interrupt that comes within `timeout` seconds; what else comes is for a run that trains, and is dropped."""
        ending = self._ending.wait(timeout)
        while (request := self.take(wait=ending)) is not None:
            if request in ("stop", "interrupt"):
                return request
        return None

    def ends_within(self, timeout: float) -> bool:
        """Whether a stop or an interrupt has come, or does so within `timeout` seconds."""
        return self._ending.wait(timeout)

    @property
    def ending(self) -> bool:
        """A stop, an interrupt or leaving has been asked for: phases without steps look at this."""
        return self._ending.is_set() or self._leaving

    @property
    def interrupted(self) -> bool:
        """A signal ends the run: whoever sent it may soon kill the process."""
        return self._interrupted
