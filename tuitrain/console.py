"""`tuitrain run` without the app: progress bars on a terminal, plain lines in a pipe, JSON lines with --json."""

from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tuitrain import events
from tuitrain.config import RunConfig
from tuitrain.events import Checkpoint, Eval, Event, Notice, Replicas, RunEnded, RunStarted, State, Step
from tuitrain.session import Session
from tuitrain.text import clean

EXIT_CODES = {"finished": 0, "stopped": 0, "failed": 1, "interrupted": 130}
REFUSED = 2


class Printer(Protocol):
    """Shows batches of events; `close` leaves the terminal as it was."""

    def show(self, batch: Sequence[Event]) -> None: ...

    def close(self) -> None: ...


def follow(session: Session, config: RunConfig, printer: Printer) -> int:
    """Train `config` in `session` and show it until it has ended; the exit code.

    Printing happens here, in the main thread: a reader that stalls holds up neither training nor the store.
    """
    batches: queue.SimpleQueue[Sequence[Event]] = queue.SimpleQueue()
    session.subscribe(batches.put)
    code = 0
    with _signals_interrupt(session) as received:
        session.start(config)
        try:
            while batch := batches.get():
                printer.show(batch)
                for event in batch:
                    if isinstance(event, RunEnded):
                        code = EXIT_CODES[event.state]
        except BrokenPipeError:
            # Nobody reads any more (`tuitrain run … | head`): end as at Ctrl+C, and let the interpreter's own flush at exit meet no pipe.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            session.interrupt()
            code = EXIT_CODES["interrupted"]
        finally:
            printer.close()
        while not session.join(1.0):
            pass
        _print_notices(batches)
    if session.refusal is not None:
        print(f"tuitrain: {session.refusal}", file=sys.stderr)
        return REFUSED
    return 128 + received[0] if received else code


def _print_notices(batches: queue.SimpleQueue[Sequence[Event]]) -> None:
    """What was said after the run's last event: the notices of its `on_end`, which are no part of the run's events any more."""
    while not batches.empty():
        for event in batches.get():
            _notice_to_stderr(event)


@contextmanager
def _signals_interrupt(session: Session) -> Iterator[list[int]]:
    """The first SIGINT or SIGTERM asks the run to end at a step boundary; a second one ends the process at once."""
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        if received:
            sys.stderr.write("\x1b[?25h" if sys.stderr.isatty() else "")
            os._exit(128 + number)
        received.append(number)
        what = "on_end" if session.state == "ended" else "after this step, with a checkpoint"
        print(f"tuitrain: ending {what}; once more ends at once", file=sys.stderr)
        session.interrupt()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class JsonPrinter:
    """One object a line; notices also go to stderr."""

    def show(self, batch: Sequence[Event]) -> None:
        """Print the events of the contract."""
        for event in batch:
            if isinstance(event, events.PUBLIC):
                print(events.encode(event))
            _notice_to_stderr(event)
        sys.stdout.flush()

    def close(self) -> None:
        """Nothing is open."""


class PlainPrinter:
    """A line for each thing worth a line in a log file: every 100th step, each evaluation, each checkpoint."""

    def __init__(self) -> None:
        self._started: RunStarted | None = None

    def show(self, batch: Sequence[Event]) -> None:
        """Print what deserves a line."""
        for event in batch:
            if isinstance(event, RunStarted):
                self._started = event
            if (line := _line(event, self._started)) is not None:
                print(line)
            _notice_to_stderr(event)
        sys.stdout.flush()

    def close(self) -> None:
        """Nothing is open."""


class BarPrinter:
    """A progress bar with loss and speed, and the plain lines above it."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[amount]}", markup=False),
            TextColumn("{task.fields[numbers]}", markup=False),
            TimeRemainingColumn(),
            console=Console(),
            refresh_per_second=4,
        )
        self._task: TaskID | None = None
        self._started: RunStarted | None = None
        self._progress.start()

    def show(self, batch: Sequence[Event]) -> None:
        """Print lines for what is rare and move the bar for the rest."""
        for event in batch:
            if isinstance(event, RunStarted):
                self._started = event
                self._new_bar("training", event.total_steps)
            elif isinstance(event, events.Progress):
                self._phase(event)
            elif isinstance(event, Step):
                self._step(event)
            elif isinstance(event, events.RunEnded) and event.state in ("finished", "failed"):
                self._progress.console.bell()
            if not isinstance(event, Step) and (line := _line(event, self._started)) is not None:
                self._progress.console.print(line, markup=False, highlight=False)
            _notice_to_stderr(event)

    def close(self) -> None:
        """Leave the bar where it is and give the terminal back."""
        self._progress.stop()

    def _new_bar(self, description: str, total: int | None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(description, total=total, amount="", numbers="")

    def _phase(self, event: events.Progress) -> None:
        if self._started is not None:
            return
        if self._task is None or self._progress.tasks[0].description != event.phase:
            self._new_bar(event.phase, event.total)
        assert self._task is not None
        amount = f"{event.done:,}/{event.total:,} {event.unit}".rstrip() if event.total else ""
        self._progress.update(self._task, completed=event.done, amount=amount)

    def _step(self, event: Step) -> None:
        assert self._task is not None
        assert self._started is not None
        epochs = -(-self._started.total_steps // self._started.steps_per_epoch)
        self._progress.update(
            self._task,
            description=f"epoch {event.epoch}/{epochs}",
            completed=event.step,
            amount=f"step {event.step:,}/{self._started.total_steps:,}",
            numbers=f"loss {event.loss:.4f}  {event.samples_per_second:,.0f} samples/s",
        )


def _notice_to_stderr(event: Event) -> None:
    if isinstance(event, Notice):
        print(f"tuitrain: {clean(event.text)}", file=sys.stderr)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "idle" if shape is None else f"[{', '.join(map(str, shape))}]"


def _line(event: Event, started: RunStarted | None) -> str | None:
    """The line that a log file gets of `event`, or `None`."""
    total = started.total_steps if started else 0
    match event:
        case RunStarted():
            return (
                f"run {event.run}: {event.recipe} on {', '.join(event.device)}, {event.data} data "
                f"({event.train_samples:,} train, {event.test_samples:,} test), {event.parameters:,} parameters"
            )
        case Replicas():
            parts = [f"{replica.index} {replica.device} {_shape(replica.input)} -> {_shape(replica.output)}" for replica in event.replicas]
            return f"step {event.step:,}: batch {_shape(event.batch)}; replica {'; replica '.join(parts)}" if event.step == 1 else None
        case Step() if event.step == 1 or event.step % 100 == 0 or event.step == total:
            return f"step {event.step:,}/{total:,}  epoch {event.epoch}  loss {event.loss:.4f}  {event.samples_per_second:,.0f} samples/s"
        case Eval():
            return f"epoch {event.epoch}  test loss {event.loss:.4f}  accuracy {event.accuracy:.2%}"
        case Checkpoint() if event.kind != "best":
            return f"checkpoint {event.path}"
        case State() if event.state in ("paused", "running"):
            return None if event.state == "running" else "paused"
        case RunEnded():
            return f"{event.state} at step {event.step:,}" + (f": {clean(event.error)}" if event.error else "")
        case _:
            return None


def printer_for(*, json: bool) -> Printer:
    """The printer that fits stdout."""
    if json:
        return JsonPrinter()
    return BarPrinter() if sys.stdout.isatty() else PlainPrinter()
