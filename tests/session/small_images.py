"""A few images for the ranks of a group, which import this by name."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn


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


def make_same(config: Any) -> Any:
    """100 rows of 5 numbers that are to be given back, and 20 to test with."""
    numbers = torch.randn(120, 5, generator=torch.Generator().manual_seed(3))
    return (numbers[:100], numbers[:100]), (numbers[100:], numbers[100:])


class Coder(nn.Module):
    """Gives what it makes of a row, and the code from which it made that."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(5, 2), nn.Linear(2, 5)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        code = self.down(rows)
        return self.up(code), code


def coded(outputs: tuple[torch.Tensor, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
    """How unlike the rows are, and how long their codes."""
    made, code = outputs
    return nn.functional.mse_loss(made, rows) + 0.01 * code.square().mean()
