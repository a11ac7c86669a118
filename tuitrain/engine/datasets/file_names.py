"""The names of the files that samples come from, all in one piece: of many thousands only a few are ever asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class FileNames:
    """The paths of samples in their data folder, as "test/deer/0123.jpg", in the samples' order.

    Attributes:
        packed: [B] uint8 on the CPU: the bytes of each path and a zero byte, which no path holds. As many strings would take nearly four
            times the memory, for as long as the run trains.
    """

    packed: Tensor

    @classmethod
    def of(cls, paths: Iterable[str]) -> FileNames:
        """These paths, of one sample at least."""
        content = b"".join(os.fsencode(path) + b"\0" for path in paths)
        return cls(torch.frombuffer(bytearray(content), dtype=torch.uint8))

    def at(self, places: Sequence[int]) -> list[str]:
        """The paths of the samples at these places, as they are: they may hold what no terminal should get."""
        paths = self.packed.numpy().tobytes().split(b"\0")
        return [os.fsdecode(paths[place]) for place in places]
