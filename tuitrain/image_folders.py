"""How a folder of images may be laid out: a part to train on and one to test with, the first alone, or the folders of the classes alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
TRAIN_PART = "train"
TEST_PARTS = ("test", "val", "valid", "validation")
"""What samples to test with are called; the first of them that is there counts."""
TRAIN_FOLDERS = (TRAIN_PART, "training")
TEST_FOLDERS = ("test", "testing", *TEST_PARTS[1:])
"""What the folders of the parts are called, in capitals too; the first of them that is there counts."""
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".7z")


class Layout(NamedTuple):
    """Where the images are.

    Attributes:
        train: the folder in which the folders of the classes are; "" where that is the folder of images itself.
        test: the one with those to test with; `None` where some of the others are held out.
    """

    train: str
    test: str | None


def layout_of(folder: Path, here: Collection[str]) -> Layout | None:
    """How `folder` is laid out; `None` where it is none of images, or a part of one.

    Its parts are known in capitals too, and as `training` and `testing`: people share data sets that they may not rename.

    Args:
        here: the folders in it.

    Raises:
        OSError: its parent cannot be read.
    """
    train, test = training_part(here), testing_part(here)
    if train is not None:
        return Layout(train, test)
    if test is not None or len(here) < 2 or is_part(folder):
        return None
    return Layout("", None) if all(holds_images(folder / name) for name in here) else None


def training_part(here: Collection[str]) -> str | None:
    """Which of the folders `here` has the images to train on."""
    return _first_called(TRAIN_FOLDERS, here)


def testing_part(here: Collection[str]) -> str | None:
    """Which of the folders `here` has the images to test with."""
    return _first_called(TEST_FOLDERS, here)


def _first_called(names: Collection[str], here: Collection[str]) -> str | None:
    # Of names that differ in capitals the one without any comes last.
    called = {name.lower(): name for name in sorted(here)}
    return next((called[name] for name in names if name in called), None)


def folders_in(folder: Path) -> list[str]:
    """The names of the visible folders in `folder`, sorted.

    Raises:
        OSError: it cannot be read.
    """
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())


def is_part(folder: Path) -> bool:
    """Whether a folder is the one part of a folder of images that is beside another.

    Raises:
        OSError: its parent cannot be read.
    """
    return folder.name.lower() in (*TRAIN_FOLDERS, *TEST_FOLDERS) and training_part(folders_in(folder.parent)) is not None


def is_image(entry: os.DirEntry[str]) -> bool:
    """Whether something has an image's name."""
    return entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith(".")


def is_archive(name: str) -> bool:
    """Whether a file has the name of something that is to be unpacked."""
    return name.lower().endswith(_ARCHIVES)


def archive_in(folder: Path) -> str | None:
    """A file in the folder that is to be unpacked, as far as that can be read."""
    return _first(folder, lambda entry: is_archive(entry.name))


def file_in(folder: Path, end: str = "") -> str | None:
    """A visible file in the folder whose name ends so, as far as that can be read."""
    return _first(folder, lambda entry: entry.name.endswith(end) and not entry.name.startswith(".") and entry.is_file())


def _first(folder: Path, fits: Callable[[os.DirEntry[str]], bool]) -> str | None:
    """The first name in the folder, of those that fit, as far as that can be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        return min((entry.name for entry in entries if fits(entry)), default=None)
    return None


def holds_images(folder: Path) -> bool:
    """Whether there is one in the folder itself, as far as that can be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        return any(map(is_image, entries))
    return False


def held_out(labels: list[int]) -> list[bool]:
    """Which samples are held out to test with: the first fifth of each class, one at least."""
    left = dict.fromkeys(labels, 0)
    for label in labels:
        left[label] += 1
    left = {label: max(count // 5, 1) for label, count in left.items()}
    held = []
    for label in labels:
        held.append(left[label] > 0)
        left[label] -= 1
    return held
