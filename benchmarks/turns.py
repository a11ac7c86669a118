"""Trainings that take turns: when all have begun, each goes on for a moment while the others are stopped.

So a machine whose speed drifts moves all of them alike, and one start gives many pairs.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import psutil

from benchmarks.programs import (
    AS_NICE,
    AS_TORCH_HAS_IT,
    ENDLESS,
    HERE,
    SKIPPED_STEPS,
    Screen,
    Training,
    device_times,
    end_all,
    loop_command,
    runs_dir,
    script_command,
    started_by,
    step_times,
)

POLL_SECONDS = 0.1
SETTLE_SECONDS = 0.1
"""After it goes on: the step that was interrupted does not count anyway."""
SCREEN_SETTLE_SECONDS = 0.5
"""A screen paints itself anew."""
START_SECONDS = 120.0
ENDING_SECONDS = 20.0


@dataclass(frozen=True)
class Trainee:
    """A program that trains until it is told to end.

    Attributes:
        command: starts it.
        times: when it made each step so far, Unix seconds.
        skipped: how many steps at the beginning do not count.
        env: variables for it.
        on_screen: it has a terminal of 120×40, and not pipes.
        in_group: its processes form a group, which begins anew if it stands still until all others have begun.
    """

    command: Sequence[str]
    times: Callable[[], list[float]]
    skipped: int
    env: Mapping[str, str] = field(default_factory=dict)
    on_screen: bool = False
    in_group: bool = False


@dataclass(frozen=True)
class Phase:
    """Some rounds of turns.

    Attributes:
        turns: how many each takes, every second time in reverse.
        seconds: how long one is.
        settle: how long each has gone on before it.
        first: how many of the trainings take part, the first of them; the others stand still.
        beside: what goes on meanwhile.
    """

    turns: int
    seconds: float
    settle: float = SETTLE_SECONDS
    first: int | None = None
    beside: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True)
class Turn:
    """What one did in a turn: seconds per step, and bytes per second that went to its terminal."""

    step: float
    sent: float


@contextmanager
def tuitrain(training: Training, *, in_app: bool = False) -> Iterator[Trainee]:
    """`tuitrain run` in a pipe, or inside the app."""
    with runs_dir() as (folder, env):
        command = training.command("--epochs", str(training.steps), *(["--tui"] if in_app else []))
        read = device_times if "cuda" in training.device else step_times
        times, env = partial(_kept_times, folder, read), {**env, **training.env}
        yield Trainee(command, times, training.skipped, env, on_screen=in_app, in_group="ddp" in command)


@contextmanager
def plain_loop(training: Training, *, bar: bool = False) -> Iterator[Trainee]:
    """The plain loop that does the same as `training`; with a `bar`, rich's progress bar on a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "times"
        nice, more = ([], ["--bar"]) if bar else (AS_NICE, [])
        command = [*nice, *loop_command(training, file, *more)]
        yield Trainee(command, lambda: lines_of(file), training.skipped, AS_TORCH_HAS_IT, on_screen=bar)


