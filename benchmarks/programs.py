"""Starts `tuitrain` and its peers as whole programs, and reads what they did."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pexpect
import psutil
import pyte

T = TypeVar("T")

TUITRAIN = str(Path(sys.executable).with_name("tuitrain"))
HERE = Path(__file__).parent
SKIPPED_STEPS = 20
BATCH = 64
"""Samples in a batch of the recipes that are timed on a GPU, all of them whole."""
ENDLESS = 1_000_000
ENDING_SECONDS = 5.0
PATIENCE_SECONDS = 60.0


class Screen:
    """A program in a pseudo-terminal of a given size."""

    def __init__(self, argv: list[str], env: dict[str, str], columns: int = 120, rows: int = 40) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.received = 0
        """How many bytes the program has written so far."""
        self.begin = time.perf_counter()
        full = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **env}
        self.child = pexpect.spawn(argv[0], argv[1:], dimensions=(rows, columns), env=full, timeout=5, cwd=HERE.parent)
        # pexpect's own default waits 50 ms before each key.
        self.child.delaybeforesend = None
        # A program that is killed while it maps a large library takes more than pexpect's 0.1 s to be gone.
        self.child.delayafterterminate = self.child.ptyproc.delayafterterminate = 2.0

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size; the program is told."""
        self._screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def text(self) -> str:
        """The screen's lines."""
        return "\n".join(self._screen.display)

    def read(self, seconds: float) -> bool:
        """Take in one piece of output, waiting at most `seconds`; `False` when the program has ended."""
        try:
            self._stream.feed(self._take(seconds))
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        return True

    def wait(self, shown: Callable[[str], bool], seconds: float = 120) -> float:
        """Read until `shown(text)`; the moment it was."""
        end = time.perf_counter() + seconds
        while not shown(self.text()):
            if not self.read(0.05) or time.perf_counter() > end:
                raise RuntimeError(f"the screen never showed what was waited for:\n{self.text()}")
        return time.perf_counter()

    def until_sent(self, *markers: bytes, seconds: float = 20) -> float:
        """Take in output, without drawing it, until it holds all of `markers`; the moment it did."""
        held, end = b"", time.perf_counter() + seconds
        while not all(marker in held for marker in markers):
            try:
                held += self._take(max(end - time.perf_counter(), 0))
            except (pexpect.TIMEOUT, pexpect.EOF):
                raise RuntimeError(f"{markers!r} were not sent within {seconds} s, but {held[-500:]!r}") from None
        return time.perf_counter()

    def discard(self, seconds: float) -> int:
        """Take in output for `seconds` without drawing it; how many bytes came."""
        end, before = time.perf_counter() + seconds, self.received
        while (left := end - time.perf_counter()) > 0:
            try:
                self._take(left)
            except pexpect.TIMEOUT:
                break
        return self.received - before

    def rest(self) -> bytes:
        """What is sent until the program ends."""
        held, end = b"", time.perf_counter() + PATIENCE_SECONDS
        while True:
            try:
                held += self._take(max(end - time.perf_counter(), 0))
            except pexpect.EOF:
                return held
            except pexpect.TIMEOUT:
                raise RuntimeError(f"the program did not end within {PATIENCE_SECONDS:.0f} s, but sent {held[-500:]!r}") from None

    def close(self) -> None:
        """End the program, whatever it does: as one is asked to, and by force where it has not ended within `ENDING_SECONDS`.

        What it started and left behind is ended too: W&B LEET draws in a process that would go on beside all that is measured later.
        """
        family = started_by(self.child.pid)
        if self.child.isalive():
            self.child.kill(signal.SIGTERM)
        end = time.perf_counter() + ENDING_SECONDS
        while self.child.isalive() and time.perf_counter() < end:
            if not self.read(0.02):
                time.sleep(0.01)
        self.child.close(force=True)
        end_all(family)

    def _take(self, seconds: float) -> bytes:
        data: bytes = self.child.read_nonblocking(65536, timeout=seconds)
        self.received += len(data)
        return data


def started_by(pid: int) -> list[psutil.Process]:
    """What a process has started, and what that has; nothing where it is gone."""
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def end_all(processes: Sequence[psutil.Process]) -> None:
    """By force, where they have not ended."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@contextmanager
def runs_dir() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder for runs that goes away again, and the environment that points to it and to a state folder beside it.

    The cache of decoded data stays the person's own.
    """
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        yield runs, {"TUITRAIN_RUNS": str(runs), "XDG_STATE_HOME": str(Path(folder) / "state")}


