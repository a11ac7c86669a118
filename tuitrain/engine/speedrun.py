"""The network of the recipe `speedrun-94`. Plain PyTorch: an exported script carries its source.

It is the one of airbench94, by its published facts: Keller Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (arXiv 2404.00498),
and github.com/KellerJordan/cifar10-airbench. Ideas that came together there: whitening of small patches and frozen scales of BatchNorm
(David Page, "How to train your ResNet", and tysam-code/hlb-CIFAR10), convolutions that begin as the identity, and their parameters'
groups with decoupled learning rates and weight decay.
"""

from __future__ import annotations

import torch
from torch import nn


class SpeedrunNet(nn.Module):
    """Seven convolutions for [N, 3, 32, 32] images, 0 to 1: 1,972,792 parameters with 10 classes. `fit` it to the data before training."""

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        # Of CIFAR-10's red, green and blue.
        self.register_buffer("mean", torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1))
        self.whitening = nn.Conv2d(3, 24, 2)
        layers: list[nn.Module] = []
        for before, width in ((24, 64), (64, 256), (256, 256)):
            layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.MaxPool2d(2)]
            layers += [nn.BatchNorm2d(width, eps=1e-12, momentum=0.4), nn.GELU()]
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(width, eps=1e-12, momentum=0.4), nn.GELU()]
        self.layers = nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten())
        self.linear = nn.Linear(256, num_classes, bias=False)
        self.whitening.weight.requires_grad = False
        nn.init.zeros_(self.whitening.get_parameter("bias"))
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                # The first filters hand their inputs on; the others begin by chance.
                nn.init.dirac_(layer.weight.data[: layer.in_channels])
            elif isinstance(layer, nn.BatchNorm2d):
                layer.weight.requires_grad = False

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.whitening(self.normalised(images)))
        scores: torch.Tensor = self.linear(self.layers(hidden))
        return scores.to(self.mean.dtype) / 9  # bf16 rounds them once, not twice

    def normalised(self, images: torch.Tensor) -> torch.Tensor:
        """[N, 3, H, W] images, 0 to 1, with the mean 0 and the variance 1 of CIFAR-10's colours."""
        return (images - self.mean) / self.deviation

    @torch.no_grad()
    def fit(self, images: torch.Tensor) -> None:
        """Make the first convolution whiten the patches of 2x2 pixels of these [N, 3, H, W] images: uncorrelated outputs of variance 1.

        Its filters are the patches' principal axes, each divided by the deviation along it, and the same 12 filters negated.
        """
        moments, count = images.new_zeros(12, 12, dtype=torch.float64), 0
        for first in range(0, len(images), 500):
            block = images[first : first + 500]
            patches = nn.functional.unfold(self.normalised(block), 2).double().transpose(0, 1).flatten(1)
            moments += patches @ patches.T
            count += patches.shape[1]
        variances, axes = torch.linalg.eigh((moments / count).cpu())
        filters = (axes / (variances + 5e-4).sqrt()).T.reshape(12, 3, 2, 2)
        self.whitening.weight.copy_(torch.cat((filters, -filters)))

    def parameter_groups(self, lr: float, weight_decay: float) -> list[dict[str, object]]:
        """What the optimizer gets: BatchNorm's biases learn 64 times as fast, and decay as all others do; the first convolution's bias
        learns in the first three epochs only."""
        biases = [layer.bias for layer in self.layers if isinstance(layer, nn.BatchNorm2d)]
        weights = [layer.weight for layer in self.layers if isinstance(layer, nn.Conv2d)]
        return [
            {"params": [*weights, self.linear.weight]},
            {"params": biases, "lr": 64 * lr, "weight_decay": weight_decay / 64},
            {"params": [self.whitening.bias], "until_epoch": 3},
        ]
