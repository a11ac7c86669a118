"""A training that ends in time after a signal, even where it hangs in a step that waits for another rank."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuitrain.config import RunConfig
from tuitrain.events import Event, RunEnded, reached
from tuitrain.session.control import Control

if TYPE_CHECKING:
    from tuitrain.session.worker import Train

LOOKS = 20
"""How often it is looked whether the run was interrupted, before it is given up."""
_Said = queue.SimpleQueue[Event | BaseException | None]


class _Silent(Exception):
    """The engine says nothing any more; what it raises itself may be a `TimeoutError`, of a network disk for one."""


def in_time(train: Train, seconds: float) -> Train:
    """Train as `train` does, in a thread that is left behind when it has said nothing for `seconds` after the run was interrupted.

    A stop that a person asks for at another terminal may take its time: nobody kills what is slow to obey it.

    gloo does not always notice that another rank has gone, and nothing ends what a thread waits for there: its `abort` and `shutdown` do
    nothing in torch 2.13. Whoever trains so must leave the process by `leave_at_once`.
    """

    def trains(config: RunConfig, control: Control) -> Iterator[Event]:
        said: _Said = queue.SimpleQueue()
        goes_on: queue.SimpleQueue[bool] = queue.SimpleQueue()

        def run() -> None:
            try:
                for event in train(config, control):
                    said.put(event)
                    # The host deals with an event before the engine makes the next one.
                    if not goes_on.get():
                        return
                said.put(None)
            except BaseException as error:  # whoever hosts the run makes a sentence of it
                said.put(error)

        engine = threading.Thread(target=run, name="tuitrain-rank", daemon=True)
        engine.start()
        step = 0
        try:
            while (event := _next(said, control, seconds)) is not None:
                step = reached(step, event)
                yield event
                goes_on.put(True)
        except _Silent:
            error = f"another rank has gone or hangs: this one was told to end, and its step was not over {seconds:.0f} s later."
            yield RunEnded(state="failed", step=step, error=error)
        except GeneratorExit:
            goes_on.put(False)
            engine.join()
            raise

    return trains


def _next(said: _Said, control: Control, seconds: float) -> Event | None:
    """The engine's next event; `None` after its last.

    Raises:
        _Silent: the run was interrupted, and `seconds` passed without one.
        BaseException: what the engine raised.
    """
    looks = 0
    while looks < LOOKS:
        try:
            event = said.get(timeout=seconds / LOOKS)
        except queue.Empty:
            # Counted, not timed: a process that was suspended in between has not hung.
            looks = looks + 1 if control.interrupted else 0
            continue
        if isinstance(event, BaseException):
            raise event
        return event
    raise _Silent