@contextmanager
def plain_script(images: Path, device: str = "cpu") -> Iterator[Trainee]:
    """The tutorial's script on a folder of images."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "times"
        command = [*script_command(images, ENDLESS), "--device", device, "--times", str(file)]
        yield Trainee(command, lambda: lines_of(file), SKIPPED_STEPS)


def in_turns(trainees: Sequence[AbstractContextManager[Trainee]], turns: int, seconds: float) -> list[tuple[Turn, ...]]:
    """What each did in each of its turns; every second time they take them in reverse.

    Raises:
        RuntimeError: as `in_phases`.
    """
    return in_phases(trainees, [Phase(turns, seconds)])[0]


def in_phases(trainees: Sequence[AbstractContextManager[Trainee]], phases: Sequence[Phase]) -> list[list[tuple[Turn, ...]]]:
    """What each did in its turns, phase by phase; all phases share one start.

    Raises:
        RuntimeError: one ended by itself, began no training, or too often made no whole step in a turn, see `whole_rounds`.
    """
    with ExitStack() as folders:
        entered = [folders.enter_context(trainee) for trainee in trainees]
        with ExitStack() as stack:
            started = [stack.enter_context(_started(trainee)) for trainee in entered]
            _begin(entered, started)
            spans = [_spans(phase, entered[: phase.first], started[: phase.first]) for phase in phases]
        times = [trainee.times() for trainee in entered]
    return [whole_rounds(of_phase, times[: phase.first]) for phase, of_phase in zip(phases, spans, strict=True)]


def whole_rounds(spans: Sequence[Mapping[int, Span]], times: Sequence[Sequence[float]]) -> list[tuple[Turn, ...]]:
    """The rounds in which each made a step: `spans` of all by round, and the `times` of their steps.

    A shared machine stands still for more than a turn now and then; what nobody can tell of one is left out for all.

    Raises:
        RuntimeError: that were more than a third of the rounds.
    """
    rounds: list[tuple[Turn, ...]] = []
    without: RuntimeError | None = None
    for span in spans:
        try:
            rounds.append(tuple(Turn(seconds_per_step(moments, *span[which][:2]), span[which].sent) for which, moments in enumerate(times)))
        except RuntimeError as error:
            without = error
    if without is not None and 3 * len(rounds) < 2 * len(spans):
        raise without
    return rounds


def seconds_per_step(moments: Sequence[float], begin: float, end: float) -> float:
    """The mean of the steps that were begun and ended between two moments.

    Raises:
        RuntimeError: there is none.
    """
    inside = [moment for moment in moments if begin <= moment <= end]
    if len(inside) < 2:
        raise RuntimeError(f"no whole step in a turn of {end - begin:.1f} s")
    return (inside[-1] - inside[0]) / (len(inside) - 1)


class Span(NamedTuple):
    """A turn: when it began and ended, Unix seconds, and bytes per second that went to the terminal."""

    begin: float
    end: float
    sent: float


class _Program(Protocol):
    """One that was started."""

    pid: int

    def wait(self, seconds: float) -> int:
        """Let so much time pass; how many bytes went to its terminal."""

    def ended(self) -> bool:
        """It is not there any more."""

    def close(self) -> None:
        """End it."""


class _Piped:
    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        null = subprocess.DEVNULL
        self._process = subprocess.Popen(list(command), env={**os.environ, **env}, cwd=HERE.parent, stdout=null, stderr=null)
        self.pid = self._process.pid

    def wait(self, seconds: float) -> int:
        time.sleep(seconds)
        return 0

    def ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        family = started_by(self.pid)
        self._process.terminate()
        try:
            self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        end_all(family)


class _OnScreen:
    """Its output is not drawn: a person's terminal is on another machine and takes nothing of this one."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._screen = Screen(list(command), dict(env))
        self.pid: int = self._screen.child.pid
        self.wait = self._screen.discard
        self.close = self._screen.close

    def ended(self) -> bool:
        return not self._screen.child.isalive()


@contextmanager
def _started(trainee: Trainee) -> Iterator[_Program]:
    program: _Program = (_OnScreen if trainee.on_screen else _Piped)(trainee.command, trainee.env)
    try:
        yield program
    finally:
        _tell(program, signal.SIGCONT)
        program.close()


def _begin(trainees: Sequence[Trainee], started: Sequence[_Program]) -> None:
    """Wait until all have made their first steps, and stop each, so that those which have not begun yet have the processor."""
    waited, end = list(zip(trainees, started, strict=True)), time.monotonic() + START_SECONDS
    while waited:
        for trainee, program in list(waited):
            if len(trainee.times()) > trainee.skipped:
                waited.remove((trainee, program))
                if not trainee.in_group:
                    _tell(program, signal.SIGSTOP)
            elif program.ended() or time.monotonic() > end:
                raise RuntimeError(f"{' '.join(trainee.command)} did not begin to train")
            else:
                program.wait(POLL_SECONDS)
    for program in started:
        _tell(program, signal.SIGSTOP)


def _spans(phase: Phase, trainees: Sequence[Trainee], started: Sequence[_Program]) -> list[dict[int, Span]]:
    """The turns of one phase, round by round."""
    spans = []
    with phase.beside():
        for turn in range(phase.turns):
            order = range(len(started)) if turn % 2 == 0 else reversed(range(len(started)))
            spans.append({which: _let(trainees[which], started[which], phase) for which in order})
    return spans


def _let(trainee: Trainee, program: _Program, phase: Phase) -> Span:
    """Let it go on for so long, after it has found back."""
    _tell(program, signal.SIGCONT)
    program.wait(max(phase.settle, SCREEN_SETTLE_SECONDS if trainee.on_screen else 0.0))
    begin = time.time()
    sent = program.wait(phase.seconds)
    if program.ended():
        raise RuntimeError("a training ended before its turns were over")
    end = time.time()
    _tell(program, signal.SIGSTOP)
    return Span(begin, end, sent / (end - begin))


def _tell(program: _Program, number: signal.Signals) -> None:
    """A signal to the program and all that it started, as the ranks of a group."""
    if not program.ended():
        for each in (psutil.Process(program.pid), *started_by(program.pid)):
            each.send_signal(number)


def lines_of(file: Path) -> list[float]:
    """The numbers in a file that may not be there yet."""
    return [float(line) for line in file.read_text().splitlines()] if file.exists() else []


def _kept_times(folder: Path, read: Callable[[Path], list[float]]) -> list[float]:
    try:
        return read(folder) if any(folder.glob("*/metrics.sqlite")) else []
    except sqlite3.OperationalError:  # a moment in which it has no tables yet
        return []
