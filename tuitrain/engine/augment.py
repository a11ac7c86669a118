"""Augmentation on the device, a whole batch at a time. Plain PyTorch: an exported script carries its source."""

from __future__ import annotations

import torch


def crop_flip(images: torch.Tensor, seed: int) -> torch.Tensor:
    """Pad each image by 4 pixels, crop it back at a random place, and mirror half of them.

    Args:
        images: [N, C, H, W], any dtype and device.
        seed: decides all places and mirrors of this batch, on every device alike.

    Returns:
        [N, C, H, W], same dtype and device, in channels_last memory.
    """
    count, _, height, width = images.shape
    generator = torch.Generator().manual_seed(seed)
    shifts = torch.randint(0, 9, (count, 2), generator=generator)
    mirrored = torch.randint(0, 2, (count, 1), generator=generator).bool()
    rows = shifts[:, :1] + torch.arange(height)
    columns = shifts[:, 1:] + torch.arange(width)
    columns = torch.where(mirrored, columns.flip(1), columns)

    padded = torch.nn.functional.pad(images, (4, 4, 4, 4)).permute(0, 2, 3, 1)
    sample = torch.arange(count).view(count, 1, 1)
    picked = [index.to(images.device, non_blocking=True) for index in (sample, rows[:, :, None], columns[:, None, :])]
    return padded[picked[0], picked[1], picked[2]].permute(0, 3, 1, 2)
