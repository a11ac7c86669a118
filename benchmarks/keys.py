"""How soon a key is answered, and how late the event loop is, while training uses every core."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.pairs import Figure, Wanted, percentile
from benchmarks.programs import TUITRAIN, Screen, busy_neighbour, runs_dir
from tuitrain.paths import METRICS, STATE

KEYS = (("l", b"log"), ("l", b"linear"), ("+", b"smoothing"), ("-", b"smoothing"), ("?", b"themes"), ("?", None))
"""Keys of the training view, and what each answer holds: two labels, and a dialog over the screen. What closing it brings has no words."""
STEADY_KEYS = 78
STEADY_PAUSED_KEYS = 36
PAUSED_KEYS = 30
BEFORE_PAUSE = 18
AFTER_END = 24
MOST_KEYS = 3000
"""A run that has not ended by then never will."""
TRAIN_IMAGES, TEST_IMAGES = 400, 200
"""Of each class."""
BUSY_RUN = ("--epochs", "3", "--set", "checkpoint_every_steps=20")
ENDLESS = ("--epochs", "1000000", "--max-steps", "1000000")
PASSING_SECONDS = 1.0
"""After a key that changes the run's state, what comes belongs to neither side."""


class Typist:
    """Presses `KEYS`, over and over, at a person's pace."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._generator = random.Random(0)
        self._pressed = 0

    def press(self) -> list[float]:
        """Press the next one; seconds from writing it to the bytes that answer it, or nothing where no words do."""
        key, answer = KEYS[self._pressed % len(KEYS)]
        self._pressed += 1
        sent = time.perf_counter()
        self._screen.child.send(key)
        delays = [] if answer is None else [self._screen.until_sent(answer) - sent]
        # What else the key brings, such as a new curve, comes meanwhile.
        self._screen.discard(self._generator.uniform(0.08, 0.2))
        return delays

    def press_many(self, count: int) -> list[float]:
        """Press so many; whole rounds of `KEYS` leave no dialog open."""
        return [delay for _ in range(count) for delay in self.press()]

    def round_off(self) -> list[float]:
        """Press what is left of a round."""
        return self.press_many(-self._pressed % len(KEYS))


def key_to_paint(wanted: Wanted) -> list[Figure]:
    """While training and while paused; then from decoding to the end, evaluations and checkpoints between, alone and with a neighbour."""
    with runs_dir() as (_, env):
        training, paused = _steady_delays(wanted.data, env)
    lines = [_keys_line("key to paint, p95, while training", training, paused)]
    with few_images(wanted.data) as data:
        for beside, neighbour in (("", nullcontext), (", one busy neighbour", busy_neighbour)):
            whole = _whole_run(data, neighbour)
            lines.append(_keys_line(f"key to paint, p95, decoding to the end of a run{beside}", whole.keys, whole.paused_keys))
            lines.append(_lag_line(f"event-loop lag, p99, decoding to the end of a run{beside}", whole.lags, whole.paused_lags))
    return lines


def _keys_line(name: str, ours: list[float], paused: list[float]) -> Figure:
    return _line(name, ours, paused, 95, 50)


def _lag_line(name: str, ours: list[float], paused: list[float]) -> Figure:
    return _line(name, ours, paused, 99, 25)


def _line(name: str, ours: list[float], peer: list[float], percent: int, most: float) -> Figure:
    """A percentile of one against that of the other; `most` in ms."""
    mine, other = 1000 * percentile(ours, percent), 1000 * percentile(peer, percent)
    ratio = round(mine / other, 3)
    said, beside = f"{mine:.0f} ms (p50 {1000 * percentile(ours, 50):.0f})", f"{other:.0f} ms (p50 {1000 * percentile(peer, 50):.0f})"
    return Figure(name, said, f"{beside} while paused", ratio, ratio, ratio, f"≤ {most:g} ms", mine <= most, len(ours))


def _steady_delays(data: Path, env: dict[str, str]) -> tuple[list[float], list[float]]:
    screen = Screen([TUITRAIN, "run", "seed-cnn", "--device", "cpu", "--data", str(data), *ENDLESS, "--tui"], env)
    try:
        typist = Typist(screen)
        screen.wait(lambda text: "[64, 3, 32, 32]" in text)
        screen.discard(3.0)
        training = typist.press_many(STEADY_KEYS)
        screen.child.send(" ")
        screen.wait(lambda text: "paused" in text)
        screen.discard(3.0)
        return training, typist.press_many(STEADY_PAUSED_KEYS)
    finally:
        screen.close()


# -- a whole run --------------------------------------------------------------------------------------------------------------


@dataclass
class Whole:
    """Of a run from decoding to its end: the delays of keys and the lags of the event loop, and those while it was paused, in seconds."""

    keys: list[float] = field(default_factory=list)
    paused_keys: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    paused_lags: list[float] = field(default_factory=list)
    before_steps: int = 0
    """How many of `keys` came while it was being prepared."""


@contextmanager
def few_images(data: Path) -> Iterator[Path]:
    """A folder with some of the images: decoding them takes a second or two, and an epoch not much longer."""
    with tempfile.TemporaryDirectory() as folder:
        for part, count in (("train", TRAIN_IMAGES), ("test", TEST_IMAGES)):
            for kind in sorted((data / part).iterdir()):
                into = Path(folder) / part / kind.name
                into.mkdir(parents=True)
                for image in sorted(kind.iterdir())[:count]:
                    (into / image.name).symlink_to(image)
        yield Path(folder)


def _whole_run(data: Path, neighbour: Callable[[], AbstractContextManager[None]]) -> Whole:
    with runs_dir() as (folder, env), tempfile.TemporaryDirectory() as cache, neighbour():
        file = Path(cache) / "lags.json"
        app = [sys.executable, "-m", "benchmarks.lag_app", str(file)]
        command = ["run", "seed-cnn", "--device", "cpu", "--data", str(data), *BUSY_RUN, "--tui"]
        # With a cache of its own it has everything to decode.
        screen = Screen([*app, *command], {**env, "XDG_CACHE_HOME": cache})
        try:
            whole, pause = _type_along(screen, folder)
            check_covered(next(folder.iterdir()), whole.before_steps)
            screen.child.send("q")
            screen.rest()
        finally:
            screen.close()
        for moment, lag in json.loads(file.read_text()):
            if not pause[0] <= moment <= pause[1] + PASSING_SECONDS:
                whole.lags.append(lag)
            elif pause[0] + PASSING_SECONDS <= moment <= pause[1]:
                whole.paused_lags.append(lag)
    return whole


def _type_along(screen: Screen, folder: Path) -> tuple[Whole, tuple[float, float]]:
    """Press keys from the first frame to after the end, and while paused once on the way; also when the pause began and ended."""
    whole, typist = Whole(), Typist(screen)
    screen.wait(lambda text: "the curve begins" in text)
    _wait_for(screen, folder, "running", typist, whole)
    whole.before_steps = len(whole.keys)
    whole.keys += typist.press_many(BEFORE_PAUSE)
    whole.keys += typist.round_off()
    begin = time.perf_counter()
    screen.child.send(" ")
    screen.discard(PASSING_SECONDS)
    whole.paused_keys += typist.press_many(PAUSED_KEYS)
    end = time.perf_counter()
    screen.child.send(" ")
    screen.discard(PASSING_SECONDS)
    _wait_for(screen, folder, "finished", typist, whole)
    whole.keys += typist.press_many(AFTER_END)
    whole.keys += typist.round_off()
    return whole, (begin, end)


def check_covered(run: Path, keys_before: int) -> None:
    """Whether keys were pressed through all that a run does.

    Raises:
        RuntimeError: its images were decoded before the first key, or there was no evaluation or no checkpoint.
    """
    with closing(sqlite3.connect(f"file:{run / METRICS}?mode=ro", uri=True)) as connection:
        counts = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("evals", "checkpoints")}
    absent = [what for what, there in {"keys while decoding": keys_before, **counts}.items() if not there]
    if absent:
        raise RuntimeError(f"the run that was typed along had no {' and no '.join(absent)}")


def _wait_for(screen: Screen, folder: Path, state: str, typist: Typist, whole: Whole) -> None:
    """Go on pressing keys until the run is in `state`."""
    for _ in range(MOST_KEYS):
        if any(json.loads(path.read_bytes())["state"] == state for path in folder.glob(f"*/{STATE}")):
            return
        whole.keys += typist.press()
    raise RuntimeError(f"the run was never {state}:\n{screen.text()}")
