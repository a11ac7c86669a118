"""What spreading a run costs on one device, and what a second process brings."""

from __future__ import annotations

from functools import partial

from benchmarks.pairs import Figure, Wanted, rounds, speed
from benchmarks.programs import Training, headless

STEPS = 100
MOST_PAIRS = 2
"""Starting the ranks takes longer than their steps."""
SINGLE = Training("synthetic", STEPS)
SPLIT = Training("synthetic", STEPS, ("--strategy", "split"))
ONE_RANK = Training("synthetic", STEPS, ("--strategy", "ddp"))
# OMP_NUM_THREADS is shared out between the ranks.
ONE_THREAD = Training("synthetic", STEPS, ("--strategy", "ddp"), env={"OMP_NUM_THREADS": "1"})
TWO_RANKS = Training("synthetic", STEPS, ("--strategy", "ddp"), device="cpu,cpu", env={"OMP_NUM_THREADS": "2"})


def strategy_overheads(wanted: Wanted) -> list[Figure]:
    """Split on one device and ddp with one rank against `single`; two ranks of one thread against one, with the same global batch."""
    count = min(wanted.pairs, MOST_PAIRS)
    alone = rounds([partial(headless, each) for each in (SINGLE, SPLIT, ONE_RANK)], count, warmup=0)
    ranks = rounds([partial(headless, each) for each in (ONE_THREAD, TWO_RANKS)], count, warmup=0)
    lines = (
        ("split on one device, CPU", alone, 1, "single", 0.95),
        ("ddp with one rank, CPU", alone, 2, "single", 0.9),
        ("ddp, two ranks of one thread, CPU", ranks, 1, "one rank of one thread", 1.6),
    )
    return [
        speed(name, [each[ours] for each in taken], [each[0] for each in taken], what=what, least=least)
        for name, taken, ours, what, least in lines
    ]
