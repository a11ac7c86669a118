"""Steps per second: against the tutorial's script, against a plain loop with its data in memory, and with a screen."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from benchmarks.machine import describe
from benchmarks.pairs import Figure, Wanted, figure, measure, middle, rounds, speed
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
BUSY_STEPS = 80
APP_STEPS = 200
SMALL = "benchmarks.small_data:make_data"
IN_MEMORY = {
    "seed-cnn": Training(SMALL, 150),
    "transformer": Training(SMALL, 70, recipe="transformer"),
    # As large a batch as lets a step take some tenths of a second.
    "resnet18": Training(SMALL, 14, ("--batch-size", "16"), recipe="resnet18", skipped=4),
}


def app_speed(wanted: Wanted) -> list[Figure]:
    """Steps per second inside the app against the same run without a screen, on a quiet machine and beside a busy process; and against the
    plain loop with rich's progress bar over its batches, with what both send to the terminal."""
    training, fewer = Training(SMALL, APP_STEPS), Training(SMALL, BUSY_STEPS)
    sent: list[float] = []
    sent_bar: list[float] = []
    takers = [partial(_counted_app, training, sent), partial(headless, training), partial(_counted_bar, training, sent_bar)]
    app, alone, bar = zip(*rounds(takers, wanted.pairs, warmup=0), strict=True)
    with busy_neighbour():
        busy = measure(partial(in_app, fewer), partial(headless, fewer), wanted.pairs, warmup=0)
    name, beside_bar = "training in the app", "against rich's progress bar"
    return [
        speed(f"{name}, CPU", app, alone, what="headless", least=0.95, per_second=True),
        speed(f"{name}, CPU, one busy neighbour", *zip(*busy, strict=True), what="headless", least=0.95, per_second=True),
        speed(f"{name}, {beside_bar}, CPU", app, bar, what="loop with rich's bar", least=0.95, per_second=True),
        figure(
            f"terminal output of a run's first steps, {beside_bar}",
            [a / b for a, b in zip(sent, sent_bar, strict=True)],
            ours=f"{middle(sent):.0f} B/s",
            peer=f"{middle(sent_bar):.0f} B/s, rich's bar",
            most=1.0,
        ),
    ]


def plain_speed(wanted: Wanted) -> list[Figure]:
    """`tuitrain run seed-cnn` in fp32 and bf16 against the tutorial's script."""
    precisions = {"fp32": 1.5, "bf16": 2.0}
    runs = [Training(str(wanted.data), STEPS, ("--precision", precision)) for precision in precisions]
    takers: list[Callable[[], float]] = [partial(plain, wanted.data, STEPS), *(partial(headless, run) for run in runs)]
    taken = rounds(takers, wanted.pairs, warmup=0)
    lines = []
    for place, (precision, least) in enumerate(precisions.items(), 1):
        without = precision == "bf16" and not describe()["bf16_instructions"]
        lines.append(
            speed(
                f"training speed, CPU, {precision}",
                [each[place] for each in taken],
                [each[0] for each in taken],
                what="plain script in fp32",
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
        lines.append(speed(f"{recipe}, data in memory, CPU", *zip(*taken, strict=True), what="plain loop", least=0.98))
    return lines


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
