"""What a run prints: progress bars on a terminal, plain lines in a pipe, JSON lines with --json; and how far one in the background is."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tuitrain import events
from tuitrain.device_names import in_words
from tuitrain.events import BYTES, Checkpoint, Clock, Eval, Event, Notice, Replicas, RunEnded, RunStarted, State, Step
from tuitrain.text import clean
from tuitrain.words import shape, shapes, target

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord

_STEP = re.compile(r"\bstep [\d,]+: ")


class Printer(Protocol):
    """Shows batches of events; `close` leaves the terminal as it was.

    Attributes:
        out: what it prints to.
    """

    out: TextIO

    def show(self, batch: Sequence[Event], record: RunRecord | None = None) -> None:
        """Show a batch; `record` is that of the run, where its events do not say all."""

    def close(self) -> None: ...


class Silent:
    """Prints nothing: of the ranks that a launcher started the first one tells of the run."""

    def __init__(self) -> None:
        self.out = sys.stdout

    def show(self, batch: Sequence[Event], record: RunRecord | None = None) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing is open."""


class JsonPrinter:
    """One object a line; notices also go to stderr."""

    def __init__(self) -> None:
        self.out = sys.stdout

    def show(self, batch: Sequence[Event], record: RunRecord | None = None) -> None:
        """Print the events of the contract."""
        for event in batch:
            if isinstance(event, events.PUBLIC):
                print(events.encode(event), file=self.out)
            notice_to_stderr(event)
        self.out.flush()

    def close(self) -> None:
        """Nothing is open."""


class PlainPrinter:
    """A line for each thing worth a line in a log file: every 100th step, each evaluation, each checkpoint."""

    def __init__(self) -> None:
        self.out = sys.stdout
        self._started: RunStarted | None = None
        self._clock: Clock | None = None

    def show(self, batch: Sequence[Event], record: RunRecord | None = None) -> None:
        """Print what deserves a line."""
        for event in batch:
            if isinstance(event, RunStarted):
                self._started = event
            elif isinstance(event, Clock):
                self._clock = event
            elif isinstance(event, RunEnded) and self._clock is not None:
                print(clock_line(self._clock), file=self.out)
            if (line := _line(event, self._started, record)) is not None:
                print(line, file=self.out)
            notice_to_stderr(event)
        self.out.flush()

    def close(self) -> None:
        """Nothing is open."""


class BarPrinter:
    """A progress bar with loss and speed, and the plain lines above it."""

    def __init__(self) -> None:
        self.out = sys.stdout
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
        self._clock: Clock | None = None
        self._progress.start()

    def show(self, batch: Sequence[Event], record: RunRecord | None = None) -> None:
        """Print lines for what is rare and move the bar for the rest."""
        for event in batch:
            if isinstance(event, RunStarted):
                self._started = event
                self._new_bar("training", event.total_steps)
            elif isinstance(event, events.Progress):
                self._phase(event)
            elif isinstance(event, Step):
                self._step(event)
            elif isinstance(event, Clock):
                self._clock = event
            elif isinstance(event, RunEnded):
                if event.state in ("finished", "failed"):
                    self._progress.console.bell()
                if self._clock is not None:
                    self._progress.console.print(clock_line(self._clock), markup=False, highlight=False)
            if not isinstance(event, Step) and (line := _line(event, self._started, record)) is not None:
                # A path is printed on one line, so that it can be copied; the terminal would break the run's numbers too.
                soft_wrap = not isinstance(event, RunStarted)
                self._progress.console.print(line, markup=False, highlight=False, soft_wrap=soft_wrap)
            notice_to_stderr(event)

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
        self._progress.update(self._task, completed=event.done, amount=_amount(event))

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


def _amount(event: events.Progress) -> str:
    if event.total and event.unit == BYTES:
        return f"{event.done / 1e6:.0f}/{event.total / 1e6:.0f} MB"
    return f"{event.done:,}/{event.total:,} {event.unit}".rstrip() if event.total else ""


def notice_to_stderr(event: Event) -> None:
    """Print a notice."""
    if isinstance(event, Notice):
        to_stderr(clean(event.text))


