"""torch's DistributedDataParallel in a plain loop on the CPU, as `torchrun` starts it: what `--strategy ddp` must not be slower than.

    torchrun --standalone --nproc-per-node N -m benchmarks.plain_ddp RECIPE --steps N [--skip 20]

Each rank trains its part of the batches of `plain_loop.py`; rank 0 prints the mean seconds of a step after the first `--skip`.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import islice

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.plain_loop import batches, optimizer_of
from benchmarks.programs import AS_NICE, SHORT_SPIN, output_of
from benchmarks.small_data import make_data
from tuitrain.config import with_changes
from tuitrain.engine.models import build_model
from tuitrain.recipes import load_recipe


def plain_ddp(recipe: str, ranks: int, steps: int, skip: int) -> float:
    """Seconds per step of `ranks` processes with one thread each."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [*AS_NICE, *launcher, "-m", "benchmarks.plain_ddp", recipe, "--steps", str(steps), "--skip", str(skip)]
    return float(output_of(command, {**SHORT_SPIN, "OMP_NUM_THREADS": "1"}).splitlines()[-1])


def main() -> None:
    """Train one rank's part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--skip", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    config = with_changes(load_recipe(args.recipe), {"augment": "none"})
    torch.manual_seed(config.seed)
    (images, labels), _ = make_data(config)
    model = DistributedDataParallel(build_model(config).train().to(memory_format=torch.channels_last))  # type: ignore[call-overload]
    optimizer, criterion = optimizer_of(config, model), nn.CrossEntropyLoss()
    begin = 0.0
    for step, (inputs, targets) in enumerate(islice(batches(config, images, labels), args.steps)):
        if step == args.skip:
            dist.barrier()
            begin = time.perf_counter()
        loss = criterion(model(inputs.chunk(size)[rank]), targets.chunk(size)[rank])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print((time.perf_counter() - begin) / (args.steps - args.skip))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