def side_by_side(takers: Sequence[Callable[[], T]]) -> list[T]:
    """What each gives, all at the same time: for looking at programs that were started before, because a fork among threads may hang."""
    with ThreadPoolExecutor(len(takers)) as pool:
        return [future.result() for future in [pool.submit(take) for take in takers]]


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """Another process that uses a whole core."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Training:
    """A run to take the time of.

    Attributes:
        data: a folder, "synthetic", or an import string that is found from the root of this repository.
        steps: how many it makes; without a number, more than anyone waits for.
        skipped: how many steps at the beginning do not count: they choose kernels and fill caches.
        env: variables for its process.
    """

    data: str
    steps: int = ENDLESS
    options: tuple[str, ...] = ()
    recipe: str = "seed-cnn"
    device: str = "cpu"
    skipped: int = SKIPPED_STEPS
    env: Mapping[str, str] = field(default_factory=dict)

    def command(self, *more: str) -> list[str]:
        """The `tuitrain run` line."""
        what = ["--device", self.device, "--data", self.data, "--max-steps", str(self.steps)]
        return [TUITRAIN, "run", self.recipe, *what, *self.options, *more]

    def seconds_per_step(self, folder: Path) -> float:
        """From the only run in `folder`: the mean of the steps that count, by the clock that the engine kept."""
        counted = step_times(folder)[self.skipped :]
        return (counted[-1] - counted[0]) / (len(counted) - 1)


def step_times(folder: Path) -> list[float]:
    """When the host made each step of the only run in `folder`, Unix seconds."""
    return [moment for (moment,) in metrics(folder, "SELECT time FROM losses ORDER BY step")]


def device_times(folder: Path) -> list[float]:
    """When its device had done each step, as far as that is told, Unix seconds; the host may be a quarter of a second ahead of a GPU.

    An epoch begins on a GPU that has nothing to do, so with the host; from there on the rates tell it, which are of the GPU's own clock.
    """
    moments: list[float] = []
    waiting: list[float] = []
    began = 0
    kept = "SELECT epoch, time, samples_per_second FROM losses LEFT JOIN step_events USING (step) ORDER BY step"
    for epoch, moment, rate in metrics(folder, kept):
        waiting.append(moment)
        if rate is None:
            continue
        begin, began = moments[-1] if epoch == began else waiting[0], epoch
        moments += [begin + place * BATCH / rate for place in range(1, len(waiting) + 1)]
        waiting.clear()
    return moments


def metrics(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """The answer of the metrics of the only run in `folder`."""
    connection = sqlite3.connect(f"file:{next(folder.glob('*/metrics.sqlite'))}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def output_of(command: list[str], env: Mapping[str, str] | None = None) -> str:
    """What a program prints; it is started in the root of this repository.

    Raises:
        RuntimeError: it fails; the text has its last words.
    """
    done = subprocess.run(command, env={**os.environ, **(env or {})}, cwd=HERE.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise RuntimeError(f"{Path(command[0]).name} ended with {done.returncode}: {' '.join(words)}")
    return done.stdout


def seconds_of(command: list[str], env: Mapping[str, str] | None = None) -> float:
    """How long `output_of` takes."""
    begin = time.perf_counter()
    output_of(command, env)
    return time.perf_counter() - begin


def headless(training: Training) -> float:
    """`tuitrain run` in a pipe: seconds per step."""
    with runs_dir() as (folder, env):
        output_of(training.command(), {**env, **training.env})
        return training.seconds_per_step(folder)


def script_command(folder: Path, steps: int) -> list[str]:
    """The line that starts `plain_script.py` on the images in `folder`."""
    return [sys.executable, str(HERE / "plain_script.py"), str(folder), "--max-steps", str(steps), "--skip", str(SKIPPED_STEPS)]


AS_NICE = ["nice", "-n", "10"]
"""As `tuitrain` trains: without, a plain script has more of a processor than it where another process is busy."""


AS_TORCH_HAS_IT = {"THP_MEM_ALLOC_ENABLE": "0"}
"""For a plain program that has its network from the engine, which has torch ask for huge pages."""


def loop_command(training: Training, file: Path, *more: str) -> list[str]:
    """The line that starts `plain_loop.py` in this repository's root; `file` gets the moments of its steps."""
    what = [training.recipe, training.data, str(file), "--steps", str(training.steps), "--device", training.device]
    return [sys.executable, "-m", "benchmarks.plain_loop", *what, *training.options, *more]
