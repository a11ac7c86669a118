"""Steps per second: against the tutorial's script, against a plain loop with its data in memory, and with a screen."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from benchmarks.machine import describe
from benchmarks.pairs import Figure, Wanted, figure, measure, middle, rounds
from benchmarks.programs import (
    SHORT_SPIN,
    Screen,
    Training,
    busy_neighbour,
    headless,
    in_app,
    loop_command,
    plain,
    plain_loop,
    runs_dir,
)

STEPS = 100
APP_STEPS = 150
SMALL = "benchmarks.small_data:make_data"
IN_MEMORY = {
    "seed-cnn": Training(SMALL, 200),
    "transformer": Training(SMALL, 120, recipe="transformer"),
    # As large a batch as lets a step take some tenths of a second.
    "resnet18": Training(SMALL, 22, ("--batch-size", "16"), recipe="resnet18", skipped=4),
}


def app_speed(wanted: Wanted) -> list[Figure]:
    """Steps per second inside the app against the same run without a screen, on a quiet machine and beside a busy process."""
    training = Training(str(wanted.data), APP_STEPS)
    quiet = measure(partial(in_app, training), partial(headless, training), wanted.pairs)
    with busy_neighbour():
        busy = measure(partial(in_app, training), partial(headless, training), wanted.pairs, warmup=0)
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


def plain_speed(wanted: Wanted) -> list[Figure]:
    """`tuitrain run seed-cnn` in fp32 and bf16 against the tutorial's script."""
    precisions = {"fp32": 1.5, "bf16": 2.0}
    runs = [Training(str(wanted.data), STEPS, ("--precision", precision)) for precision in precisions]
    takers: list[Callable[[], float]] = [partial(plain, wanted.data, STEPS), *(partial(headless, run) for run in runs)]
    taken = rounds(takers, wanted.pairs)
    lines = []
    for place, (precision, least) in enumerate(precisions.items(), 1):
        without = precision == "bf16" and not describe()["bf16_instructions"]
        lines.append(
            figure(
                f"training speed, CPU, {precision}",
                [each[0] / each[place] for each in taken],
                ours=f"{middle([1000 * each[place] for each in taken]):.1f} ms/step",
                peer=f"{middle([1000 * each[0] for each in taken]):.1f} ms/step, plain script in fp32",
                least=least,
                note="this CPU has no bf16 instructions" if without else "",
            )
        )
    return lines


def on_device_loop(wanted: Wanted) -> list[Figure]:
    """`tuitrain run` against a plain loop with the data in memory that does the same."""
    lines = []
    for recipe, training in IN_MEMORY.items():
        quiet = Training(training.data, training.steps, (*training.options, "--set", "augment=none"), recipe, skipped=training.skipped)
        taken = measure(partial(headless, quiet), partial(plain_loop, training), wanted.pairs, warmup=0)
        lines.append(
            figure(
                f"{recipe}, data in memory, CPU",
                [b / a for a, b in taken],
                ours=f"{middle([1000 * a for a, _ in taken]):.1f} ms/step",
                peer=f"{middle([1000 * b for _, b in taken]):.1f} ms/step, plain loop",
                least=0.98,
            )
        )
    return lines


def rich_bar(wanted: Wanted) -> list[Figure]:
    """Training in the app beside the plain loop with rich's progress bar over its batches: speed, and bytes to the terminal."""
    training = Training(SMALL, 300)
    ours: list[float] = []
    bar: list[float] = []
    taken = measure(partial(_counted_app, training, ours), partial(_counted_bar, training, bar), wanted.pairs, warmup=0)
    return [
        figure(
            "training in the app, against rich's progress bar, CPU",
            [b / a for a, b in taken],
            ours=f"{middle([1 / a for a, _ in taken]):.1f} steps/s",
            peer=f"{middle([1 / b for _, b in taken]):.1f} steps/s, loop with rich's bar",
            least=0.95,
        ),
        figure(
            "terminal output of a run's first steps, against rich's progress bar",
            [a / b for a, b in zip(ours, bar, strict=True)],
            ours=f"{middle(ours):.0f} B/s",
            peer=f"{middle(bar):.0f} B/s, rich's bar",
            most=1.0,
        ),
    ]


def _counted_app(training: Training, rates: list[float]) -> float:
    with runs_dir() as (folder, env):
        screen = Screen(training.command("--tui"), env)
        try:
            begin, before = screen.until_sent(b"64, 3, 32, 32", seconds=120), screen.received
            seconds = screen.until_sent(b"finished", seconds=600) - begin
            rates.append((screen.received - before) / seconds)
            screen.child.send("q")
            screen.rest()
        finally:
            screen.close()
        return training.seconds_per_step(folder)


def _counted_bar(training: Training, rates: list[float]) -> float:
    screen = Screen(loop_command(training, "--bar"), SHORT_SPIN)
    try:
        seconds = float(re.findall(rb"\d+\.\d+", screen.rest())[-1])
        rates.append(screen.received / (seconds * training.steps))
    finally:
        screen.close()
    return seconds
