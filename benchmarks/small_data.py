"""Images for the speed of a training step alone: few, random, and none to test on. `--data benchmarks.small_data:make_data`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

SAMPLES = 25_600
"""400 steps at batch 64: an epoch that ends, and its checkpoint, lie outside of what is timed."""


def make_data(config: object) -> tuple[tuple[Tensor, Tensor], None]:
    """[N, 3, 32, 32] uint8 images and [N] labels of ten classes, the same ones every time."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (SAMPLES, 3, 32, 32), dtype=torch.uint8, generator=generator)
    return (images, torch.randint(0, 10, (SAMPLES,), generator=generator)), None


def make_much_data(config: object) -> tuple[tuple[Tensor, Tensor], None]:
    """The same twelve times over: 4800 steps at batch 64, for a GPU, which has done 400 in a tenth of a second."""
    (images, labels), nothing = make_data(config)
    return (images.repeat(12, 1, 1, 1), labels.repeat(12)), nothing


class Drawn(Dataset[tuple[Tensor, int]]):
    """The same images, moved by up to four pixels and mirrored by chance when they are read."""

    def __init__(self) -> None:
        (self._images, labels), _ = make_data(None)
        self.targets: list[int] = labels.tolist()

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        top, left = torch.randint(9, (2,)).tolist()
        moved = nn.functional.pad(self._images[index], (4, 4, 4, 4))[:, top : top + 32, left : left + 32]
        return moved.flip(2) if torch.rand(()) < 0.5 else moved, self.targets[index]


def make_drawn() -> tuple[Drawn, None]:
    """As a torch data set."""
    return Drawn(), None
