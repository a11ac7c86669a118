"""Where a run has its samples: on its first device, or in this machine's memory where they would fill that."""

from __future__ import annotations

from collections.abc import Generator

import torch

from tuitrain import words
from tuitrain.engine.datasets.samples import Dataset, to_device
from tuitrain.engine.memory import free_on
from tuitrain.events import Notice

SHARE = 0.5
"""Of what is free on a GPU samples may take so much; the rest is for the network and what its steps hold."""


def settled(dataset: Dataset, device: torch.device) -> Generator[Notice, None, Dataset]:
    """The data set with its labels on `device`, and its inputs there too, or, where they would take too much of a GPU, where they are.

    Raises:
        RuntimeError: the device has no room, or cannot be used.
    """
    size = sum(split.nbytes for split in dataset.splits)
    stays = device.type == "cuda" and size > SHARE * (free := free_on(device))
    if stays:
        takes = f"The samples take {words.size(size)}, and {words.size(free)} are free on {device}"
        yield Notice(text=f"{takes}: they stay in this machine's memory, and each batch is copied to the GPU.")
    return to_device(dataset, device, inputs_too=not stays)
