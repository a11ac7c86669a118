"""A few images for the ranks of a group, which import this by name."""

from __future__ import annotations

import os
from typing import Any

import torch


def make_images(config: Any) -> Any:
    """160 images [3, 32, 32] of 10 classes to train on, and 16 to test with."""
    generator = torch.Generator().manual_seed(3)

    def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = torch.randint(256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
        return pixels, torch.randint(10, (count,), generator=generator)

    return part(160), part(16)


def make_unlike(config: Any) -> Any:
    """The same images with labels that each process draws anew."""
    train, test = make_images(config)
    return (train[0], torch.randint(10, (160,), generator=torch.Generator().manual_seed(os.getpid()))), test
