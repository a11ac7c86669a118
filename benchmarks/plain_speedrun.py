"""The peer of the recipe `speedrun-94`: the same training in plain PyTorch. It imports nothing of tuitrain.

    python benchmarks/plain_speedrun.py FOLDER [--seeds 20 | --asked] [--device cuda] [--steps 476] [--precision bf16]

FOLDER holds train/<class>/*.jpg and test/<class>/*.jpg; images are decoded once. The first of the runs that are made only warms up and is
not told. Prints one JSON line a seed: the final accuracy and the seconds of training by the rules of speed runs, which are those of fitting
the first convolution, all steps and the final test. With --asked it reads its seeds, one a line. The recipe is that of airbench94
(arXiv 2404.00498).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPOCHS = 10
STEPS = 476
BATCH = 1024
LR, MOMENTUM, DECAY, SMOOTHING = 1.5, 0.85, 0.00133043, 0.2


@dataclass(frozen=True)
class Data:
    """Images [N, 3, 32, 32] of bytes and labels [N], all on one device."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Done:
    """The loss of each step, the accuracy of the final test from 0 to 1, and the seconds that count."""

    losses: list[float]
    accuracy: float
    seconds: float


class Normalise(nn.Module):
    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4914, 0.4822, 0.4465])[:, None, None])
        self.register_buffer("std", torch.tensor([0.2470, 0.2435, 0.2616])[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


def conv(before: int, after: int) -> nn.Conv2d:
    layer = nn.Conv2d(before, after, 3, padding="same", bias=False)
    with torch.no_grad():
        for channel in range(before):
            layer.weight[channel] = 0
            layer.weight[channel, channel, 1, 1] = 1
    return layer


def norm(width: int) -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(width, eps=1e-12, momentum=0.4)
    layer.weight.requires_grad_(False)
    return layer


def make_net() -> nn.Sequential:
    first = nn.Conv2d(3, 24, 2)
    first.weight.requires_grad_(False)
    nn.init.zeros_(first.get_parameter("bias"))
    layers: list[nn.Module] = [Normalise(), first, nn.GELU()]
    for before, width in ((24, 64), (64, 256), (256, 256)):
        layers += [conv(before, width), nn.MaxPool2d(2), norm(width), nn.GELU(), conv(width, width), norm(width), nn.GELU()]
    return nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten(), nn.Linear(256, 10, bias=False))


@torch.no_grad()
def whiten(net: nn.Sequential, images: Tensor) -> None:
    images = net[:1](images)
    shifted = [images[:, :, y : y + images.shape[2] - 1, x : x + images.shape[3] - 1] for y in (0, 1) for x in (0, 1)]
    # The order of a filter's weights: channel, row, column.
    patches = torch.stack(shifted, 2).flatten(1, 2).double().movedim(1, -1).flatten(0, -2)
    values, vectors = torch.linalg.eigh((patches.T @ patches / len(patches)).cpu())
    filters = (vectors / torch.sqrt(values + 5e-4)).T.reshape(12, 3, 2, 2)
    net[1].get_parameter("weight").copy_(torch.cat([filters, -filters]))


def batches(images: Tensor, labels: Tensor, seed: int, epoch: int, size: int, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
    """Those of an epoch, counted from 0, mirrored and shifted; they are drawn as tuitrain draws them."""
    device, count = images.device, len(images)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch + 1)).to(device)
    flips = torch.randint(0, 2, (count,), generator=torch.Generator().manual_seed(seed * 1_000_003 + 2**30)).bool()
    shifts = torch.randint(-2, 3, (count, 2), generator=torch.Generator().manual_seed(seed * 1_000_003 + 2**31 + epoch + 1))
    flips, places = (flips ^ bool(epoch % 2)).to(device), (shifts + 2).to(device)
    for rows in torch.split(order, size):
        floats = images[rows].to(dtype) / 255
        padded = F.pad(floats, (2, 2, 2, 2), mode="reflect").unfold(2, 32, 1).unfold(3, 32, 1)
        down, right = places[rows].unbind(1)
        cut = padded[torch.arange(len(rows), device=device), :, down, right]
        mirrored = torch.where(flips[rows, None, None, None], cut.flip(3), cut)
        yield mirrored.contiguous(memory_format=torch.channels_last), labels[rows]


