"""The images of a folder, decoded one by one when they are asked for."""

from __future__ import annotations

import os
import warnings

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tuitrain.config import ConfigError
from tuitrain.engine.datasets.decode import decode_image
from tuitrain.engine.datasets.file_names import FileNames
from tuitrain.engine.places import one_line
from tuitrain.text import clean


class FolderSamples:
    """Images of a folder, by their numbers.

    Args:
        folder: what the names start from.
        files: the images' names.
        side: pixels in height and in width.
    """

    def __init__(self, folder: str, files: FileNames, side: int) -> None:
        self._folder, self._side = os.fsencode(folder), side
        self._bytes = files.packed.numpy()
        self._ends = np.flatnonzero(self._bytes == 0)
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.filterwarnings("error", category=Image.DecompressionBombWarning)

    def alike(self, index: int, first: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """The image [3, H, W] uint8; in the place of its label `label`, which whoever asks knows.

        Raises:
            ConfigError: it cannot be read any more.
        """
        begin = self._ends[index - 1] + 1 if index else 0
        path = os.fsdecode(self._folder + b"/" + self._bytes[begin : self._ends[index]].tobytes())
        try:
            pixels, _, _ = decode_image(path, self._side)
        except Exception as error:  # Pillow raises nearly anything
            raise ConfigError(f"data: {clean(path)} cannot be read any more: {one_line(error)}.") from error
        return torch.from_numpy(np.array(pixels)).permute(2, 0, 1), label
