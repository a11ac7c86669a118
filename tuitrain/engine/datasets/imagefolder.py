"""A folder of images, such as `train/<class>/*.png|jpg` and `test/<class>/…`: what is in it, and whether it can be trained on."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tuitrain.array_files import SUFFIX
from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.control import Interrupted
from tuitrain.engine.datasets.folder_contents import Contents, Listing, in_part
from tuitrain.engine.datasets.folder_pixels import splits
from tuitrain.engine.datasets.left_out import LeftOut
from tuitrain.engine.datasets.samples import Dataset
from tuitrain.events import Notice, Progress
from tuitrain.image_folders import (
    SUFFIXES,
    TEST_PARTS,
    TRAIN_PART,
    Layout,
    archive_in,
    file_in,
    folders_in,
    held_out,
    holds_images,
    is_image,
    is_part,
    layout_of,
    testing_part,
)
from tuitrain.text import clean, nearest


def load_imagefolder(folder: Path, config: RunConfig, ending: Callable[[], bool]) -> Generator[Notice | Progress, None, Dataset]:
    """The images of `folder` [N, 3, H, W], as `folder_pixels` has them.

    Args:
        folder: absolute; laid out as `image_folders` has it.
        config: its `image_size` is to how many pixels, in height and in width, the images are brought.
        ending: asked now and then; `True` ends the work.

    Raises:
        ConfigError: the folder cannot be read, has no such folders, a class lacks images, or too many images cannot be read.
        Interrupted: `ending` said so.
    """
    yield Progress(phase="checking images")
    contents = scan(folder, ending)
    if contents.layout.test is None:
        held = held_out(contents.labels)
        how_many = f"{sum(held):,} of {len(held):,} images, a fifth of each class by a hash of their names"
        yield Notice(text=f"The folder has no {TEST_PARTS[0]}/: {how_many}, are held out as the test data.")
    elif contents.layout.test != TEST_PARTS[0]:
        yield Notice(text=f"The images in {contents.layout.test}/ are the test data: the folder has no {TEST_PARTS[0]}/.")
    for text in contents.left_out.sentences(SUFFIXES):
        yield Notice(text=text)
    train, test = yield from splits(folder, config, contents, ending)
    return Dataset("imagefolder", str(folder), train, test, tuple(clean(name) for name in contents.classes))


def scan(folder: Path, ending: Callable[[], bool]) -> Contents:
    """Lists the images and checks that every class has some in both parts.

    Raises:
        ConfigError: it has not, or a folder cannot be read.
        Interrupted: `ending` said so.
    """
    layout = _layout(folder)
    classes = tuple(_folders(folder / layout.train))
    if not classes:
        wanted = "train/<class>/ with images of one class each"
        raise ConfigError(f"data: {_shown(folder / layout.train)} holds no class folder; it must hold {wanted}.")
    if layout.test is not None:
        _check_test_classes(folder, layout.train, layout.test, classes)
    parts: dict[str, dict[str, Listing]] = {}
    left_out = LeftOut()
    for part in (part for part in layout if part is not None):
        parts[part] = {}
        left_out.beside += _images_beside(folder, part)
        for name in classes:
            if ending():
                raise Interrupted
            place = in_part(part, name)
            listing = _images(folder, place, left_out)
            if not listing:
                within = any(path.startswith(f"{place}/") for path in left_out.folders)
                hint = " It holds folders; its images must be in it itself." if within else ""
                raise ConfigError(f"data: {_shown(folder / place)} holds no image ({', '.join(SUFFIXES)}).{hint}")
            if layout.test is None and len(listing) < 2:
                where = "where there is no test/, two are needed, one of them to test with"
                raise ConfigError(f"data: {_shown(folder / place)} holds one image; {where}.")
            parts[part][name] = listing
    return Contents(classes, layout, parts, left_out)


def _layout(folder: Path) -> Layout:
    """Raises: ConfigError: it is none of a folder of images, or it cannot be read."""
    here = _folders(folder)
    try:
        layout = layout_of(folder, here)
        part_alone = layout is None and is_part(folder)
    except OSError as error:
        raise _unreadable(folder.parent, error) from None
    if layout is not None:
        return layout
    wanted = "a folder of images holds train/<class>/ and test/<class>/ or val/<class>/, or <class>/ alone"
    if testing_part(here) is not None:
        raise ConfigError(f"data: {_shown(folder)} holds no folder {TRAIN_PART}; {wanted}.")
    if part_alone:
        raise ConfigError(f"data: {_shown(folder)} is one part of a data set; give its parent, {_shown(folder.parent)}.")
    if not os.listdir(folder):
        raise ConfigError(f"data: {_shown(folder)} is empty; {wanted}.")
    raise ConfigError(f"data: {_shown(folder)} holds no folder train and no cifar-10-batches-py; {wanted}.{_hint(folder, here)}")


def _hint(folder: Path, here: list[str]) -> str:
    """A sentence on what the folder has in the place of images, behind a space."""
    if inside := next((name for name in here if _seems_one(folder / name)), None):
        return f" Did you mean {_shown(folder / inside)}?"
    without = [name for name in here if not holds_images(folder / name)]
    if 0 < len(without) < len(here):
        return f" {clean(without[0])!r} in it holds no image."
    if packed := archive_in(folder):
        return f" {clean(packed)!r} in it is to be unpacked."
    if holds_images(folder):
        return " It holds images itself; those of each class must be in a folder of their own."
    if arrays := file_in(folder, SUFFIX):
        return f" The file of arrays {clean(arrays)!r} in it is data by itself."
    if other := file_in(folder / here[0]) if here else None:
        return f" '{clean(here[0])}/{clean(other)}' in it is no image that is taken ({', '.join(SUFFIXES)})."
    return " Other data comes from a function of your own: my_package.data:make_data."


def _seems_one(folder: Path) -> bool:
    """Whether a folder is one of images, as far as that can be read."""
    with suppress(OSError):
        return layout_of(folder, folders_in(folder)) is not None
    return False


def _check_test_classes(folder: Path, train: str, test: str, classes: tuple[str, ...]) -> None:
    tests = _folders(folder / test)
    absent = [name for name in classes if name not in tests]
    extra = [name for name in tests if name not in classes]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        hint = nearest(absent[0], extra)
        raise ConfigError(f"data: the class {clean(absent[0])!r}{more} of {train}/ is missing in {_shown(folder / test)}.{clean(hint)}")
    if extra:
        raise ConfigError(f"data: the class {clean(extra[0])!r} of {test}/ is missing in {_shown(folder / train)}.")


def _folders(folder: Path) -> list[str]:
    """Raises: ConfigError: it cannot be read."""
    try:
        return folders_in(folder)
    except OSError as error:
        raise _unreadable(folder, error) from None


def _images(folder: Path, place: str, left_out: LeftOut) -> Listing:
    """The images in `folder/place`, the folder of a class; `left_out` gets what else is there."""
    listing: Listing = []
    with _entries(folder / place) as entries:
        for entry in entries:
            if is_image(entry):
                listing += _listed(entry)
            elif not entry.name.startswith("."):
                left_out.add(f"{place}/{entry.name}", is_folder=entry.is_dir())
    return sorted(listing)


def _images_beside(folder: Path, part: str) -> list[str]:
    """The images in `folder/part` itself."""
    with _entries(folder / part) as entries:
        return [in_part(part, entry.name) for entry in entries if is_image(entry) and entry.is_file()]


def _listed(entry: os.DirEntry[str]) -> Listing:
    try:
        status = entry.stat()
    except OSError:
        # A link that leads nowhere, say: whoever decodes the images cannot read it, and names it.
        return [(entry.name, 0, 0)]
    # A pipe with an image's name would wait for ever.
    return [(entry.name, status.st_size, status.st_mtime_ns)] if stat.S_ISREG(status.st_mode) else []


@contextmanager
def _entries(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """What is in `folder`, scanned where that is possible as an open folder, in which each file is found without its whole path.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        if os.scandir not in os.supports_fd:
            with os.scandir(folder) as entries:
                yield entries
            return
        place = os.open(folder, os.O_RDONLY)
        try:
            with os.scandir(place) as entries:
                yield entries
        finally:
            os.close(place)
    except OSError as error:
        raise _unreadable(folder, error) from None


def _unreadable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(f"data: {_shown(folder)} cannot be read: {error.strerror}.")


def _shown(path: Path) -> str:
    return clean(str(path))
