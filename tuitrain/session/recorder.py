"""The thread that writes down what a run says and tells the listeners, so that training waits for neither."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tuitrain.events import Checkpoint, Eval, Event, RunEnded, RunStarted, State
from tuitrain.runs.record import RunRecord
from tuitrain.session.standstill import Standstill
from tuitrain.text import print_error

if TYPE_CHECKING:
    from tuitrain.session.archive import Archive

BATCH_SECONDS = 0.1
COMMIT_SECONDS = 1.0
_WRITTEN_AT_ONCE = (RunStarted, State, RunEnded)
_WRITTEN_SOON = (Eval, Checkpoint)
"""Written at once where they do not come several times a second."""

Listener = Callable[[Sequence[Event]], None]


def tell(listeners: Iterable[Listener], batch: Sequence[Event]) -> None:
    """Hand a batch to each listener; what one of them raises is printed, and the others hear it all the same."""
    for listener in listeners:
        try:
            listener(batch)
        except Exception as error:  # a mistake of whoever looks on must not end the writing, and with it the run
            print_error(error)


class Recorder:
    """Takes events from any thread; one thread of its own applies them to the record, archives them, and hands them to the listeners.

    Listeners get a batch at most every `BATCH_SECONDS`, and an empty one last: nothing comes after it.
    """

    def __init__(self, record: RunRecord, listeners: Sequence[Listener]) -> None:
        self.archive: Archive | None = None
        self.afterwards: Callable[[], None] | None = None
        """Called last of all, from this thread, when everything is written and told."""
        self.beat: Callable[[], None] | None = None
        """Called once a second as long as there is no archive."""
        self.release: Callable[[], None] | None = None
        """Called when everything is written, before the listeners hear that it is over."""
        self.taken_over_by: Callable[[], str | None] = lambda: None
        """Asked before anything is written: who has the run's folder by now. Nothing is written there any more."""
        self.lost: Callable[[str], None] = lambda who: None
        """Called with that, once."""
        self._record = record
        self._standstill = Standstill(record)
        self._listeners = listeners
        self._events: queue.SimpleQueue[Event | threading.Event | None] = queue.SimpleQueue()
        self._marks: list[threading.Event] = []
        self._thread = threading.Thread(target=self._run, name="tuitrain-record")
        self._thread.start()

    def put(self, event: Event) -> None:
        """Queue an event; never waits."""
        self._events.put(event)

    def wait_until_written(self, timeout: float) -> bool:
        """Let what is queued be written at once, and wait for that; whether it was tried in time. Not for the recorder's own thread."""
        mark = threading.Event()
        self._events.put(mark)
        return mark.wait(timeout)

    def finish(self) -> None:
        """Let the thread write what is queued, tell the listeners so, and end."""
        self._events.put(None)

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread; whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        committed = time.monotonic()
        more = True
        while more:
            batch, more = self._next_batch()
            for event in batch:
                self._apply(event)
            if (notice := self._standstill.look()) is not None:
                self._apply(notice)
                batch.append(notice)
            if self.archive is not None:
                self.archive.append(batch)
                if not more or self._marks or time.monotonic() - committed >= COMMIT_SECONDS or self._is_urgent(batch):
                    batch += self._save(self.archive, last=not more)
                    committed = time.monotonic()
            elif self.beat is not None and more and time.monotonic() - committed >= COMMIT_SECONDS:
                self.beat()
                committed = time.monotonic()
            while self._marks:
                self._marks.pop().set()
            if batch:
                tell(self._listeners, batch)
        if self.release is not None:
            self.release()
        tell(self._listeners, [])
        if self.afterwards is not None:
            self.afterwards()

    def _next_batch(self) -> tuple[list[Event], bool]:
        """What comes within a batch's time after the first event, or up to a mark, and whether more may come; empty after a second without
        any."""
        batch: list[Event] = []
        end = time.monotonic() + COMMIT_SECONDS
        while True:
            try:
                event = self._events.get(timeout=max(end - time.monotonic(), 0.0))
            except queue.Empty:
                return batch, True
            if event is None:
                return batch, False
            if isinstance(event, threading.Event):
                self._marks.append(event)
                return batch, True
            if not batch:
                end = time.monotonic() + BATCH_SECONDS
            batch.append(event)

    def _is_urgent(self, batch: Sequence[Event]) -> bool:
        urgent = _WRITTEN_AT_ONCE if self._record.epochs_fly else (*_WRITTEN_AT_ONCE, *_WRITTEN_SOON)
        return any(isinstance(event, urgent) for event in batch)

    def _save(self, archive: Archive, *, last: bool) -> list[Event]:
        """Write to disk; the notices of what could not be written."""
        if (who := self.taken_over_by()) is not None:
            self.archive = self.release = self.afterwards = None
            self.lost(who)
            return []
        try:
            problems = archive.close(self._record) if last else archive.commit(self._record)
        except Exception as error:  # a mistake must not keep anybody from hearing of the run's end, nor from having it
            print_error(error)
            return []
        for problem in problems:
            self._apply(problem)
        if last:
            archive.end_log(self._record)
        return list(problems)

    def _apply(self, event: Event) -> None:
        try:
            self._record.apply(event)
        except Exception as error:  # a mistake about one event must not end the writing, and with it the run
            print_error(error)
