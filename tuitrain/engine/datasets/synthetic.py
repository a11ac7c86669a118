"""The two data sets that need no files: `synthetic` (shaped like CIFAR-10) and `random` (100 samples of 5 numbers).

The functions are plain PyTorch on purpose: an exported script carries their source.
"""

from __future__ import annotations

import torch


def synthetic_images() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ten classes of made-up 32x32 colour images: train images, train labels, test images, test labels.

    Each class is one smooth colour pattern; a sample is a shifted 32x32 window of it with its own contrast, brightness and noise.
    Images are uint8 [N, 3, 32, 32] in channels_last memory, labels int64 [N]; 12,800 to train on and 2,000 to test with,
    always the same ones: after the patterns all arithmetic is in whole numbers, which every machine does alike.
    """
    generator = torch.Generator().manual_seed(10)
    coarse = torch.randn(10, 3, 4, 4, generator=generator)
    patterns = torch.nn.functional.interpolate(coarse, size=(40, 40), mode="bicubic", align_corners=True)
    patterns = (patterns * 72).round().clamp(-127, 127).to(torch.int16).permute(0, 2, 3, 1)
    # [class, row, column, 32, 32, 3]: every window of every pattern, as a view.
    windows = patterns.unfold(1, 32, 1).unfold(2, 32, 1).permute(0, 1, 2, 4, 5, 3)

    total = 12_800 + 2_000
    labels = torch.randint(10, (total,), generator=generator)
    shifts = torch.randint(9, (total, 2), generator=generator)
    contrast = torch.randint(32, 97, (total, 1, 1, 1), generator=generator).to(torch.int16)
    brightness = torch.randint(24, 105, (total, 1, 1, 1), generator=generator).to(torch.int16)
    pixels = torch.empty(total, 32, 32, 3, dtype=torch.uint8)
    for start in range(0, total, 1024):
        block = slice(start, min(start + 1024, total))
        rows, columns = shifts[block, 0], shifts[block, 1]
        # Eight noise bytes come from each random int64.
        draws = torch.empty(len(rows), 32, 12, dtype=torch.int64).random_(generator=generator)
        noise = (draws.view(torch.uint8).view(-1, 32, 32, 3) & 127).to(torch.int16)
        image = (windows[labels[block], rows, columns] * contrast[block]) >> 6
        pixels[block] = image.add_(noise).add_(brightness[block]).clamp_(0, 255).to(torch.uint8)
    inputs = pixels.permute(0, 3, 1, 2)
    return inputs[:12_800], labels[:12_800], inputs[12_800:], labels[12_800:]


def random_samples(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """100 samples of 5 random numbers [100, 5] and random labels 0 or 1 [100]."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(100, 5, generator=generator)
    labels = torch.randint(0, 2, (100,), generator=generator)
    return inputs, labels
