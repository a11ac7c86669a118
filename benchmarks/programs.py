"""Starts `tuitrain` and its peers as whole programs, and reads what they did."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pyte

TUITRAIN = str(Path(sys.executable).with_name("tuitrain"))
HERE = Path(__file__).parent
SKIPPED_STEPS = 20


class Screen:
    """A program in a pseudo-terminal of a given size."""

    def __init__(self, argv: list[str], env: dict[str, str], columns: int = 120, rows: int = 40) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.begin = time.perf_counter()
        full = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **env}
        self.child = pexpect.spawn(argv[0], argv[1:], dimensions=(rows, columns), env=full, timeout=5)
        # pexpect's own default waits 50 ms before each key.
        self.child.delaybeforesend = None
        # A program that is killed while it maps a large library takes more than pexpect's 0.1 s to be gone.
        self.child.delayafterterminate = self.child.ptyproc.delayafterterminate = 2.0

    def text(self) -> str:
        """The screen's lines."""
        return "\n".join(self._screen.display)

    def read(self, seconds: float) -> bool:
        """Take in one piece of output, waiting at most `seconds`; `False` when the program has ended."""
        try:
            data = self.child.read_nonblocking(65536, timeout=seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self._stream.feed(data)
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
                held += self.child.read_nonblocking(65536, timeout=end - time.perf_counter())
            except pexpect.TIMEOUT:
                raise RuntimeError(f"{markers!r} were not sent within {seconds} s") from None
        return time.perf_counter()

    def discard(self, seconds: float) -> int:
        """Take in output for `seconds` without drawing it; how many bytes came."""
        end, count = time.perf_counter() + seconds, 0
        while (left := end - time.perf_counter()) > 0:
            try:
                count += len(self.child.read_nonblocking(65536, timeout=left))
            except pexpect.TIMEOUT:
                break
        return count

    def close(self) -> None:
        """End the program, whatever it does."""
        self.child.close(force=True)


@contextmanager
def runs_dir() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder for runs that goes away again, and the environment that points to it and to a state folder beside it.

    The cache of decoded data stays the person's own.
    """
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        yield runs, {"TUITRAIN_RUNS": str(runs), "XDG_STATE_HOME": str(Path(folder) / "state")}


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """Another process that uses a whole core."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def seconds_per_step(folder: Path) -> float:
    """From the only run in `folder`: mean seconds per step without the first steps, by the clock that the engine kept."""
    database = next(folder.glob("*/metrics.sqlite"))
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        (first, begin), (last, end) = (
            connection.execute(f"SELECT step, time FROM losses WHERE step > ? ORDER BY step {order} LIMIT 1", (SKIPPED_STEPS,)).fetchone()
            for order in ("ASC", "DESC")
        )
    finally:
        connection.close()
    return float((end - begin) / (last - first))


def headless(data: str, steps: int, *options: str) -> float:
    """`tuitrain run seed-cnn` in a pipe: seconds per step."""
    with runs_dir() as (folder, env):
        command = [TUITRAIN, "run", "seed-cnn", "--device", "cpu", "--data", data, "--max-steps", str(steps), *options]
        subprocess.run(command, env={**os.environ, **env}, capture_output=True, check=True)
        return seconds_per_step(folder)


def in_app(data: str, steps: int) -> float:
    """The same run inside the app at 120×40: seconds per step."""
    with runs_dir() as (folder, env):
        screen = Screen([TUITRAIN, "run", "seed-cnn", "--device", "cpu", "--data", data, "--max-steps", str(steps), "--tui"], env)
        try:
            # Not drawn: a person's terminal is on another machine and takes nothing of this one.
            screen.until_sent(b"finished", seconds=600)
            screen.child.send("q")
            while screen.read(0.1):
                pass
        finally:
            screen.close()
        return seconds_per_step(folder)


def plain(folder: Path, steps: int) -> float:
    """The tutorial's script on the same images: seconds per step."""
    command = [sys.executable, str(HERE / "plain_script.py"), str(folder), "--max-steps", str(steps), "--skip", str(SKIPPED_STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["seconds_per_step"])
