"""A file of NumPy's arrays, as `numpy.savez` writes one, and which of them are the inputs and the labels of which part."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from tuitrain.config import ConfigError
from tuitrain.image_folders import TEST_PARTS, TRAIN_PART
from tuitrain.text import clean, first_few

SUFFIX = ".npz"
_WANTED = "x_train and y_train, with x_test and y_test where there is test data, or x and y"
"""What such a file has to hold, in words."""
_INPUTS = ("x", "inputs", "input", "images", "image", "data", "features")
_LABELS = ("y", "labels", "label", "targets", "target")
_UNNAMED = ("arr_0", "arr_1")
"""What NumPy calls inputs and labels that were saved without names."""
_PARTS = sorted((TRAIN_PART, *TEST_PARTS), key=len, reverse=True)


class Named(NamedTuple):
    """What the arrays are called.

    Attributes:
        train: inputs and labels to train with.
        test: those to test with; `None` where some of the others are held out.
        left_out: all others.
    """

    train: tuple[str, str]
    test: tuple[str, str] | None
    left_out: tuple[str, ...]

    @property
    def taken(self) -> tuple[str, ...]:
        """All that are not: inputs and labels of each part."""
        return (*self.train, *(self.test or ()))


def is_array_file(path: Path) -> bool:
    """Whether it is a file with the name of one."""
    return path.suffix.lower() == SUFFIX and os.path.isfile(path)


def names_in(file: Path) -> list[str]:
    """What its arrays are called; none of them is read.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such file.
    """
    import zipfile

    try:
        with zipfile.ZipFile(file) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from None


def named_in(file: Path) -> Named:
    """What the arrays of a file are called.

    Raises:
        ConfigError: it cannot be read, or there are no inputs and labels in it.
    """
    where = f"data: {clean(str(file))}"
    try:
        names = names_in(file)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise ConfigError(f"{where} is no file of arrays, as numpy.savez writes one, or not all of it.") from None
    named = sorted_out(names)
    if named is None:
        raise ConfigError(f"{where} holds {clean(first_few(names)) or 'nothing'}; it must hold {_WANTED}.")
    return named


def sorted_out(names: Collection[str]) -> Named | None:
    """Which array is what, by the words in their names, such as `x_train` or `test_labels`; `None` where no inputs and labels are found.

    Of several parts to test with the first of `TEST_PARTS` counts.
    """
    if sorted(names) == [*_UNNAMED]:
        return Named(_UNNAMED, None, ())
    parts: dict[str, dict[str, str]] = {}
    for name in names:
        part, what = _words(name)
        parts.setdefault(part, {}).setdefault(what, name)
    pairs = {part: pair for part, arrays in parts.items() if (pair := _pair(arrays)) is not None}
    train = pairs.get(TRAIN_PART) or pairs.get("")
    if train is None:
        return None
    test = next((pairs[part] for part in TEST_PARTS if part in pairs), None)
    return Named(train, test, tuple(name for name in names if name not in (*train, *(test or ()))))


def _words(name: str) -> tuple[str, str]:
    """Which part an array is of, "" where its name does not say, and what it is."""
    lower = name.lower()
    part = next((part for part in _PARTS if part in lower), "")
    return part, lower.replace(part, "", 1).strip("_-. ")


def _pair(arrays: dict[str, str]) -> tuple[str, str] | None:
    inputs, labels = (next((arrays[word] for word in words if word in arrays), None) for words in (_INPUTS, _LABELS))
    return None if inputs is None or labels is None else (inputs, labels)
