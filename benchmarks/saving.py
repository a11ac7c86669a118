"""What a checkpoint of the seed network costs the thread that trains."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise

from benchmarks.pairs import Figure, Wanted, middle, own
from benchmarks.programs import SKIPPED_STEPS, Training, output_of, runs_dir, step_times
from benchmarks.speed import SMALL

STEPS, EVERY = 200, 20
MOST_PAIRS = 2
"""A run has nine checkpoints that count."""
TRAINING = Training(SMALL, STEPS, ("--set", f"checkpoint_every_steps={EVERY}"))
PLAIN = """
import os, statistics, sys, tempfile, time
import torch
from tuitrain.engine.models import build_model
from tuitrain.recipes import load_recipe
model = build_model(load_recipe("seed-cnn"))
optimizer = torch.optim.Adam(model.parameters())
model(torch.zeros(1, 3, 32, 32)).sum().backward()
optimizer.step()
taken = []
with tempfile.TemporaryDirectory() as folder:
    for number in range(15):
        begin = time.perf_counter()
        with open(f"{folder}/{number}.pt", "wb") as file:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        taken.append(time.perf_counter() - begin)
print(statistics.median(taken))
"""


def saving(wanted: Wanted) -> list[Figure]:
    """How much longer than the others the steps take before which a checkpoint is begun, beside a script that waits for its torch.save."""
    taken = [
        (_ours(), 1000 * float(output_of([sys.executable, "-c", PLAIN]).splitlines()[-1])) for _ in range(min(wanted.pairs, MOST_PAIRS))
    ]
    ours, peer = zip(*taken, strict=True)
    return [own("a checkpoint of seed-cnn, what training waits", ours, peer, most=20, unit="ms", what="torch.save, to the disk")]


def _ours() -> float:
    with runs_dir() as (folder, env):
        output_of(TRAINING.command(), env)
        return 1000 * extra(step_times(folder))


def extra(times: Sequence[float]) -> float:
    """The median of what the steps after a checkpoint take beyond the median of all others, in seconds."""
    spans = dict(enumerate((after - before for before, after in pairwise(times)), 2))
    counted = {step: span for step, span in spans.items() if step > SKIPPED_STEPS}
    saved = [span for step, span in counted.items() if step % EVERY == 1]
    return middle(saved) - middle([span for step, span in counted.items() if step % EVERY != 1])
