"""What spreading a run costs on one device, and what a second process brings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.pairs import Figure, Wanted, rounds, speed
from benchmarks.plain_ddp import plain_ddp
from benchmarks.programs import SKIPPED_STEPS, Training, headless
from benchmarks.speed import SMALL

STEPS = 100
LARGE_STEPS, LARGE_SKIPPED, LARGE_BATCH = 12, 2, 16
MOST_PAIRS = 2
"""Starting the ranks takes longer than their steps."""
SINGLE = Training("synthetic", STEPS)
SPLIT = Training("synthetic", STEPS, ("--strategy", "split"))
ONE_RANK = Training("synthetic", STEPS, ("--strategy", "ddp"))


def ranks(count: int, *, large: bool = False) -> Callable[[], float]:
    """Takes the time of a run of `count` ranks with one thread each; OMP_NUM_THREADS is shared out between them."""
    device, env = ",".join(["cpu"] * count), {"OMP_NUM_THREADS": str(count)}
    options = ("--strategy", "ddp", "--set", "augment=none")
    if not large:
        return partial(headless, Training(SMALL, STEPS, options, device=device, env=env))
    more = (*options, "--batch-size", str(LARGE_BATCH))
    return partial(headless, Training(SMALL, LARGE_STEPS, more, "resnet18", device, LARGE_SKIPPED, env))


def strategy_overheads(wanted: Wanted) -> list[Figure]:
    """Split on one device and ddp with one rank against `single`; two ranks of one thread against one with the same global batch, of a
    small network and of a large one, and against torch's own ddp in a plain loop."""
    count = min(wanted.pairs, MOST_PAIRS)
    alone = rounds([partial(headless, each) for each in (SINGLE, SPLIT, ONE_RANK)], count, warmup=0)
    plain = partial(plain_ddp, "seed-cnn", 2, STEPS, SKIPPED_STEPS)
    small = rounds([ranks(1), ranks(2), plain], count, warmup=0)
    large = rounds([ranks(1, large=True), ranks(2, large=True)], count, warmup=0)
    lines = (
        ("split on one device, CPU", alone, 1, 0, "single", 0.95),
        ("ddp with one rank, CPU", alone, 2, 0, "single", 0.9),
        ("ddp, two ranks of one thread, CPU", small, 1, 0, "one rank of one thread", 1.6),
        ("ddp, two ranks of one thread, resnet18, CPU", large, 1, 0, "one rank of one thread", 1.6),
        ("ddp, two ranks of one thread, against plain ddp, CPU", small, 1, 2, "torch's ddp in a plain loop", 0.95),
    )
    return [
        speed(name, [each[ours] for each in taken], [each[peer] for each in taken], what=what, least=least)
        for name, taken, ours, peer, what, least in lines
    ]
