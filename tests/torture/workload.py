"""What the tortured runs train: small images and a small network, whose steps take a few milliseconds on any machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

CLASSES = 4
SAMPLES, TEST_SAMPLES = 1000, 64
STEP_SECONDS = 0.002

on_step: Callable[[], object] | None = None
"""Called when a step of training begins."""
TRIED_WITH = 2
"""So many samples the engine gives a model of one's own before the run begins, which is no step."""


class Net(nn.Module):
    """A convolution and a linear layer. A step waits a little, so that moments at random lie all over a run."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(4), nn.Flatten(), nn.Dropout(), nn.Linear(128, CLASSES)
        )

    def forward(self, images: Tensor) -> Tensor:
        """Images [N, 3, H, W] of any size to scores [N, 4]."""
        if self.training and len(images) > TRIED_WITH:
            if on_step is not None:
                on_step()
            time.sleep(STEP_SECONDS)
        scores: Tensor = self.layers(images)
        return scores


def make_net(config: Any) -> nn.Module:
    """The network, as `--set model=workload:make_net` names it."""
    return Net()


def make_images(config: Any) -> Any:
    """Images [N, 3, 8, 8] whose class shows in their brightness, as `--data workload:make_images` names them."""
    generator = torch.Generator().manual_seed(3)

    def part(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(CLASSES, (count,), generator=generator)
        noise = torch.randint(100, (count, 3, 8, 8), generator=generator)
        return (noise + labels.view(-1, 1, 1, 1) * 50).to(torch.uint8), labels

    return part(SAMPLES), part(TEST_SAMPLES)
