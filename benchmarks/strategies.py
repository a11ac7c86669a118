"""What spreading a run costs on one device, and what a second process brings."""

from __future__ import annotations

from functools import partial

from benchmarks.pairs import Figure, Wanted, figure, middle, rounds
from benchmarks.programs import Training, headless

SINGLE = Training("synthetic", 150)
SPLIT = Training("synthetic", 150, ("--strategy", "split"))
ONE_RANK = Training("synthetic", 150, ("--strategy", "ddp"))
# OMP_NUM_THREADS is shared out between the ranks.
ONE_THREAD = Training("synthetic", 150, ("--strategy", "ddp"), env={"OMP_NUM_THREADS": "1"})
TWO_RANKS = Training("synthetic", 150, ("--strategy", "ddp"), device="cpu,cpu", env={"OMP_NUM_THREADS": "2"})


def strategy_overheads(wanted: Wanted) -> list[Figure]:
    """Split on one device and ddp with one rank against `single`; two ranks of one thread against one, with the same global batch."""
    count = min(wanted.pairs, 4)
    alone = rounds([partial(headless, each) for each in (SINGLE, SPLIT, ONE_RANK)], count, warmup=0)
    ranks = rounds([partial(headless, each) for each in (ONE_THREAD, TWO_RANKS)], count, warmup=0)
    lines = (
        ("split on one device, CPU", [each[0] for each in alone], [each[1] for each in alone], "single", 0.95),
        ("ddp with one rank, CPU", [each[0] for each in alone], [each[2] for each in alone], "single", 0.9),
        ("ddp, two ranks of one thread, CPU", [each[0] for each in ranks], [each[1] for each in ranks], "one rank of one thread", 1.6),
    )
    return [
        figure(
            name,
            [theirs / mine for theirs, mine in zip(peer, ours, strict=True)],
            ours=f"{1000 * middle(ours):.1f} ms/step",
            peer=f"{1000 * middle(peer):.1f} ms/step, {what}",
            least=least,
        )
        for name, peer, ours, what, least in lines
    ]
