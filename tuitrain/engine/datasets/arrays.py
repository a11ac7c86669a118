"""Data in a file of NumPy's arrays, such as Keras' mnist.npz or one of MedMNIST's. An exported script has these functions too."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic
from PIL import Image

from tuitrain import words
from tuitrain.allowance import free_memory
from tuitrain.array_files import Named
from tuitrain.config import ConfigError
from tuitrain.engine.datasets.folder_contents import mixing_key
from tuitrain.engine.places import one_line
from tuitrain.image_folders import held_out
from tuitrain.text import clean, first_few


class Pictures:
    """Images of bytes [N, H, W] or [N, H, W, 3] with their labels, as a `Dataset` of Pillow's."""

    def __init__(self, images: Any, labels: Any) -> None:
        self.images, self.targets = images, labels

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> Any:
        return Image.fromarray(self.images[index]), self.targets[index]


def part_of(inputs: Any, labels: Any) -> Any:
    """Inputs and labels, as images where they are bytes [N, H, W], or [N, H, W, C] or [N, C, H, W] of one or three colours."""
    if inputs.dtype != np.uint8 or inputs.ndim not in (3, 4):
        return inputs, labels
    pixels = inputs
    if pixels.ndim == 4 and pixels.shape[-1] not in (1, 3):
        pixels = pixels.transpose(0, 2, 3, 1)
    if pixels.ndim == 4 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    return Pictures(pixels, labels) if pixels.ndim == 3 or pixels.shape[-1] == 3 else (inputs, labels)


def flat(labels: Any) -> Any:
    """Class numbers [N, 1] as [N]; all others as they are."""
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 and labels.dtype.kind in "iu" else labels


def parted(inputs: Any, labels: Any) -> Any:
    """Inputs and labels of two parts: a fifth of each class, by a hash of the samples' numbers, is to test with."""
    order = sorted(range(len(labels)), key=lambda number: mixing_key(str(number)))
    inputs, labels = inputs[order], labels[order]
    are_classes = labels.ndim == 1 and labels.dtype.kind in "iu"
    held = np.array(held_out(labels.tolist() if are_classes else [0] * len(labels)))
    return (inputs[~held], labels[~held]), (inputs[held], labels[held])


def first_image(file: Path, named: Named) -> Any:
    """A black image of Pillow's such as those of a file, unread; `None` where its inputs are none, or nobody can tell."""
    try:
        with ZipFile(file) as archive, archive.open(f"{named.train[0]}.npy") as array:
            read_header = read_array_header_1_0 if read_magic(array) == (1, 0) else read_array_header_2_0
            shape, _, dtype = read_header(array)
    except (OSError, ValueError, BadZipFile):
        return None
    part = part_of(np.zeros((1, *shape[1:]), dtype), np.zeros(1))
    return part[0][0] if isinstance(part, Pictures) else None


def in_words(file: Path, named: Named) -> str:
    """What is taken of it, as a sentence."""
    train, test = (" and ".join(map(clean, names)) for names in (named.train, named.test or ()))
    parts = f"{train} are trained with, and {test} tested with" if test else f"{train} are taken, a fifth of the samples to test with"
    left_out = f"; left out: {clean(first_few(named.left_out))}" if named.left_out else ""
    return f"Data: of {clean(file.name)} {parts}{left_out}."


def read(file: Path, named: Named) -> tuple[Any, Any]:
    """The part to train with and the one to test with, each (inputs [N, ...], labels [N] or [N, ...]) or `Pictures`.

    Raises:
        ConfigError: the file or an array cannot be read, there is no memory for them, or there are not as many labels as inputs.
    """
    where = f"data: {clean(str(file))}"
    try:
        arrays = np.load(file, allow_pickle=False)
    except (OSError, ValueError, BadZipFile) as error:
        raise ConfigError(f"{where} cannot be read: {one_line(error)}.") from error
    with arrays:
        needed, free = sum(arrays.zip.getinfo(f"{name}.npy").file_size for name in named.taken), free_memory()
        if needed > free:
            raise ConfigError(f"{where} takes {words.size(needed)} of memory, and {words.size(free)} are free; it must be smaller.")
        train = _pair(where, arrays, named.train)
        train, test = parted(*train) if named.test is None else (train, _pair(where, arrays, named.test))
    return part_of(*train), part_of(*test)


def _pair(where: str, arrays: Any, names: tuple[str, str]) -> tuple[Any, Any]:
    inputs, labels = (_array(where, arrays, name) for name in names)
    if inputs.ndim == 0 or labels.ndim == 0 or len(inputs) != len(labels):
        both = " and ".join(f"{clean(name)} {list(array.shape)}" for name, array in zip(names, (inputs, labels), strict=True))
        raise ConfigError(f"{where} has {both}; they must be as many inputs as labels, on the first axis.")
    return inputs, flat(labels)


def _array(where: str, arrays: Any, name: str) -> Any:
    try:
        return arrays[name]
    except Exception as error:  # of a damaged file, whatever zlib, zipfile and NumPy raise
        raise ConfigError(f"{where}: the array {clean(name)} cannot be read: {one_line(error)}.") from error
