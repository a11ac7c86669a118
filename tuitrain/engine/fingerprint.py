"""What the data and the person's own code are, as short marks that change when these do: for a run that goes on with them later."""

from __future__ import annotations

import sys
import zlib
from contextlib import suppress
from pathlib import Path

import torch

from tuitrain.config import RunConfig, own_functions
from tuitrain.engine.checksum import checksum
from tuitrain.engine.datasets.samples import Dataset, rows

_SAMPLES, _BYTES = 256, 1 << 22
"""Of so many samples, and so many bytes, the inputs are looked at."""


def of_data(dataset: Dataset) -> str:
    """A mark of all labels that are known, and of samples from all over the data set: a start does not wait until all were looked at."""
    mark = 0
    for split in dataset.splits:
        size = max(split.inputs[0].numel() * split.inputs.element_size(), 1)
        count = min(len(split), _SAMPLES, max(_BYTES // size, 1))
        looked_at = torch.arange(count, device=split.inputs.device) * len(split) // count
        inputs, labels = rows(split, looked_at)
        mark = checksum(inputs, checksum(labels if split.reads_labels else split.labels, mark))
    return f"{mark:08x}"


def of_code(config: RunConfig) -> dict[str, str]:
    """The files of the person's own model and data, by their names; one that cannot be read is left out."""
    marks = {}
    for value in own_functions(config).values():
        path = getattr(sys.modules.get(value.partition(":")[0]), "__file__", None)
        if path is not None:
            with suppress(OSError):
                marks[Path(path).name] = f"{zlib.crc32(Path(path).read_bytes()):08x}"
    return marks
