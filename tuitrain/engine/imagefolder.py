"""A folder of images, `train/<class>/*.png|jpg` and `test/<class>/…` or `val/…`: what is in it, and whether it can be trained on."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuitrain.config import ConfigError
from tuitrain.engine import decoded
from tuitrain.engine.file_names import FileNames
from tuitrain.engine.left_out import LeftOut
from tuitrain.engine.samples import Dataset, ImageFile, Interrupted, Split, images
from tuitrain.events import Notice, Progress
from tuitrain.paths import TEST_PARTS, test_part
from tuitrain.text import clean, nearest

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
# Part of every fingerprint: another number makes every cache of decoded images void.
_FORMAT = 3

# Name, size in bytes and time of change in nanoseconds of each image of a class folder, sorted.
Listing = list[tuple[str, int, int]]


@dataclass(frozen=True)
class Contents:
    """What the folder holds: for each part the images of each class, and what is no sample of any. `test` is the part to test with."""

    classes: tuple[str, ...]
    test: str
    parts: dict[str, dict[str, Listing]]
    left_out: LeftOut

    def fingerprint(self) -> str:
        """Changes when any file is added, removed, renamed, resized or written to."""
        digest = hashlib.blake2b(repr((_FORMAT, self.classes)).encode(), digest_size=16)
        for part, folders in self.parts.items():
            for name in self.classes:
                names, *numbers = zip(*folders[name], strict=True)
                digest.update(repr((part, name, numbers)).encode())
                # No name holds a zero byte.
                digest.update(os.fsencode("\0".join(names)))
        return digest.hexdigest()

    def files(self, part: str) -> list[ImageFile]:
        """The images of a part in training order: one fixed order that mixes the classes, because class after class does not train."""
        folders = self.parts[part]
        files = [ImageFile(f"{part}/{name}/{file}", label) for label, name in enumerate(self.classes) for file, _, _ in folders[name]]
        return sorted(files, key=lambda file: mixing_key(file.name))


def mixing_key(name: str) -> tuple[bytes, str]:
    """Where an image stands in its part: by a hash of its path in the folder, as `train/cat/0001.jpg`."""
    return hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), name


def load_imagefolder(folder: Path, ending: Callable[[], bool]) -> Generator[Notice | Progress, None, Dataset]:
    """The images of `folder` [N, 3, 32, 32], from the cache where the folder has not changed since they were decoded.

    Args:
        folder: absolute; holds `train/<class>/`, and `test/<class>/` or another of `TEST_PARTS`.
        ending: asked now and then; `True` ends the work.

    Raises:
        ConfigError: the folder cannot be read, has no such folders, a class lacks images, or too many images cannot be read.
        Interrupted: `ending` said so.
    """
    yield Progress(phase="checking images")
    contents = scan(folder, ending)
    if contents.test != TEST_PARTS[0]:
        yield Notice(text=f"The images in {contents.test}/ are the test data: the folder has no {TEST_PARTS[0]}/.")
    for text in contents.left_out.sentences(SUFFIXES):
        yield Notice(text=text)
    fingerprint = contents.fingerprint()
    result = decoded.load(folder, fingerprint)
    if result is None:
        # With it comes Pillow, for which no other run waits.
        from tuitrain.engine.decode import decode

        result = yield from decode(folder, contents.files("train"), contents.files(contents.test), contents.classes, ending)
        try:
            decoded.save(folder, fingerprint, result)
        except OSError as error:
            text = f"The decoded images could not be kept for the next start: {clean(error.strerror or str(error))}."
            yield Notice(level="warning", text=text)
    yield from result.notices
    train = Split(images(result.train_pixels), result.train_labels)
    test = Split(images(result.test_pixels), result.test_labels, files=FileNames(result.test_files))
    return Dataset("imagefolder", str(folder), train, test, tuple(clean(name) for name in contents.classes))


def scan(folder: Path, ending: Callable[[], bool]) -> Contents:
    """Lists the images and checks that every class has some in both parts.

    Raises:
        ConfigError: it has not, or a folder cannot be read.
        Interrupted: `ending` said so.
    """
    test = _check_parts(folder)
    classes = tuple(_folders(folder / "train"))
    if not classes:
        wanted = "train/<class>/ with images of one class each"
        raise ConfigError(f"data: {_shown(folder / 'train')} holds no class folder; it must hold {wanted}.")
    _check_test_classes(folder, test, classes)
    parts: dict[str, dict[str, Listing]] = {}
    left_out = LeftOut()
    for part in ("train", test):
        parts[part] = {}
        left_out.beside += _images_beside(folder, part)
        for name in classes:
            if ending():
                raise Interrupted
            listing = _images(folder, f"{part}/{name}", left_out)
            if not listing:
                within = any(path.startswith(f"{part}/{name}/") for path in left_out.folders)
                hint = " It holds folders; its images must be in it itself." if within else ""
                raise ConfigError(f"data: {_shown(folder / part / name)} holds no image ({', '.join(SUFFIXES)}).{hint}")
            parts[part][name] = listing
    return Contents(classes, test, parts, left_out)


def _check_parts(folder: Path) -> str:
    """The part to test with."""
    here = _folders(folder)
    test = test_part(here)
    wanted = "a folder of images holds train/<class>/ and test/<class>/ or val/<class>/"
    if "train" not in here and test is None:
        if folder.name in ("train", *TEST_PARTS) and "train" in _folders(folder.parent):
            raise ConfigError(f"data: {_shown(folder)} is one part of a data set; give its parent, {_shown(folder.parent)}.")
        inside = next((name for name in here if os.path.isdir(folder / name / "train")), None)
        hint = f" Did you mean {_shown(folder / inside)}?" if inside else _alike(here, "train")
        empty = "is empty" if not os.listdir(folder) else "holds no folder train and no cifar-10-batches-py"
        raise ConfigError(f"data: {_shown(folder)} {empty}; {wanted}.{hint}")
    if "train" not in here or test is None:
        part = "test" if "train" in here else "train"
        raise ConfigError(f"data: {_shown(folder)} holds no folder {part}; {wanted}.{_alike(here, part)}")
    return test


def _alike(here: Sequence[str], part: str) -> str:
    """A sentence on a folder that seems to be the part, behind a space."""
    alikes = {"train": ("Train", "training"), "test": ("Test", "testing", "Val")}[part]
    alike = next((name for name in alikes if name in here), None)
    return f" It has '{alike}': rename that to '{part}'." if alike else ""


def _check_test_classes(folder: Path, test: str, classes: tuple[str, ...]) -> None:
    tests = _folders(folder / test)
    absent = [name for name in classes if name not in tests]
    extra = [name for name in tests if name not in classes]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        hint = nearest(absent[0], extra)
        raise ConfigError(f"data: the class {clean(absent[0])!r}{more} of train/ is missing in {_shown(folder / test)}.{clean(hint)}")
    if extra:
        raise ConfigError(f"data: the class {clean(extra[0])!r} of {test}/ is missing in {_shown(folder / 'train')}.")


def _folders(folder: Path) -> list[str]:
    """The names of the visible folders in `folder`, sorted."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    except OSError as error:
        raise _unreadable(folder, error) from None


def _images(folder: Path, place: str, left_out: LeftOut) -> Listing:
    """The images in `folder/place`, the folder of a class; `left_out` gets what else is there."""
    listing: Listing = []
    with _entries(folder / place) as entries:
        for entry in entries:
            if _is_image(entry):
                listing += _listed(entry)
            elif not entry.name.startswith("."):
                left_out.add(f"{place}/{entry.name}", is_folder=entry.is_dir())
    return sorted(listing)


def _images_beside(folder: Path, part: str) -> list[str]:
    """The images in `folder/part` itself."""
    with _entries(folder / part) as entries:
        return [f"{part}/{entry.name}" for entry in entries if _is_image(entry) and entry.is_file()]


def _is_image(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith(".")


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
