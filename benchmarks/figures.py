"""The figures, by name. Each takes the folder of images and the number of pairs."""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.machine import describe
from benchmarks.monitor import monitor, sample_cost
from benchmarks.pairs import Figure, figure, measure, middle
from benchmarks.programs import HERE, TUITRAIN, Screen, busy_neighbour, headless, in_app, plain, runs_dir

STEPS = 100
APP_STEPS = 150


def first_frame(data: Path, pairs: int) -> list[Figure]:
    """From starting the program to recipe and device names on the screen, against a Textual app with one word on it."""

    def ours() -> float:
        with runs_dir() as (_, env):
            return _until([TUITRAIN], env, b"seed-cnn", b"cpu")

    def empty() -> float:
        return _until([sys.executable, str(HERE / "empty_app.py")], {}, b"ready")

    taken = measure(ours, empty, max(pairs, 10), warmup=2)
    return [
        figure(
            "first frame (120×40)",
            [a / b for a, b in taken],
            ours=f"{middle([a for a, _ in taken]):.2f} s",
            peer=f"{middle([b for _, b in taken]):.2f} s, empty Textual app",
            most=2.0,
        )
    ]


def _until(argv: list[str], env: dict[str, str], *markers: bytes) -> float:
    screen = Screen(argv, env)
    try:
        return screen.until_sent(*markers) - screen.begin
    finally:
        screen.close()


def app_speed(data: Path, pairs: int) -> list[Figure]:
    """Steps per second inside the app against the same run without a screen, on a quiet machine and beside a busy process."""
    quiet = measure(lambda: in_app(str(data), APP_STEPS), lambda: headless(str(data), APP_STEPS), pairs)
    with busy_neighbour():
        busy = measure(lambda: in_app(str(data), APP_STEPS), lambda: headless(str(data), APP_STEPS), pairs, warmup=0)
    return [
        figure(
            f"training in the app, CPU{beside}",
            [b / a for a, b in taken],
            ours=f"{middle([1 / a for a, _ in taken]):.1f} steps/s",
            peer=f"{middle([1 / b for _, b in taken]):.1f} steps/s headless",
            least=0.95,
        )
        for beside, taken in (("", quiet), (", one busy neighbour", busy))
    ]


def plain_speed(data: Path, pairs: int) -> list[Figure]:
    """`tuitrain run seed-cnn` against the tutorial's script, fp32 and bf16."""
    lines = []
    for precision, least in (("fp32", 1.5), ("bf16", 2.0)):
        taken = measure(lambda p=precision: headless(str(data), STEPS, "--precision", p), lambda: plain(data, STEPS), pairs)  # type: ignore[misc]
        without = precision == "bf16" and not describe()["bf16_instructions"]
        lines.append(
            figure(
                f"training speed, CPU, {precision}",
                [b / a for a, b in taken],
                ours=f"{middle([1000 * a for a, _ in taken]):.1f} ms/step",
                peer=f"{middle([1000 * b for _, b in taken]):.1f} ms/step, plain script in fp32",
                least=least,
                note="this CPU has no bf16 instructions" if without else "",
            )
        )
    return lines


KEYS = (("l", b"log"), ("l", b"linear"), ("+", b"smoothing"), ("-", b"smoothing"), ("?", b"themes"), ("?", None))
"""Keys of the training view, and what each answer holds: two labels, and a dialog over the screen. What closing it brings has no words."""


def key_to_paint(data: Path, pairs: int) -> list[Figure]:
    """From writing a key to the bytes that answer it, while CPU training uses every core, beside the same app with its run paused."""
    training, paused = _key_delays(data, paused=False), _key_delays(data, paused=True)
    ours, peer = _percentile(training, 95), _percentile(paused, 95)
    return [
        Figure(
            "key to paint, p95, while training",
            f"{1000 * ours:.0f} ms (p50 {1000 * statistics.median(training):.0f})",
            f"{1000 * peer:.0f} ms (p50 {1000 * statistics.median(paused):.0f}) while paused",
            round(ours / peer, 3),
            round(ours / peer, 3),
            round(ours / peer, 3),
            "≤ 50 ms",
            ours <= 0.05,
            len(training),
        )
    ]


def _key_delays(data: Path, *, paused: bool, keys: int = 240) -> list[float]:
    """Seconds from writing each of `KEYS`, over and over, to the bytes that answer it."""
    generator = random.Random(0)
    delays = []
    with runs_dir() as (_, env):
        screen = Screen([TUITRAIN, "run", "seed-cnn", "--device", "cpu", "--data", str(data), "--tui"], env)
        try:
            screen.wait(lambda text: "[64, 3, 32, 32]" in text)
            if paused:
                screen.child.send(" ")
                screen.wait(lambda text: "paused" in text)
            screen.discard(3.0)
            for index in range(keys):
                key, answer = KEYS[index % len(KEYS)]
                sent = time.perf_counter()
                screen.child.send(key)
                if answer is not None:
                    delays.append(screen.until_sent(answer) - sent)
                # A person's pace; what else the key brings, such as a new curve, comes meanwhile.
                screen.discard(generator.uniform(0.08, 0.2))
        finally:
            screen.close()
    return delays


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def terminal_bytes(data: Path, pairs: int) -> list[Figure]:
    """What the terminal gets while training, on average over half a minute, once the axes have grown past the first steps."""
    lines = []
    for columns, rows, most in ((120, 40, 1000), (80, 24, 500)):
        with runs_dir() as (_, env):
            screen = Screen([TUITRAIN, "run", "seed-cnn", "--device", "cpu", "--data", str(data), "--tui"], env, columns, rows)
            try:
                screen.wait(lambda text: "[64, 3, 32, 32]" in text)
                screen.discard(40.0)
                rate = screen.discard(30.0) / 30
            finally:
                screen.close()
        lines.append(
            Figure(
                f"terminal output while training, {columns}×{rows}",
                f"{rate:.0f} B/s",
                "-",
                round(rate),
                round(rate),
                round(rate),
                f"≤ {most} B/s",
                rate <= most,
                1,
            )
        )
    return lines


ALL: dict[str, Callable[[Path, int], list[Figure]]] = {
    "first-frame": first_frame,
    "app-speed": app_speed,
    "plain-speed": plain_speed,
    "key-to-paint": key_to_paint,
    "terminal-bytes": terminal_bytes,
    "monitor": monitor,
    "sample-cost": sample_cost,
}
