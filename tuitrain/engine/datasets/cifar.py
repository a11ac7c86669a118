"""Reads `cifar-10-batches-py`, without torchvision and without trusting its pickles."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tuitrain.config import ConfigError
from tuitrain.engine.datasets.samples import Dataset, Split, images
from tuitrain.engine.places import one_line
from tuitrain.paths import CIFAR10_BATCHES
from tuitrain.text import clean

*TRAIN_FILES, TEST_FILE = CIFAR10_BATCHES
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

# A real batch has 31 MB.
_MAX_BYTES = 100_000_000
_NUMPY_MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
_ALLOWED = {(module, name) for module in _NUMPY_MODULES for name in ("_reconstruct", "_frombuffer", "ndarray", "dtype")}
_ALLOWED.add(("_codecs", "encode"))

Rows = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def read_cifar10(folder: Path, source: str) -> Dataset:
    """CIFAR-10 from a `cifar-10-batches-py` folder, in the order of its files.

    Args:
        folder: holds `data_batch_1` to `data_batch_5`, `test_batch` and, for the names of the classes, `batches.meta`.
        source: what `Dataset.source` shall be.

    Raises:
        ConfigError: a file is missing, damaged, or holds anything but arrays and plain values.
    """
    check_batches(folder)
    train, test = (_split([_read_batch(folder / name) for name in names]) for names in (TRAIN_FILES, (TEST_FILE,)))
    return Dataset("cifar10", source, train, test, _class_names(folder / "batches.meta"))


def check_batches(folder: Path) -> None:
    """Raises: ConfigError: a file is missing."""
    missing = [name for name in CIFAR10_BATCHES if not (folder / name).is_file()]
    if missing:
        raise ConfigError(f"data: {clean(str(folder))} has no {', '.join(missing)}; CIFAR-10 needs all of its six batches.")


class _ArraysOnly(pickle.Unpickler):
    """Builds arrays, dictionaries, lists and strings; a pickle that asks for any other function is refused before it is called."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no data batch needs")
        return super().find_class(module, name)


def _read_pickle(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise pickle.UnpicklingError("it is too large for a data batch")
        with path.open("rb") as file:
            table = _ArraysOnly(file, encoding="latin1").load()
    # A damaged pickle raises nearly anything.
    except Exception as error:
        raise ConfigError(f"data: {clean(str(path))} is not a CIFAR-10 batch: {one_line(error)}.") from None
    if not isinstance(table, dict):
        raise ConfigError(f"data: {clean(str(path))} is not a CIFAR-10 batch: it holds a {type(table).__name__}.")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in table.items()}


def _read_batch(path: Path) -> tuple[Rows, list[int]]:
    """Rows [N, 3072] uint8, each red, then green, then blue, and labels [N] of one file."""
    table = _read_pickle(path)
    data, labels = table.get("data"), table.get("labels")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3072 or len(data) == 0:
        raise ConfigError(f"data: {clean(str(path))} is not a CIFAR-10 batch: its images are not an array of N rows of 3072 bytes.")
    if not isinstance(labels, list) or len(labels) != len(data) or not all(type(label) is int and 0 <= label < 10 for label in labels):
        raise ConfigError(f"data: {clean(str(path))} is not a CIFAR-10 batch: its labels are not {len(data)} numbers from 0 to 9.")
    # An array from a newer pickle may be read-only, which torch warns of.
    return np.require(data, requirements=["C", "W"]), labels


def _split(batches: Sequence[tuple[Rows, list[int]]]) -> Split:
    pixels = torch.empty(sum(len(rows) for rows, _ in batches), 32, 32, 3, dtype=torch.uint8)
    first = 0
    for rows, _ in batches:
        part = pixels[first : first + len(rows)]
        planes = torch.from_numpy(rows).view(-1, 3, 32, 32)
        # Colour by colour takes less than half the time of one transposed copy.
        for colour in range(3):
            part[..., colour].copy_(planes[:, colour])
        first += len(rows)
    return Split(images(pixels), torch.tensor([label for _, labels in batches for label in labels], dtype=torch.int64))


def _class_names(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return CLASSES
    names = _read_pickle(path).get("label_names")
    if not isinstance(names, list) or len(names) != len(CLASSES):
        return CLASSES
    return tuple(clean(name.decode("latin1") if isinstance(name, bytes) else str(name)) for name in names)