@torch.no_grad()
def accuracy(net: nn.Module, images: Tensor, labels: Tensor, size: int, dtype: torch.dtype, cast: AbstractContextManager[Any]) -> Tensor:
    net.eval()
    right = torch.zeros((), dtype=torch.int64, device=images.device)
    for pixels, truth in zip(torch.split(images, size), torch.split(labels, size), strict=True):
        floats = pixels.to(dtype) / 255
        padded = F.pad(floats, (1, 1, 1, 1), mode="reflect")
        scores = torch.zeros(len(truth), 10, dtype=dtype, device=images.device)
        for weight, view in ((0.5, floats), (0.25, padded[:, :, :32, :32]), (0.25, padded[:, :, 2:34, 2:34])):
            for side in (view, view.flip(3)):
                with cast:
                    scores += weight / 2 * net(side).to(dtype) / 9
        right += (scores.argmax(1) == truth).sum()
    net.train()
    return right


def train(
    data: Data, seed: int, *, steps: int = STEPS, epochs: int = EPOCHS, batch: int = BATCH, lr: float = LR, precision: str = "bf16"
) -> Done:
    """One run from its seed; the data decides the device."""
    images, labels = data.train
    device, dtype = images.device, torch.float64 if precision == "fp64" else torch.float32
    cast: AbstractContextManager[Any] = torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()
    torch.manual_seed(seed)
    net = make_net().to(device, dtype)
    if precision != "fp64":
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    biases = [layer.bias for layer in net if isinstance(layer, nn.BatchNorm2d)]
    others = [one for one in net.parameters() if one.requires_grad and all(one is not bias for bias in biases)]
    groups: list[dict[str, Any]] = [{"params": others}, {"params": biases, "lr": 64 * lr, "weight_decay": DECAY / 64}]
    optimizer = torch.optim.SGD(groups, lr=lr, momentum=MOMENTUM, weight_decay=DECAY, nesterov=True)
    steps = min(steps, epochs * -(-len(images) // batch))
    factors = np.interp(np.arange(steps), [0, int(0.23 * steps), steps], [0.2, 1, 0.07])
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factors[min(step, steps - 1)])

    clock = stopwatch(device)
    whiten(net, images[:5000].to(dtype) / 255)
    seconds, step, slow, losses = clock(), 0, list[Tensor](), list[Tensor]()
    for epoch in range(epochs):
        net[1].get_parameter("bias").requires_grad_(epoch < 3)
        for inputs, truth in batches(images, labels, seed, epoch, batch, dtype):
            with cast:
                outputs = net(inputs)
            loss = F.cross_entropy(outputs.to(dtype) / 9, truth, label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            scheduler.step()
            step += 1
            losses.append(loss.detach())
            if epoch >= 3 and step % 5 == 0:
                slow = averaged(net, slow, 0.95**5 * (step / steps) ** 3)
            if step == steps:
                break
        slow = averaged(net, slow, 1.0) if slow else slow
        seconds += clock()
        if step == steps:
            break
    right = int(accuracy(net, *data.test, batch, dtype, cast))
    seconds += clock()
    return Done([float(loss) for loss in losses], right / len(data.test[1]), seconds)


@torch.no_grad()
def averaged(net: nn.Module, slow: list[Tensor], stay: float) -> list[Tensor]:
    """The slow weights after they moved towards the net's, and the net back to them; at first there are none."""
    fast = [value for value in net.state_dict().values() if value.is_floating_point()]
    if not slow:
        return [value.clone() for value in fast]
    for mine, theirs in zip(slow, fast, strict=True):
        mine.lerp_(theirs, 1 - stay)
        theirs.copy_(mine)
    return slow


def stopwatch(device: torch.device) -> Callable[[], float]:
    """Gives the seconds since it was asked last; it waits for the device."""
    begin = [0.0]

    def lap() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        before, begin[0] = begin[0], time.perf_counter()
        return begin[0] - before

    lap()
    return lap


def main() -> None:
    """Print one line a seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--asked", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from benchmarks.plain_script import Images

    parts = []
    for name in ("train", "test"):
        images = Images(args.folder / name)
        pixels = torch.from_numpy(np.stack(images.arrays)).to(args.device).permute(0, 3, 1, 2)
        parts.append((pixels, torch.tensor(images.labels, device=args.device)))
    data = Data(*parts)
    torch.backends.cudnn.benchmark = True
    run = partial(train, data, steps=args.steps, precision=args.precision)
    if args.device != "cpu":
        run(0)  # warms up
    for seed in map(int, sys.stdin) if args.asked else range(args.seeds):
        done = run(seed)
        print(json.dumps({"seed": seed, "accuracy": done.accuracy, "seconds": done.seconds}), flush=True)


if __name__ == "__main__":
    main()
