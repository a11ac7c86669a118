"""Leaving the app while its run goes on in the background: how long until the prompt is back."""

from __future__ import annotations

import time

from benchmarks.pairs import Figure, Wanted, alone, middle
from benchmarks.programs import TUITRAIN, Screen, Training, output_of, runs_dir

MOST_SECONDS = 5.0
MOST_TIMES = 2
STEPS = 1_000_000
KINDS = {"single": Training("synthetic", STEPS), "ddp, two ranks": Training("synthetic", STEPS, ("--strategy", "ddp"), device="cpu,cpu")}


def hand_over(wanted: Wanted) -> list[Figure]:
    """From the answer to the prompt, for a run in the app's own process and for one with ranks."""
    lines = []
    for name, training in KINDS.items():
        taken = [_seconds(training) for _ in range(min(wanted.pairs, MOST_TIMES))]
        shown = f"{middle(taken):.2f} s ({min(taken):.2f} to {max(taken):.2f})"
        lines.append(alone(f"handed over to the background, {name}", middle(taken), most=MOST_SECONDS, unit="s", ours=shown))
    return lines


def _seconds(training: Training) -> float:
    with runs_dir() as (_, env):
        screen = Screen(training.command("--epochs", "1000000", "--tui"), env)
        try:
            screen.wait(lambda text: " 3, 32, 32]" in text)
            screen.child.send("q")
            screen.wait(lambda text: "Keep running in the background" in text)
            begin = time.perf_counter()
            screen.child.send("\x1b[B\r")
            screen.rest()
            return time.perf_counter() - begin
        finally:
            # Before the screen is closed, which ends all that the app has left behind.
            output_of([TUITRAIN, "stop", "last"], env)
            screen.close()
