"""What whole programs train where it only matters that they train: `small_net:…` on their command lines.

Each step rests for a moment, so that a run is there for long and leaves the processor to what a test is about.
"""

from __future__ import annotations

import signal
import time
from typing import Any

import torch
from torch import nn

REST_SECONDS = 0.01


class Rest(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            time.sleep(REST_SECONDS)
        return inputs


def make_linear(config: Any) -> nn.Module:
    """For samples of 5 numbers."""
    return nn.Sequential(Rest(), nn.Linear(5, 2))


def make_asking(config: Any) -> nn.Module:
    """Asks whoever is at the keyboard."""
    input("how wide? ")
    return make_linear(config)


class Crashing(nn.Linear):
    """As what calls broken C code does."""

    def __init__(self) -> None:
        super().__init__(5, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        signal.raise_signal(signal.SIGSEGV)
        return super().forward(inputs)


def make_samples(config: Any) -> Any:
    """A million samples of 5 numbers, of 2 classes; none to test with. In batches of 30 an epoch lasts for minutes."""
    generator = torch.Generator().manual_seed(3)
    return (torch.randn(1_000_000, 5, generator=generator), torch.randint(2, (1_000_000,), generator=generator)), None


def make_net(config: Any) -> nn.Module:
    """For images [3, 32, 32] of 10 classes; what it learns depends on torch's generator."""
    return nn.Sequential(Rest(), nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(5), nn.Flatten(), nn.Dropout(0.1), nn.Linear(288, 10))


def make_images(config: Any) -> Any:
    """800 images [3, 32, 32] of 10 classes to train on, and 16 to test with."""
    generator = torch.Generator().manual_seed(3)

    def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = torch.randint(256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
        return pixels, torch.randint(10, (count,), generator=generator)

    return part(800), part(16)
