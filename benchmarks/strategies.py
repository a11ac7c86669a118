"""What spreading a run costs on one device, and what a second process brings."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.pairs import Figure, Wanted, speed
from benchmarks.plain_ddp import plain_ddp
from benchmarks.programs import Training
from benchmarks.speed import SMALL
from benchmarks.turns import in_turns, tuitrain

TURN_SECONDS, MIDDLE_TURN_SECONDS, LARGE_TURN_SECONDS = 1.2, 2.0, 4.0
STRATEGIES = [Training(SMALL, options=("--strategy", strategy)) for strategy in ("single", "split", "ddp")]


def ranks(count: int, *options: str) -> Training:
    """A run of the seed network in `count` ranks with one thread each; OMP_NUM_THREADS is shared out between them."""
    device, env = ",".join(["cpu"] * count), {"OMP_NUM_THREADS": str(count)}
    return Training(SMALL, options=("--strategy", "ddp", "--set", "augment=none", *options), device=device, env=env)


def middle(count: int) -> Training:
    """The same with batches four times as large."""
    return ranks(count, "--batch-size", "256")


def large(count: int) -> Training:
    """The same of a network whose steps take long."""
    return replace(ranks(count, "--batch-size", "16"), recipe="resnet18", skipped=2)


def strategy_overheads(wanted: Wanted) -> list[Figure]:
    """Split on one device and ddp with one rank against `single`; two ranks of one thread against one with the same global batch, with
    small batches, large ones, and a large network, and against torch's own ddp in a plain loop."""
    turns = 2 * wanted.pairs
    alone = in_turns([tuitrain(training) for training in STRATEGIES], turns, TURN_SECONDS)
    small = in_turns([tuitrain(ranks(1)), tuitrain(ranks(2)), plain_ddp("seed-cnn", 2)], turns, TURN_SECONDS)
    more = in_turns([tuitrain(middle(1)), tuitrain(middle(2))], turns, MIDDLE_TURN_SECONDS)
    slow = in_turns([tuitrain(large(1)), tuitrain(large(2))], wanted.pairs + 1, LARGE_TURN_SECONDS)
    lines = (
        ("split on one device, CPU", alone, 1, 0, "single", 0.95),
        ("ddp with one rank, CPU", alone, 2, 0, "single", 0.9),
        ("ddp, two ranks of one thread, CPU", small, 1, 0, "one rank of one thread", 1.6),
        ("ddp, two ranks of one thread, batch 256, CPU", more, 1, 0, "one rank of one thread", 1.6),
        ("ddp, two ranks of one thread, resnet18, CPU", slow, 1, 0, "one rank of one thread", 1.6),
        ("ddp, two ranks of one thread, against plain ddp, CPU", small, 1, 2, "torch's ddp in a plain loop", 0.95),
    )
    return [
        speed(name, [each[ours].step for each in taken], [each[peer].step for each in taken], what=what, least=least)
        for name, taken, ours, peer, what, least in lines
    ]
