"""Steps per second: against the tutorial's script, against a plain loop with its data in memory, and with a screen."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.machine import describe
from benchmarks.pairs import Figure, Wanted, figure, middle, speed
from benchmarks.programs import Training, busy_neighbour
from benchmarks.turns import Phase, in_phases, in_turns, plain_loop, plain_script, tuitrain

APP_TURN_SECONDS, LOOP_TURN_SECONDS, SCRIPT_TURN_SECONDS, LARGE_TURN_SECONDS = 1.5, 1.2, 2.5, 4.0
SCRIPT_SKIPPED = 5
"""Where bf16 is emulated a step takes most of a second."""
SMALL = "benchmarks.small_data:make_data"
IN_MEMORY = {
    "seed-cnn": Training(SMALL),
    "transformer": Training(SMALL, recipe="transformer"),
    # As large a batch as lets a step take some tenths of a second.
    "resnet18": Training(SMALL, options=("--batch-size", "16"), recipe="resnet18", skipped=4),
}


def app_speed(wanted: Wanted) -> list[Figure]:
    """Steps per second inside the app against the same run without a screen, on a quiet machine and beside a busy process; and against the
    plain loop with rich's progress bar over its batches, with what both send to the terminal."""
    training, quiet = Training(SMALL), Phase(2 * wanted.pairs, APP_TURN_SECONDS)
    beside = replace(quiet, first=2, beside=busy_neighbour)
    taken, busy = in_phases([tuitrain(training, in_app=True), tuitrain(training), plain_loop(training, bar=True)], [quiet, beside])
    name, beside_bar = "training in the app", "against rich's progress bar"
    lines = (
        (f"{name}, CPU", taken, 1, "headless"),
        (f"{name}, CPU, one busy neighbour", busy, 1, "headless"),
        (f"{name}, {beside_bar}, CPU", taken, 2, "loop with rich's bar"),
    )
    sent, sent_bar = ([each[which].sent for each in taken] for which in (0, 2))
    return [
        *(
            speed(line, [each[0].step for each in all_of], [each[peer].step for each in all_of], what=what, least=0.95, per_second=True)
            for line, all_of, peer, what in lines
        ),
        figure(
            f"terminal output while training, {beside_bar}",
            [a / b for a, b in zip(sent, sent_bar, strict=True)],
            ours=f"{middle(sent):.0f} B/s",
            peer=f"{middle(sent_bar):.0f} B/s, rich's bar",
            most=1.0,
        ),
    ]


def plain_speed(wanted: Wanted) -> list[Figure]:
    """`tuitrain run seed-cnn` in fp32 and bf16 against the tutorial's script."""
    precisions = {"fp32": 1.5, "bf16": 2.0}
    runs = [Training(str(wanted.data), options=("--precision", precision), skipped=SCRIPT_SKIPPED) for precision in precisions]
    taken = in_turns([plain_script(wanted.data), *map(tuitrain, runs)], 2 * wanted.pairs, SCRIPT_TURN_SECONDS)
    lines = []
    for place, (precision, least) in enumerate(precisions.items(), 1):
        without = precision == "bf16" and not describe()["bf16_instructions"]
        lines.append(
            speed(
                f"training speed, CPU, {precision}",
                [each[place].step for each in taken],
                [each[0].step for each in taken],
                what="plain script in fp32",
                least=least,
                note="this CPU has no bf16 instructions" if without else "",
            )
        )
    return lines


def drawn_samples(wanted: Wanted) -> list[Figure]:
    """`tuitrain run` with samples that are drawn when they are read, against a plain loop with torch's DataLoader."""
    training = Training("benchmarks.small_data:make_drawn")
    taken = in_turns([tuitrain(training), plain_loop(training)], 4 * wanted.pairs, LOOP_TURN_SECONDS)
    ours, peer = ([each[which].step for each in taken] for which in (0, 1))
    return [speed("seed-cnn, samples drawn by other processes, CPU", ours, peer, what="DataLoader", least=0.98)]


def on_device_loop(wanted: Wanted) -> list[Figure]:
    """`tuitrain run` against a plain loop with the data in memory that does the same."""
    lines = []
    for recipe, training in IN_MEMORY.items():
        large = recipe == "resnet18"
        turns, seconds = (wanted.pairs + 1, LARGE_TURN_SECONDS) if large else (2 * wanted.pairs, LOOP_TURN_SECONDS)
        quiet = replace(training, options=(*training.options, "--set", "augment=none"))
        taken = in_turns([tuitrain(quiet), plain_loop(training)], turns, seconds)
        ours, peer = ([each[which].step for each in taken] for which in (0, 1))
        lines.append(speed(f"{recipe}, data in memory, CPU", ours, peer, what="plain loop", least=0.98))
    return lines
