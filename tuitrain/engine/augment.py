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
    drawn = torch.cat([torch.randint(0, most, (count, each), generator=generator) for most, each in ((9, 2), (2, 1))], 1)
    if images.is_cuda:
        drawn = drawn.pin_memory()  # only from there a copy does not wait for the GPU
    drawn = drawn.to(images.device, non_blocking=True)
    rows = drawn[:, :1] + torch.arange(height, device=images.device)
    columns = drawn[:, 1:2] + torch.arange(width, device=images.device)
    columns = torch.where(drawn[:, 2:] == 1, columns.flip(1), columns)

    padded = torch.nn.functional.pad(images, (4, 4, 4, 4)).permute(0, 2, 3, 1)
    sample = torch.arange(count, device=images.device).view(count, 1, 1)
    return padded[sample, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def moves(count: int, seed: int, epoch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """How `flip_shift` moves the images of a data set in an epoch.

    By chance each image is mirrored in all odd epochs or in all even ones: in two epochs the network sees both sides of each.

    Args:
        count: how many images there are.
        seed: decides all.
        epoch: from 1.

    Returns:
        Which are mirrored, [count] bool, and by how many rows and columns they are shifted, [count, 2] from -2 to 2.
    """
    # Far from the seeds of the epochs' orders, so that the two have nothing to do with each other.
    mirrored = torch.randint(0, 2, (count,), generator=torch.Generator().manual_seed(seed * 1_000_003 + 2**30)).bool()
    shifts = torch.randint(-2, 3, (count, 2), generator=torch.Generator().manual_seed(seed * 1_000_003 + 2**31 + epoch))
    return mirrored ^ (epoch % 2 == 0), shifts


def flip_shift(images: torch.Tensor, mirrored: torch.Tensor, shifts: torch.Tensor) -> torch.Tensor:
    """Shift each image, reflected at its edges, and mirror some.

    Args:
        images: [N, C, H, W], any dtype and device.
        mirrored: [N] bool, on the same device.
        shifts: [N, 2] rows and columns, fewer than H and W, on the same device.

    Returns:
        [N, C, H, W], same dtype and device, in channels_last memory.
    """
    count, _, height, width = images.shape
    sample = torch.arange(count, device=images.device).view(count, 1, 1)
    rows = shifts[:, :1] + torch.arange(height, device=images.device)
    columns = shifts[:, 1:] + torch.arange(width, device=images.device)
    # What lies before the first pixel is the one as far behind it, and the same at the other end.
    rows = (height - 1) - ((height - 1) - rows.abs()).abs()
    columns = (width - 1) - ((width - 1) - columns.abs()).abs()
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    return images.permute(0, 2, 3, 1)[sample, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
