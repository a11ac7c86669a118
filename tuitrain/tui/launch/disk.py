"""What the launcher wants to know of the disk. A disk may be slow: everything here is called from a thread."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from tuitrain import paths
from tuitrain.array_files import SUFFIX, is_array_file, names_in, sorted_out
from tuitrain.config import DATA
from tuitrain.files import mode_at
from tuitrain.image_folders import folders_in, layout_of
from tuitrain.import_strings import is_import_string
from tuitrain.text import clean
from tuitrain.tui.launch import last
from tuitrain.tui.launch.own_recipes import OwnRecipe, own_recipes


class Folder(msgspec.Struct, frozen=True):
    """What a start would find behind a `data` value that is no built-in data set; `bad` says that it would be refused."""

    data: str
    words: str
    bad: bool = False


class Disk(msgspec.Struct, frozen=True):
    """One look: whether CIFAR-10 is there, what is behind `data`, the last launch, and recipes of the person's own."""

    cifar10: bool
    folder: Folder | None
    last: last.LastLaunch | None
    recipes: tuple[OwnRecipe, ...]


def look(data: str) -> Disk:
    """Look at the disk; whatever cannot be read is as if it were not there."""
    return Disk(paths.find_cifar10() is not None, None if data in DATA else look_behind(data), last.read(), own_recipes())


def look_behind(data: str) -> Folder:
    """What stands behind a path or an import string."""
    folder = Path(os.path.expanduser(data))
    try:
        if is_array_file(folder):
            return _arrays(data, folder)
        mode = mode_at(folder)
        if mode is None or not stat.S_ISDIR(mode):
            return _no_folder(data, mode is not None)
        here = folders_in(folder)
        if paths.batches_folder(folder) is not None:
            return Folder(data, "a folder with CIFAR-10 batches")
        layout = layout_of(folder, here)
    except (OSError, ValueError):
        return Folder(data, "this folder cannot be read", bad=True)
    if layout is None:
        return Folder(data, "this folder has no train/ in it", bad=True)
    if layout.test is None:
        images = f"{layout.train}/ alone" if layout.train else f"{len(here)} classes"
        return Folder(data, f"{images}: a fifth is held out")
    return Folder(data, f"a folder with {layout.train}/ and {layout.test}/")


def _arrays(data: str, file: Path) -> Folder:
    try:
        named = sorted_out(names_in(file))
    except ValueError:
        return Folder(data, "this is no file of arrays", bad=True)
    if named is None:
        return Folder(data, "it has no arrays x_train and y_train", bad=True)
    if named.test is None:
        return Folder(data, f"{clean(named.train[0])}: a fifth is held out")
    return Folder(data, f"arrays {clean(named.train[0])} and {clean(named.test[0])}")


def _no_folder(data: str, exists: bool) -> Folder:
    if exists:
        return Folder(data, "this is no folder and no .npz file", bad=True)
    if is_import_string(data):
        return Folder(data, "Python code makes it")
    if "://" in data:
        return Folder(data, "an address: fetch it first", bad=True)
    return Folder(data, f"there is no such {'file' if data.lower().endswith(SUFFIX) else 'folder'}", bad=True)
