"""A folder of images, `train/<class>/*.png|jpg` and `test/<class>/…`: what is in it, and whether it can be trained on."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuitrain.config import ConfigError
from tuitrain.engine import decoded
from tuitrain.engine.file_names import FileNames
from tuitrain.engine.samples import Dataset, ImageFile, Interrupted, Split, images
from tuitrain.events import Notice, Progress
from tuitrain.text import clean, nearest

SUFFIXES = (".png", ".jpg", ".jpeg")
# Part of every fingerprint: another number makes every cache of decoded images void.
_FORMAT = 3

# Name, size in bytes and time of change in nanoseconds of each image of a class folder, sorted.
Listing = list[tuple[str, int, int]]


@dataclass(frozen=True)
class Contents:
    """What the folder holds: for each part the images of each class."""

    classes: tuple[str, ...]
    parts: dict[str, dict[str, Listing]]

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
        folder: absolute; holds `train/<class>/` and `test/<class>/`.
        ending: asked now and then; `True` ends the work.

    Raises:
        ConfigError: the folder cannot be read, has no such folders, a class lacks images, or too many images cannot be read.
        Interrupted: `ending` said so.
    """
    yield Progress(phase="checking images")
    contents = scan(folder, ending)
    fingerprint = contents.fingerprint()
    result = decoded.load(folder, fingerprint)
    if result is None:
        # With it comes Pillow, for which no other run waits.
        from tuitrain.engine.decode import decode

        result = yield from decode(folder, contents.files("train"), contents.files("test"), contents.classes, ending)
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
    _check_parts(folder)
    classes = tuple(_folders(folder / "train"))
    if not classes:
        wanted = "train/<class>/ with images of one class each"
        raise ConfigError(f"data: {_shown(folder / 'train')} holds no class folder; it must hold {wanted}.")
    _check_test_classes(folder, classes, tuple(_folders(folder / "test")))
    parts: dict[str, dict[str, Listing]] = {}
    for part in ("train", "test"):
        parts[part] = {}
        for name in classes:
            if ending():
                raise Interrupted
            listing = _images(folder / part / name)
            if not listing:
                raise ConfigError(f"data: {_shown(folder / part / name)} holds no image ({', '.join(SUFFIXES)}).")
            parts[part][name] = listing
    return Contents(classes, parts)


def _check_parts(folder: Path) -> None:
    here = _folders(folder)
    wanted = "a folder of images holds train/<class>/ and test/<class>/"
    if "train" not in here and "test" not in here:
        if folder.name in ("train", "test") and "train" in _folders(folder.parent):
            raise ConfigError(f"data: {_shown(folder)} is one part of a data set; give its parent, {_shown(folder.parent)}.")
        inside = next((name for name in here if os.path.isdir(folder / name / "train")), None)
        hint = f" Did you mean {_shown(folder / inside)}?" if inside else ""
        empty = "is empty" if not os.listdir(folder) else "holds no folder train and no cifar-10-batches-py"
        raise ConfigError(f"data: {_shown(folder)} {empty}; {wanted}.{hint}")
    for part, alikes in (("train", ("Train", "training")), ("test", ("Test", "testing", "val", "valid", "validation"))):
        if part not in here:
            alike = next((name for name in alikes if name in here), None)
            hint = f" It has '{alike}': rename that to '{part}'." if alike else ""
            raise ConfigError(f"data: {_shown(folder)} holds no folder {part}; {wanted}.{hint}")


def _check_test_classes(folder: Path, classes: tuple[str, ...], tests: tuple[str, ...]) -> None:
    absent = [name for name in classes if name not in tests]
    extra = [name for name in tests if name not in classes]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        hint = nearest(absent[0], extra)
        raise ConfigError(f"data: the class {clean(absent[0])!r}{more} of train/ is missing in {_shown(folder / 'test')}.{clean(hint)}")
    if extra:
        raise ConfigError(f"data: the class {clean(extra[0])!r} of test/ is missing in {_shown(folder / 'train')}.")


def _folders(folder: Path) -> list[str]:
    """The names of the visible folders in `folder`, sorted."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    except OSError as error:
        raise _unreadable(folder, error) from None


def _images(folder: Path) -> Listing:
    listing: Listing = []
    try:
        with _opened(folder) as place, os.scandir(place) as entries:
            for entry in entries:
                name = entry.name
                if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                    listing += _listed(entry)
    except OSError as error:
        raise _unreadable(folder, error) from None
    return sorted(listing)


def _listed(entry: os.DirEntry[str]) -> Listing:
    try:
        status = entry.stat()
    except OSError:
        # A link that leads nowhere, say: whoever decodes the images cannot read it, and names it.
        return [(entry.name, 0, 0)]
    # A pipe with an image's name would wait for ever.
    return [(entry.name, status.st_size, status.st_mtime_ns)] if stat.S_ISREG(status.st_mode) else []


@contextmanager
def _opened(folder: Path) -> Iterator[int | Path]:
    """What to scan `folder` by: where that is possible as an open folder, in which each file is found without its whole path."""
    if os.scandir not in os.supports_fd:
        yield folder
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        yield place
    finally:
        os.close(place)


def _unreadable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(f"data: {_shown(folder)} cannot be read: {error.strerror}.")


def _shown(path: Path) -> str:
    return clean(str(path))
