"""A plain PyTorch loop with the data in memory: what `tuitrain run` must not be slower than.

    python -m benchmarks.plain_loop RECIPE IMPORT_STRING FILE --steps N [--batch-size B] [--device cpu] [--bar]

It trains the recipe's own model with the recipe's optimizer and batches on the data of the function that IMPORT_STRING names, in the memory
format that is fastest and on the device where the model is; samples of a torch data set come from torch's DataLoader. FILE gets the moment
of every step. With `--bar` a progress bar of rich is told of every batch and its loss, as in many people's scripts.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from tuitrain.config import RunConfig, with_changes
from tuitrain.engine.models import build_model, takes_rows
from tuitrain.recipes import load_recipe


def loaded(config: RunConfig, samples: Dataset[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Epoch after epoch the batches of samples that are drawn when they are read, by a process for each core but one."""
    workers = max(1, len(os.sched_getaffinity(0)) - 1)
    loader = DataLoader(samples, config.batch_size, config.shuffle, num_workers=workers, persistent_workers=True)
    while True:
        for images, labels in loader:
            yield images.to(torch.float32, memory_format=torch.channels_last).div_(255), labels


def batches(config: RunConfig, images: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Epoch after epoch: inputs as the model takes them, and labels [B]."""
    while True:
        order = torch.randperm(len(labels), device=labels.device) if config.shuffle else None
        for first in range(0, len(labels), config.batch_size):
            rows = slice(first, first + config.batch_size) if order is None else order[first : first + config.batch_size]
            inputs = images[rows].to(torch.float32).div_(255)
            if takes_rows(config):
                inputs = inputs.permute(0, 2, 3, 1).flatten(2)
            yield inputs.movedim(0, config.batch_dim), labels[rows]


def optimizer_of(config: RunConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The recipe's, as a script would make it."""
    if config.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay)
    return torch.optim.Adam(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)


@contextmanager
def progress(steps: int, bar: bool) -> Iterator[Callable[[Tensor], None]]:
    """What to call after each batch with its loss."""
    if not bar:
        yield lambda loss: None
        return
    from rich.progress import Progress

    with Progress() as shown:
        task = shown.add_task("training", total=steps)
        yield lambda loss: shown.update(task, advance=1, description=f"loss {loss.item():.4f}")


def main() -> None:
    """Train, and write when each step was made."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    parser.add_argument("data")
    parser.add_argument("file")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--device", type=torch.device, default="cpu")
    parser.add_argument("--bar", action="store_true")
    args = parser.parse_args()

    # Augmentation is the one thing of a recipe that this loop does not have; the run beside it is asked to leave it out.
    config = with_changes(load_recipe(args.recipe), {"augment": "none", "batch_size": args.batch_size})
    torch.manual_seed(config.seed)
    module, _, function = args.data.partition(":")
    make = getattr(import_module(module), function)
    samples, _ = make(config) if signature(make).parameters else make()
    model = build_model(config).train().to(args.device)
    if not takes_rows(config):
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if isinstance(samples, Dataset):
        source = loaded(config, samples)
    else:
        images, labels = samples
        source = batches(config, images.contiguous(memory_format=torch.channels_last).to(args.device), labels.to(args.device))
    optimizer, criterion = optimizer_of(config, model), nn.CrossEntropyLoss()

    with progress(args.steps, args.bar) as tell, open(args.file, "w", buffering=1, encoding="ascii") as times:
        for inputs, targets in islice(source, args.steps):
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tell(loss.detach())
            times.write(f"{time.time()}\n")


if __name__ == "__main__":
    main()