def to_stderr(sentence: str) -> None:
    """Print what is beside the run's events; a stderr that is full or closed is no reason to end one."""
    with suppress(OSError):
        print(f"tuitrain: {sentence}", file=sys.stderr)


def clock_line(clock: Clock) -> str:
    """How long training took, and when it reached its target."""
    goal = target(clock.target)
    if clock.crossed_seconds is None:
        return f"{goal} test accuracy not reached; {clock.seconds:.2f} s of training"
    crossed = f"{goal} crossed at epoch {clock.crossed_epoch}, {clock.crossed_seconds:.2f} s of training"
    return crossed if clock.crossed_seconds == clock.seconds else f"{crossed}; {clock.seconds:.2f} s in all"


def _line(event: Event, started: RunStarted | None, record: RunRecord | None) -> str | None:
    """The line that a log file gets of `event`, or `None`. Paths and errors in it may hold what a terminal would obey."""
    words = _words(event, started, record)
    return None if words is None else clean(words)


def _words(event: Event, started: RunStarted | None, record: RunRecord | None) -> str | None:
    total = started.total_steps if started else 0
    match event:
        case RunStarted():
            again = f", going on after step {event.resumed_from:,}" if event.resumed_from is not None else ""
            return (
                f"run {event.run}: {event.recipe} on {in_words(event.device)}, {event.data} data "
                f"({event.train_samples:,} train, {event.test_samples:,} test), {event.parameters:,} parameters{again}"
            )
        case Replicas():
            parts = [
                f"{replica.index} {replica.device} {shapes(replica.input, replica.inputs)} -> {shapes(replica.output, replica.outputs)}"
                for replica in event.replicas
            ]
            return f"step {event.step:,}: batch {shape(event.batch)}; replica {'; replica '.join(parts)}" if event.step == 1 else None
        case Step() if event.step == 1 or event.step % 100 == 0 or event.step == total:
            return f"step {event.step:,}/{total:,}  epoch {event.epoch}  loss {event.loss:.4f}  {event.samples_per_second:,.0f} samples/s"
        case Eval():
            mean = None if record is None else record.train_loss(event)
            trained = "" if mean is None else f"train loss {mean:.4f}  "
            accuracy = "" if math.isnan(event.accuracy) else f"  accuracy {event.accuracy:.2%}"
            return f"epoch {event.epoch}  {trained}test loss {event.loss:.4f}{accuracy}"
        case Checkpoint() if event.kind != "best":
            return f"checkpoint {event.path}"
        case State(state="paused"):
            return "paused"
        case RunEnded():
            error = event.error or ""
            # Most errors name their step, that of a rank behind the rank.
            where = f" at step {event.step:,}" if started and not _STEP.search(error) else ""
            return f"{event.state}{where}" + (f": {error}" if error else "")
        case _:
            return None


class Preparations:
    """A bar on stderr, where that is a terminal, that goes away when they are done; notices stay."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[amount]}", markup=False),
            console=console,
            refresh_per_second=4,
            transient=True,
            # Elsewhere Rich would end it with an empty line; and with FORCE_COLOR, as in CI, it takes a file for a terminal.
            disable=not (sys.stderr.isatty() and console.is_interactive),
        )
        self._task = self._progress.add_task("starting a process in the background", total=None, amount="")
        self._progress.start()

    def show(self, event: Event) -> None:
        """Show a phase, print a notice."""
        if isinstance(event, events.Progress):
            self._progress.update(self._task, description=event.phase, total=event.total, completed=event.done, amount=_amount(event))
        notice_to_stderr(event)

    def close(self) -> None:
        """Give the terminal back."""
        self._progress.stop()


def printer_for(*, json: bool) -> Printer:
    """The printer that fits stdout."""
    if json:
        return JsonPrinter()
    # On a terminal that cannot go back in a line, such as one in an editor (TERM=dumb), Rich shows no bar before the end.
    return BarPrinter() if sys.stdout.isatty() and Console().is_interactive else PlainPrinter()
