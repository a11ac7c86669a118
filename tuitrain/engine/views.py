"""Test-time augmentation. Plain PyTorch: an exported script carries the source."""

from __future__ import annotations

from collections.abc import Callable

import torch


def six_views(score: Callable[[torch.Tensor], torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    """The weighted mean of a network's scores for six views of each image.

    Half the weight has the image itself, a quarter each the image shifted by a pixel up and left, and down and right, reflected at its
    edges; every one of the three is scored as it is and mirrored, alike.

    Args:
        score: gives scores [N, classes] for images.
        images: [N, C, H, W].

    Returns:
        [N, classes].
    """
    height, width = images.shape[2:]
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1), mode="reflect")
    up, down = padded[:, :, :height, :width], padded[:, :, 2:, 2:]
    # Copies: the views share their pixels, and a network may change its inputs in place.
    own, first, second = ((score(view.clone()) + score(view.flip(3))) / 2 for view in (images, up, down))
    return own / 2 + (first + second) / 4
