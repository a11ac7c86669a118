"""torch's DistributedDataParallel in a plain loop on the CPU, as `torchrun` starts it: what `--strategy ddp` must not be slower than.

    torchrun --standalone --nproc-per-node N -m benchmarks.plain_ddp RECIPE FILE

Each rank trains its part of the batches of `plain_loop.py` until it is told to end; rank 0 writes when it made each step to FILE.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.plain_loop import batches, optimizer_of
from benchmarks.programs import AS_NICE, AS_TORCH_HAS_IT, SKIPPED_STEPS
from benchmarks.small_data import make_data
from benchmarks.turns import Trainee, lines_of
from tuitrain.config import with_changes
from tuitrain.engine.models import build_model
from tuitrain.recipes import load_recipe


@contextmanager
def plain_ddp(recipe: str, ranks: int) -> Iterator[Trainee]:
    """`ranks` processes with one thread each."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "--log-dir", folder]
        file = Path(folder) / "times"
        command = [*AS_NICE, *launcher, "-m", "benchmarks.plain_ddp", recipe, str(file)]
        yield Trainee(command, lambda: lines_of(file), SKIPPED_STEPS, {"OMP_NUM_THREADS": "1", **AS_TORCH_HAS_IT}, in_group=True)


def main() -> None:
    """Train one rank's part."""
    recipe, file = sys.argv[1:]
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    config = with_changes(load_recipe(recipe), {"augment": "none"})
    torch.manual_seed(config.seed)
    (images, labels), _ = make_data(config)
    model = DistributedDataParallel(build_model(config).train().to(memory_format=torch.channels_last))  # type: ignore[call-overload]
    optimizer, criterion = optimizer_of(config, model), nn.CrossEntropyLoss()
    with open(file if rank == 0 else os.devnull, "w", buffering=1, encoding="ascii") as kept:
        for inputs, targets in batches(config, images, labels):
            loss = criterion(model(inputs.chunk(size)[rank]), targets.chunk(size)[rank])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.write(f"{time.time()}\n")


if __name__ == "__main__":
    main()
